#!/bin/bash
# If a problem's code crashes, the message names it, with the signal and the callback, and the exit code is the one for
# wrong input.
. "$(dirname "$0")/common.sh" || exit 1
ulimit -c 0
ulimit -s 8192 # so that infinite recursion ends
bad=0

# FAULT(place) marks each possible place of a fault; the fault itself is defined with -D.
cat >problem.c <<'C'
#include <betty/betty.h>
#include <signal.h>
#include <stdlib.h>

static volatile int zero;
static int dive(volatile char *above)
{
    volatile char room[4096];
    room[0] = *above;
    return dive(room) + room[zero];
}
static void segv(void) { *(volatile int *)(long)zero = 1; }
static void fpe(void) { zero = 7 / zero; }
static void stop(void) { abort(); }
static void deep(void) { dive((char *)"x"); }
static void leave(void) { exit(0); }
static bt_dataset *data(bt_problem *self)
{
    static float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    (void)self;
    FAULT(data)
    bt_dataset *set = bt_dataset_new(8);
    bt_dataset_add(set, "x", BT_ARRAY(x, 8));
    return set;
}
static bt_module *module(bt_problem *self)
{
    (void)self;
    FAULT(module)
    return bt_nn_parameter(bt_init_constant(0));
}
static void same(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    FAULT(body)
    out[0] = bt_mul(in[0], 1);
}
static void same_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                     bt_tensor **wanted)
{
    (void)attr, (void)in, (void)out;
    FAULT(vjp)
    wanted[0] = given[0];
}
static const bt_op same_op = {.name = "same", .inputs = 1, .body = same, .vjp = same_vjp};
static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    FAULT(step)
    bt_tensor *value = bt_apply(&same_op, NULL, bt_param(self, "value"));
    return bt_mean(bt_square(bt_sub(bt_field(batch, "x"), value)));
}
static void schedule(bt_problem *self, bt_rule *rule)
{
    (void)self;
    (void)rule;
    FAULT(schedule)
}
static void epoch(bt_problem *self)
{
    (void)self;
    FAULT(epoch)
}
__attribute__((constructor)) static void load(void) { FAULT(load) }
static const bt_problem_def p = {.name = "only", .configure_train_data = data, .configure_module = module,
                                 .training_step = step, .schedule = schedule, .epoch_callback = epoch};
BT_EXPORT(.problems = {&p});
C
printf '[engine]\nproblems = problem.c\ntrain_iters = 2\n[only]\nlr = 0.1\n' >run.ini
compiler=${CC:-cc}

expect() { # PLACE FUNCTION CODE TEXT...
    local place=$1 fault=$2 code=$3 found text
    shift 3
    cat >fault.h <<C
#define AT_$place $fault();
#define FAULT(place) FAULT_(place)
#define FAULT_(place) AT_##place
C
    for found in data module step body vjp schedule epoch load; do
        [ "$found" = "$place" ] || echo "#define AT_$found"
    done >>fault.h
    CC="$compiler -include $folder/fault.h" "$BETTY_RUN" run.ini --threads 1 --quiet >out 2>err
    found=$?
    [ "$found" -eq "$code" ] || { echo "$place, $fault: exit code $found, expected $code"; cat err; bad=1; }
    for text in "$@"; do
        grep -qF -- "$text" err || { echo "$place, $fault: expected: $text; found:"; cat err; bad=1; }
    done
    if [ "$code" -eq 2 ] && [ -e runs ]; then echo "$place, $fault: left a folder"; bad=1; fi
    rm -rf runs
}

expect nowhere none 0
expect load segv 2 'betty-run: problem.c: loading crashed: SIGSEGV, a bad memory access'
expect module segv 2 'betty-run: problem.c: only, configure_module crashed: SIGSEGV, a bad memory access'
expect data stop 2 'betty-run: problem.c: only, configure_train_data crashed: SIGABRT, abort was called'
[ "$(uname -m)" != x86_64 ] || # elsewhere a division by zero may give 0
    expect step fpe 2 'betty-run: problem.c: only, training_step crashed: SIGFPE, a division by zero'
expect step leave 2 'betty-run: problem.c: only, training_step ended the process'
expect body segv 2 'betty-run: problem.c: same, body crashed: SIGSEGV, a bad memory access'
expect vjp stop 2 'betty-run: same, vjp crashed: SIGABRT'
expect schedule deep 2 'betty-run: problem.c: only, schedule crashed: SIGSEGV'
[ -n "${BT_SANITIZE:-}" ] || expect step deep 2 'a stack overflow'
expect epoch segv 1 'betty-run: problem.c: only, epoch_callback crashed: SIGSEGV'
exit $bad
