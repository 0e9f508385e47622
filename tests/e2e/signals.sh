#!/bin/bash
# Ctrl-C and similar signals: before training they end the command at once, during training it leaves a checkpoint. And
# the output of a long set-up.
. "$(dirname "$0")/common.sh" || exit 1

cat >slow.c <<'C'
#include <betty/betty.h>
#include <time.h>
static bt_module *net(bt_problem *self)
{
    for (int64_t left = bt_option_int(self, "sleeps", 0, 0, 1000); left > 0; left--) /* a signal wakes it */
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, 0);
    return bt_nn_parameter(bt_init_constant(2));
}
static bt_status draw(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    float y[1] = {1};
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "y", BT_ARRAY(y, 1));
}
static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_square(bt_forward(self));
}
static const bt_problem_def model = {.name = "model", .get_batch = draw, .configure_module = net, .training_step = step};
BT_EXPORT(.problems = {&model});
C
cat >run.ini <<'INI'
[engine]
problems = slow.c
train_iters = 1000000000
log_step = 1000
[model]
lr = 1e-9
INI

# begin OPTIONS...: betty-run in the background, as $run; until FILE TEXT: waits for the text. Old output is removed
# first: otherwise it could be mistaken for this run's, and the signal sent before the program has started.
begin() {
    rm -f out err
    "$BETTY_RUN" run.ini "$@" >out 2>err &
    run=$!
}
until_has() {
    for _ in $(seq 300); do
        if grep -qF -- "$2" "$1" 2>/dev/null; then return 0; fi
        sleep 0.1
    done
    cat out err
    fail "$1 never had: $2"
}
ends() { # WHAT SECONDS
    local from=$SECONDS
    wait "$run"
    code=$?
    [ $code -eq 130 ] || { cat out err; fail "$1: exit code $code"; }
    [ $((SECONDS - from)) -le "$2" ] || fail "$1: took $((SECONDS - from)) s to end"
}

# a long set-up prints that, and ends at once
for signal in INT TERM HUP; do
    begin --set model.sleeps=600 --output setup
    until_has out 'setting up: configuring model ('
    kill -$signal $run
    ends "$signal while it is set up" 5
    grep -q 'interrupted' err || fail "$signal: nothing was said: $(cat err)"
    [ ! -e setup ] || fail "$signal: a folder is left"
done
begin --quiet --set model.sleeps=15 --set engine.train_iters=2 --output quiet
wait $run || fail "a quiet run failed: $(cat err)"
if [ -s out ] || [ -s err ]; then cat out err; fail "--quiet is not"; fi
"$BETTY_RUN" run.ini --plan --set model.sleeps=15 >out 2>err || fail "--plan failed"
if grep -q 'setting up' out err; then cat out err; fail "a report has lines that are none of it"; fi

# a run in training leaves a checkpoint
for signal in INT TERM HUP; do
    begin --output "trained-$signal"
    until_has out 'step '
    kill -$signal $run
    ends "$signal while it trains" 20
    grep -q 'stopping after this step' err || fail "$signal: $(cat err)"
    [ -n "$(ls "trained-$signal"/checkpoints/step-*.json)" ] || fail "$signal: no checkpoint"
done

# so does one on three ranks, and two can resume it
begin --ranks 3 --output ranks
until_has out 'step '
kill -INT $run
ends "INT on three ranks" 20
at=$(basename "$(echo ranks/checkpoints/step-*.json)" .json)
[ -f "ranks/checkpoints/$at.safetensors" ] || fail "no checkpoint of three ranks: $(cat err)"
at=${at#step-}
"$BETTY_RUN" --resume ranks --ranks 2 --set engine.train_iters=$((at + 5)) >out 2>err || fail "two ranks do not go on"
[ -f "ranks/checkpoints/step-$((at + 5)).safetensors" ] || fail "two ranks have not gone on: $(ls ranks/checkpoints)"

# nohup remains effective
rm -f out err
(trap '' HUP; exec "$BETTY_RUN" run.ini --output held >out 2>err) &
run=$!
until_has out 'step '
# the process has its original environment: it has not restarted itself with another one
if tr '\0' '\n' <"/proc/$run/environ" | grep GOMP_SPINCOUNT; then fail "the environment is another one"; fi
kill -HUP $run
sleep 1
[ ! -s err ] || fail "an ignored SIGHUP was heard: $(cat err)"
kill -TERM $run
ends "TERM after an ignored HUP" 20
