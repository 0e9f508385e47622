#!/bin/bash
# Ranks started by mpirun, on fake CUDA devices: NCCL's id is sent over MPI, and the bits are those of processes on one
# machine.
. "$BT_SOURCE_DIR/tests/e2e/common.sh" || exit 1
command -v mpirun >/dev/null || { echo "skipped: there is no mpirun"; exit 77; }
ldd "$BETTY_RUN" | grep -q libmpi || { echo "skipped: betty-run was built without MPI"; exit 77; }
ldd "$BETTY_RUN" | grep -q libasan && { echo "skipped: MPI's own memory is not ours to look at"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_plm_rsh_agent=false FAKE_CUDA_DEVICES=2
mpirun -n 2 true >out 2>&1 || { echo "skipped: mpirun starts nothing here: $(head -n 3 out)"; exit 77; }

short=(--threads 1 --device cuda --set engine.train_iters=4 --set engine.valid_step=4 --set engine.log_step=1)
for strategy in distributed zero3; do
    "$BETTY_RUN" "$examples/reweight.ini" "${short[@]}" --ranks 2 --set engine.strategy=$strategy --output processes >out 2>err ||
        fail "$strategy, as processes"
    mpirun -n 2 "$BETTY_RUN" "$examples/reweight.ini" "${short[@]}" --set engine.strategy=$strategy --set engine.overlap=true \
        --output mpi >out 2>err || fail "$strategy, by mpirun"
    [ "$(grep -c '2 ranks, each a process with its own device' out)" -eq 1 ] || fail "$strategy: not one line about ranks"
    cmp -s <(numbers mpi) <(numbers processes) || fail "$strategy: other numbers by mpirun"
    cmp -s mpi/checkpoints/*.safetensors processes/checkpoints/*.safetensors || fail "$strategy: another state by mpirun"
    rm -r mpi processes
done

# more ranks than devices
mpirun -n 3 "$BETTY_RUN" "$examples/reweight.ini" "${short[@]}" --output more >out 2>err && fail "three ranks on two devices"
grep -q '3 ranks are on this machine, and it has 2 CUDA devices' err || fail "three ranks on two devices: another message"
