#!/bin/bash
# Ranks started by mpirun: the numbers of ranks in lockstep, bit for bit; one rank is killed; a wrong setting.
. "$(dirname "$0")/common.sh" || exit 1
command -v mpirun >/dev/null || { echo "skipped: there is no mpirun"; exit 77; }
ldd "$BETTY_RUN" | grep -q libmpi || { echo "skipped: betty-run was built without MPI"; exit 77; }
ldd "$BETTY_RUN" | grep -q libasan && { echo "skipped: MPI's own memory is not ours to look at"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_plm_rsh_agent=false
mpirun -n 2 true >out 2>&1 || { echo "skipped: mpirun starts nothing here: $(head -n 3 out)"; exit 77; }
noise_images

alike() { # RANKS INI SETTING...
    local ranks=$1 ini=$2 setting settings=()
    shift 2
    for setting in "$@"; do settings+=(--set "$setting"); done
    run turns "$ini" "$@" engine.ranks="$ranks" engine.executor=lockstep engine.overlap=false
    mpirun -n "$ranks" "$BETTY_RUN" "$examples/$ini.ini" --threads 1 --output mpi "${settings[@]}" >out 2>err ||
        fail "$ini on $ranks ranks by mpirun"
    [ "$(grep -c 'ranks, each a process' out)" -eq 1 ] || fail "$ini: other ranks print, too: $(cat out)"
    cmp -s <(numbers mpi) <(numbers turns) || fail "$ini: other numbers of $ranks processes by mpirun"
    cmp -s mpi/checkpoints/*.safetensors turns/checkpoints/*.safetensors || fail "$ini: another state of $ranks processes"
    rm -r turns mpi
}

short=(engine.train_iters=6 engine.valid_step=6 engine.log_step=1)
alike 2 reweight "${short[@]}"
alike 3 reweight "${short[@]}" classifier.hidden=300 engine.overlap=true engine.bucket=64KiB
alike 2 sine "${short[@]}" engine.executor=processes
alike 3 maml "${short[@]}"
alike 3 reweight "${short[@]}" engine.strategy=zero3
alike 2 maml "${short[@]}" engine.strategy=zero2
alike 2 logistic_hpo "${short[@]}"
alike 2 reweight_cifar "${short[@]}" classifier.resnet=8 classifier.batch_size=20 reweight.batch_size=10 reweight.clean=1 \
    classifier.imbalance=2 classifier.valid_batch_size=50 engine.overlap=true
alike 2 language "${short[@]}" engine.train_iters=2 engine.valid_step=2 language.batch_size=15 mixture.batch_size=16

# resumed with another number of ranks, and another executor
mpirun -n 3 "$BETTY_RUN" "$examples/reweight.ini" --set engine.train_iters=20 --output first >out 2>err || fail "three ranks"
"$BETTY_RUN" --resume first --ranks 1 --set engine.train_iters=25 >out 2>err || fail "one rank does not go on"
mpirun -n 2 "$BETTY_RUN" --resume first --set engine.train_iters=30 >out 2>err || fail "two ranks do not go on"
[ -f first/checkpoints/step-30.safetensors ] || fail "nothing was left: $(ls first/checkpoints)"

mpirun -n 2 "$BETTY_RUN" "$examples/reweight.ini" --set classifier.wrong=1 --output wrong >out 2>err
[ $? -eq 2 ] || fail "a wrong setting: another exit code"
[ "$(grep -c 'betty-run: rank 0 of 2: .*wrong' err)" -eq 1 ] || fail "a wrong setting is not said once"
mpirun -n 2 "$BETTY_RUN" "$examples/reweight.ini" --ranks 3 >out 2>err && fail "another number of ranks than of processes"
grep -q 'ranks = 3, but 2 processes were started' err || fail "the message lacks the numbers"
for wrong in "--ranks 1" "--ranks all"; do
    # shellcheck disable=SC2086 # words
    mpirun -n 2 "$BETTY_RUN" "$examples/reweight.ini" $wrong >out 2>err && fail "$wrong: two processes are no ranks"
    grep -q 'ranks = 1, but 2 processes were started' err || fail "$wrong: the message lacks the numbers"
done
mpirun -n 1 "$BETTY_RUN" "$examples/reweight.ini" --output seeds : -n 1 "$BETTY_RUN" "$examples/reweight.ini" --output seeds \
    --seed 2 >out 2>err && fail "other settings on one rank"
grep -q 'rank 1 of 2 has other settings than rank 0' err || fail "other settings: another message"
mpirun -n 2 "$BETTY_RUN" "$examples/reweight.ini" --plan >out 2>err && fail "two processes plan"
grep -q 'this command does not train' err || fail "nothing is said of two processes that plan"

# one is killed: no process is left
rm -f out
mpirun -n 2 "$BETTY_RUN" "$examples/reweight.ini" --set engine.log_step=100 --output killed >out 2>err &
run=$!
for _ in $(seq 300); do
    grep -qF 'step ' out 2>/dev/null && break
    sleep 0.1
done
pkill -KILL -n -f "betty-run .*--output killed"
wait $run && fail "a rank was killed, and nobody has noticed"
for _ in $(seq 50); do
    pgrep -f "betty-run .*--output killed" >left || exit 0
    sleep 0.1
done
fail "processes are left"
