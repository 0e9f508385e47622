#!/bin/bash
# Ranks as processes: when one is killed, crashes or fails, there is one message, an exit code, and no process is left.
. "$(dirname "$0")/common.sh" || exit 1

cat >model.c <<'C'
#include <betty/betty.h>
#include <signal.h>
#include <stdio.h>
static bt_module *net(bt_problem *self)
{
    bt_option_int(self, "crashes", 0, 0, 1000);
    bt_option_int(self, "fails", 0, 0, 1000);
    return bt_nn_parameter(bt_init_constant(2));
}
static bt_status draw(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    float y[4] = {1, 2, 3, 4};
    (void)mode;
    if (index > 0 && index == bt_option_int(self, "crashes", 0, 0, 1000))
        raise(SIGSEGV);
    if (index > 0 && index == bt_option_int(self, "fails", 0, 0, 1000))
        return bt_fail(BT_ERROR_DATA, "batch %d has no labels", (int)index);
    printf("a problem prints\n");
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
log_step = 1000
ranks = 3
[model]
lr = 1e-9
INI

none_left() { # WHAT
    for _ in $(seq 50); do
        pgrep -f "betty-run $folder/run.ini" >left || return 0
        sleep 0.1
    done
    fail "$1: processes are left: $(ps -fp $(cat left))"
}
begin() { # OPTIONS...
    rm -f out err
    "$BETTY_RUN" "$folder/run.ini" "$@" >out 2>err &
    run=$!
    for _ in $(seq 300); do
        grep -qF 'step ' out 2>/dev/null && break
        sleep 0.1
    done
    mapfile -t ranks < <(pgrep -P $run)
    [ ${#ranks[@]} -eq 3 ] || fail "not three processes, ${#ranks[@]}: $(cat out)"
}
ends() { # WHAT CODE TEXT
    local from=$SECONDS
    wait "$run"
    code=$?
    [ $code -eq "$2" ] || fail "$1: exit code $code"
    [ $((SECONDS - from)) -le 10 ] || fail "$1: took $((SECONDS - from)) s to end"
    [ "$(grep -c betty-run: err)" -eq 1 ] || fail "$1: not one message"
    grep -qF -- "$3" err || fail "$1: the message lacks: $3"
    none_left "$1"
}

# any rank is killed, at any moment
for rank in 0 1 2; do
    begin --output "killed-$rank"
    kill -KILL "${ranks[$rank]}"
    ends "rank $rank killed" 1 "of 3 was ended by signal 9"
    sleep 0.0$rank
done

# so is the process that waits for them: the system ends them
begin --output alone
kill -KILL "$run"
wait "$run" 2>/dev/null
none_left "their parent killed"

# a rank that crashes within a problem's code says so; all make the same batches, so that all do
"$BETTY_RUN" "$folder/run.ini" --set model.crashes=7 --output crashed >out 2>err
code=$?
[ $code -eq 1 ] || fail "a crash: exit code $code"
grep -q 'model.c: model, get_batch' err || fail "a crash: the message lacks its place"
none_left "a crash"

# what all ranks find is said once, with the code that one rank would end with
"$BETTY_RUN" "$folder/run.ini" --set model.fails=7 --output failed >out 2>err
code=$?
[ $code -eq 1 ] || fail "a failure: exit code $code"
[ "$(grep -c 'batch 7 has no labels' err)" -eq 1 ] || fail "a failure is not said once"
none_left "a failure"
"$BETTY_RUN" "$folder/run.ini" --set model.wrong=7 --output wrong >out 2>err
code=$?
[ $code -eq 2 ] || fail "a wrong setting: exit code $code"
[ "$(wc -l <err)" -eq 1 ] || fail "a wrong setting is not said once"
[ ! -e wrong ] || fail "a wrong setting: a folder is left"

# only rank 0 is heard
"$BETTY_RUN" "$folder/run.ini" --set engine.train_iters=4 --output whole >out 2>err || fail "a short run"
of_one=$("$BETTY_RUN" "$folder/run.ini" --ranks 1 --set engine.train_iters=4 --output one | grep -c 'a problem prints')
[ "$(grep -c 'a problem prints' out)" -eq "$of_one" ] || fail "other ranks print, too"
grep -q '3 ranks, each a process of its own' out || fail "nothing is said of the ranks"

# a checkpoint does not know how many ranks wrote it, nor where they were
for how in "--ranks 3" "--ranks 3 --set engine.executor=lockstep" "--ranks 1"; do
    # shellcheck disable=SC2086 # words
    "$BETTY_RUN" "$examples/reweight.ini" $how --set engine.train_iters=4 --output from >out 2>err || fail "$how"
    "$BETTY_RUN" --resume from --ranks 2 --set engine.train_iters=6 >out 2>err || fail "two ranks do not go on from $how"
    "$BETTY_RUN" --resume from --ranks 1 --set engine.train_iters=8 >out 2>err || fail "one does not go on from two"
    rm -r from
done

# twice asked to stop, it stops at once
begin --output twice
kill -STOP "${ranks[2]}"
kill -TERM "$run"
sleep 0.5
kill -TERM "$run"
sleep 0.5
kill -CONT "${ranks[2]}"
wait "$run"
[ $? -eq 130 ] || fail "asked twice: another exit code"
none_left "asked twice"
