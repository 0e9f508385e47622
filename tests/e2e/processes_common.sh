#!/bin/bash
# For scripts about ranks as processes: a run without an end, whose options make it crash, fail, exit or differ; and
# checks of the way it ends.

cat >model.c <<'C'
#include <betty/betty.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
/* Whether this process is the first to ask. */
static bool is_first(const char *name) { return open(name, O_CREAT | O_EXCL | O_WRONLY, 0666) >= 0; }
static bt_module *net(bt_problem *self)
{
    bt_option_int(self, "crashes", 0, 0, 1000);
    bt_option_int(self, "one_crashes", 0, 0, 1000);
    bt_option_int(self, "fails", 0, 0, 1000);
    bt_option_int(self, "one_fails", 0, 0, 1000);
    bt_option_int(self, "leaves", 0, 0, 1000);
    bool odd = bt_option_int(self, "differs", 0, 0, 1) && is_first("differ.first");
    return bt_nn_parameter(bt_init_constant(odd ? 3 : 2));
}
static bt_status draw(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    float y[4] = {1, 2, 3, 4};
    (void)mode;
    if (index > 0 && index == bt_option_int(self, "crashes", 0, 0, 1000))
        raise(SIGSEGV);
    if (index > 0 && index == bt_option_int(self, "one_crashes", 0, 0, 1000) && is_first("crash.first"))
        raise(SIGSEGV);
    if (index > 0 && index == bt_option_int(self, "leaves", 0, 0, 1000) && is_first("leave.first"))
        _exit(0);
    if (index > 0 && (index == bt_option_int(self, "fails", 0, 0, 1000) ||
                      (index == bt_option_int(self, "one_fails", 0, 0, 1000) && is_first("fail.first"))))
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
log_step = 20
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
