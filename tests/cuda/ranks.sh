#!/bin/bash
# Ranks on fake CUDA devices, one process and one device each: whatever they divide, the numbers are those of as many
# ranks in lockstep on the processor, up to rounding; the same bits in any order and in every run; and a single message
# if one dies.
. "$BT_SOURCE_DIR/tests/e2e/common.sh" || exit 1
. "$BT_SOURCE_DIR/tests/e2e/processes_common.sh" || exit 1
export FAKE_CUDA_DEVICES=3

closer() { close "$1" "$2" 1e-5 || fail "$1: other numbers than $2"; } # FOLDER OTHER

planned() { # FOLDER: rank 0's device holds the planned bytes
    expect "$(metric "$1" device_planned_bytes) == $(metric "$1" device_bytes) && $(metric "$1" device_bytes) > 0"
}

on_devices() { # RANKS INI SETTING...
    local ranks=$1 ini=$2
    shift 2
    run near "$ini" engine.ranks="$ranks" engine.executor=lockstep "$@"
    FAKE_CUDA_ORDER=1 run devices "$ini" engine.ranks="$ranks" engine.device=cuda "$@"
    closer devices near
    planned devices
    FAKE_CUDA_ORDER=lazy run again "$ini" engine.ranks="$ranks" engine.device=cuda "$@"
    same_bits devices again "of $ini from run to run, in another order ($*)"
    rm -r near devices
}

short=(engine.train_iters=4 engine.valid_step=4 engine.log_step=1)
for strategy in distributed zero1 zero2 zero3; do
    on_devices 2 reweight "${short[@]}" engine.strategy=$strategy
done
on_devices 3 reweight "${short[@]}" engine.strategy=zero2 engine.bucket=0 engine.zero_unit=1KiB
on_devices 2 logistic_hpo "${short[@]}"

# step by step, and with a separate allocation for every value
FAKE_CUDA_ORDER=1 run devices reweight "${short[@]}" engine.ranks=2 engine.device=cuda
BETTY_CUDA=sync run sync reweight "${short[@]}" engine.ranks=2 engine.device=cuda
same_bits devices sync "step by step"
BETTY_PLAN=off run unplanned reweight "${short[@]}" engine.ranks=2 engine.device=cuda
same_bits devices unplanned "without a plan"

# overlapping exchange with computation, and joining messages, gives the same bits
for overlap in true false; do
    for strategy in distributed zero3; do
        run "$strategy-$overlap" reweight "${short[@]}" engine.ranks=2 engine.device=cuda engine.strategy=$strategy \
            engine.overlap=$overlap engine.bucket=0
        planned "$strategy-$overlap"
    done
done
same_bits distributed-true distributed-false "of what is under way meanwhile"
same_bits zero3-true zero3-false "of what is under way meanwhile (zero3)"

# one rank for each device; runs without training, and resuming elsewhere
run all reweight "${short[@]}" engine.ranks=all engine.device=cuda
grep -q '3 ranks, each a process with its own device' out || fail "nothing is said of the ranks"
"$BETTY_RUN" "$examples/reweight.ini" --ranks 2 --device cuda --evaluate devices >out 2>err || fail "an evaluation"
"$BETTY_RUN" "$examples/reweight.ini" --ranks 8 --device cuda --plan >out 2>err || fail "a plan"
grep -q 'of rank 0 of 8' out || fail "a plan says nothing of the ranks"
for how in "--ranks 3 --device cuda" "--ranks 2 --device cpu" "--ranks 1 --device cuda"; do
    # shellcheck disable=SC2086 # words
    "$BETTY_RUN" --resume devices $how --set engine.train_iters=6 >out 2>err || fail "$how do not go on from two devices"
done

# invalid settings
refused() { # CODE TEXT OPTION...
    local due=$1 text=$2
    shift 2
    "$BETTY_RUN" "$examples/reweight.ini" --device cuda --output refused "$@" >out 2>err
    local code=$?
    [ $code -eq "$due" ] || fail "$*: exit code $code"
    grep -qF "$text" err || fail "$*: the message lacks: $text"
    [ "$(wc -l <err)" -eq 1 ] || fail "$*: more than one message"
    [ ! -e refused ] || fail "$*: a folder is left"
}
refused 2 "4 ranks are on this machine, and it has 3 CUDA devices: NCCL takes one for each rank" --ranks 4
refused 2 "ranks in lockstep run on the processor" --ranks 2 --set engine.executor=lockstep
FAKE_NCCL=absent refused 1 "ranks on CUDA devices need NCCL 2.10 or later, and there is no libnccl.so.2" --ranks 2

# a rank that is killed, exits, or diverges ends all of them
for rank in 0 2; do
    begin --device cuda --output "killed-$rank"
    kill -KILL "${ranks[$rank]}"
    ends "rank $rank killed" 1 "of 3 was ended by signal 9"
    grep -q 'betty-run: rank . of 3 was ended by signal 9' err || fail "rank $rank killed: another message"
done

parts() { # CODE TEXT SETTING
    "$BETTY_RUN" "$folder/run.ini" --device cuda --set "$3" --output "${3%%=*}" >out 2>err
    local code=$?
    [ $code -eq "$1" ] || fail "$3: exit code $code"
    [ "$(grep -c betty-run: err)" -eq 1 ] || fail "$3: not one message"
    grep -qF -- "$2" err || fail "$3: the message lacks: $2"
    none_left "$3"
}
parts 1 'of 3 has ended before the run' model.leaves=7
parts 1 'batch 7 has no labels' model.one_fails=7
parts 2 'model has other parameters, or another learning rate, on rank' model.differs=1
[ "$(ls /dev/shm/fake-nccl.* 2>/dev/null | wc -l)" -eq 0 ] || fail "shared memory is left"
