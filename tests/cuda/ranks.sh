#!/bin/bash
# Ranks on fake CUDA devices, each a process with one of its own: the numbers of as many ranks in lockstep on the processor but
# for rounding, whatever they divide; the same bits in any order and from run to run; and one message when one is gone.
. "$BT_SOURCE_DIR/tests/e2e/common.sh" || exit 1
export FAKE_CUDA_DEVICES=3

# FOLDER OTHER: each number of the metrics within 1e-5 of the other's, of its size
closer() {
    python3 - "$1" "$2" <<'END' || fail "$1: other numbers than $2"
import json
import sys

found, due = ([json.loads(line) for line in open(f"{folder}/metrics.jsonl")] for folder in sys.argv[1:])
assert len(found) == len(due) > 0
for a, b in zip(found, due):
    assert a.keys() == b.keys()
    for key in a:
        if key != "time" and isinstance(b[key], (int, float)) and not abs(a[key] - b[key]) <= 1e-5 * (1 + abs(b[key])):
            sys.exit(f"{key} at step {b['step']}: {a[key]}, not {b[key]}")
END
}

same() { # FOLDER OTHER WHAT: which goes
    cmp -s <(numbers "$1") <(numbers "$2") || fail "other numbers $3"
    cmp -s "$1"/checkpoints/*.safetensors "$2"/checkpoints/*.safetensors || fail "another state $3"
    rm -r "$2"
}

planned() { # FOLDER: what lies on the device of rank 0 is what the plan says
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
    same devices again "of $ini from run to run, in another order ($*)"
    rm -r near devices
}

short=(engine.train_iters=4 engine.valid_step=4 engine.log_step=1)
for strategy in distributed zero1 zero2 zero3; do
    on_devices 2 reweight "${short[@]}" engine.strategy=$strategy
done
on_devices 3 reweight "${short[@]}" engine.strategy=zero2 engine.bucket=0 engine.zero_unit=1KiB
on_devices 2 logistic_hpo "${short[@]}"
on_devices 2 maml "${short[@]}" engine.train_iters=2 engine.valid_step=2 meta.valid_batches=2

# step by step, and where every value is an allocation of its own
FAKE_CUDA_ORDER=1 run devices reweight "${short[@]}" engine.ranks=2 engine.device=cuda
BETTY_CUDA=sync run sync reweight "${short[@]}" engine.ranks=2 engine.device=cuda
same devices sync "step by step"
BETTY_PLAN=off run unplanned reweight "${short[@]}" engine.ranks=2 engine.device=cuda
same devices unplanned "without a plan"

# one rank for each device; what is not trained, or resumed elsewhere
run all reweight "${short[@]}" engine.ranks=all engine.device=cuda
grep -q '3 ranks, each a process with a device of its own' out || fail "nothing is said of the ranks"
"$BETTY_RUN" "$examples/reweight.ini" --ranks 2 --device cuda --evaluate devices >out 2>err || fail "an evaluation"
"$BETTY_RUN" "$examples/reweight.ini" --ranks 8 --device cuda --plan >out 2>err || fail "a plan"
grep -q 'of rank 0 of 8' out || fail "a plan says nothing of the ranks"
for how in "--ranks 3 --device cuda" "--ranks 2 --device cpu" "--ranks 1 --device cuda"; do
    # shellcheck disable=SC2086 # words
    "$BETTY_RUN" --resume devices $how --set engine.train_iters=6 >out 2>err || fail "$how do not go on from two devices"
done

# what cannot be
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
refused 2 "ranks in lockstep are the processor's" --ranks 2 --set engine.executor=lockstep
FAKE_NCCL=absent refused 1 "ranks on CUDA devices need NCCL 2.10 or later, and there is no libnccl.so.2" --ranks 2

# one that is killed, that leaves, or finds what others do not, ends all
cat >model.c <<'C'
#include <betty/betty.h>
#include <fcntl.h>
#include <unistd.h>
static bool is_first(const char *name) { return open(name, O_CREAT | O_EXCL | O_WRONLY, 0666) >= 0; }
static bt_module *net(bt_problem *self)
{
    bt_option_int(self, "leaves", 0, 0, 1000);
    bt_option_int(self, "fails", 0, 0, 1000);
    return bt_nn_parameter(bt_init_constant(bt_option_int(self, "differs", 0, 0, 1) && is_first("differ.first") ? 3 : 2));
}
static bt_status draw(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    float y[4] = {1, 2, 3, 4};
    (void)mode;
    if (index > 0 && index == bt_option_int(self, "leaves", 0, 0, 1000) && is_first("leave.first"))
        _exit(0);
    if (index > 0 && index == bt_option_int(self, "fails", 0, 0, 1000) && is_first("fail.first"))
        return bt_fail(BT_ERROR_DATA, "batch %d has no labels", (int)index);
    return bt_batch_set(batch, "y", BT_ARRAY(y, 4));
}
static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_sub(bt_forward(self), bt_field(batch, "y"))));
}
static const bt_problem_def model = {.name = "model", .get_batch = draw, .configure_module = net, .training_step = step};
BT_EXPORT(.problems = {&model});
C
cat >run.ini <<'INI'
[engine]
problems = model.c
train_iters = 1000000000
log_step = 20
ranks = 3
device = cuda
[model]
lr = 1e-9
INI

none_left() { # WHAT
    for _ in $(seq 50); do
        pgrep -f "betty-run $folder/run.ini" >left || return 0
        sleep 0.1
    done
    fail "$1: processes are left"
}

for rank in 0 2; do
    rm -f out err
    "$BETTY_RUN" "$folder/run.ini" --output "killed-$rank" >out 2>err &
    run=$!
    for _ in $(seq 300); do
        grep -qF 'step ' out 2>/dev/null && break
        sleep 0.1
    done
    mapfile -t ranks < <(pgrep -P $run)
    [ ${#ranks[@]} -eq 3 ] || fail "not three processes, ${#ranks[@]}"
    kill -KILL "${ranks[$rank]}"
    from=$SECONDS
    wait "$run"
    code=$?
    [ $code -eq 1 ] || fail "rank $rank killed: exit code $code"
    [ $((SECONDS - from)) -le 10 ] || fail "rank $rank killed: took $((SECONDS - from)) s to end"
    [ "$(grep -c 'betty-run: rank . of 3 was ended by signal 9' err)" -eq 1 ] || fail "rank $rank killed: not one message"
    none_left "rank $rank killed"
done

ends() { # CODE TEXT SETTING
    "$BETTY_RUN" "$folder/run.ini" --set "$3" --output "${3%%=*}" >out 2>err
    local code=$?
    [ $code -eq "$1" ] || fail "$3: exit code $code"
    [ "$(grep -c betty-run: err)" -eq 1 ] || fail "$3: not one message"
    grep -qF -- "$2" err || fail "$3: the message lacks: $2"
    none_left "$3"
}
ends 1 'of 3 has ended before the run' model.leaves=7
ends 1 'batch 7 has no labels' model.fails=7
ends 2 'model has other parameters, or another learning rate, on rank' model.differs=1
[ "$(ls /dev/shm/fake-nccl.* 2>/dev/null | wc -l)" -eq 0 ] || fail "shared memory is left"
