#!/bin/bash
# What is resident, as the kernel counts it at its highest, is at most what the plan says and 30 MB: with a data set that
# is much larger than all that is computed, and with a program that is.
. "$(dirname "$0")/common.sh" || exit 1
if [ -n "${BT_SANITIZE:-}" ]; then echo "skipped: sanitizers hold memory of their own"; exit 77; fi

number() { # FILE KEY: the last one
    grep -oE "\"$2\": [0-9]+" "$1" | tail -n 1 | sed 's/.*: //'
}

check() { # NAME MOST-OF-THE-PROGRAM: of the folder and the plan of this name
    local planned program outside
    planned=$(number "$1.json" program_peak_bytes)
    program=$(number "$1/summary.json" program_peak_bytes)
    outside=$(number "$1/summary.json" outside_bytes)
    expect "$outside <= 30e6"
    expect "$program <= $2"
    expect "$planned <= $2 && $program <= 1.1 * $planned + 1e6"
    expect "$(number "$1.json" data_bytes) == $(number "$1/summary.json" data_bytes)"
}

# 20,000 rows of 50 numbers, and 51 parameters
awk 'BEGIN {
    for (i = 0; i < 50; i++) printf "x%d,", i
    print "y"
    for (r = 0; r < 20000; r++) {
        for (i = 0; i < 50; i++) printf "%d.5,", (r * 7 + i * 13) % 11
        print r % 2
    }
}' >rows.csv
cat >rows.c <<'C'
#include <betty/betty.h>
static bt_dataset *rows(bt_problem *self)
{
    (void)self;
    return bt_dataset_open("rows.csv", "train");
}
static bt_module *net(bt_problem *self)
{
    (void)self;
    return bt_nn_linear(50, 1);
}
static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_sub(bt_squeeze(bt_forward(self, bt_field(batch, "x")), 1), bt_field(batch, "y"))));
}
static const bt_problem_def model = {
    .name = "model", .configure_train_data = rows, .configure_module = net, .training_step = step};
BT_EXPORT(.problems = {&model});
C
printf '[engine]\nproblems = rows.c\ntrain_iters = 20\n[model]\nlr = 1e-4\n' >rows.ini
"$BETTY_RUN" rows.ini --threads 1 --plan --json >rows.json 2>err || fail "--plan failed"
"$BETTY_RUN" rows.ini --threads 1 --quiet --output rows 2>err || fail "the run failed"
expect "$(number rows.json data_bytes) >= 20000 * 50 * 4"
check rows 12e6 # while the file is read its numbers are doubles
"$BETTY_RUN" rows.ini --plan >out 2>err || fail "--plan failed"
grep -qE '^data sets +[0-9]+ ' out || fail "no line for the data: $(cat out)"
grep -qE '^the program itself +[0-9]+ ' out || fail "no line for the program: $(cat out)"

# 2000 layers of 16 numbers: thousands of kernel calls on next to nothing
cat >deep.c <<'C'
#include <betty/betty.h>
static bt_status draw(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    float x[4] = {1, 2, 3, 4};
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "x", BT_ARRAY(x, 1, 4));
}
static bt_module *net(bt_problem *self)
{
    (void)self;
    return bt_nn_linear(4, 4);
}
static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_field(batch, "x");
    for (int i = 0; i < 2000; i++)
        x = bt_tanh(bt_forward(self, x));
    return bt_mean(bt_square(x));
}
static const bt_problem_def model = {
    .name = "model", .get_batch = draw, .configure_module = net, .training_step = step};
BT_EXPORT(.problems = {&model});
C
printf '[engine]\nproblems = deep.c\ntrain_iters = 20\n[model]\nlr = 1e-4\n' >deep.ini
"$BETTY_RUN" deep.ini --threads 1 --plan --json >deep.json 2>err || fail "--plan failed"
"$BETTY_RUN" deep.ini --threads 1 --quiet --output deep 2>err || fail "the run failed"
check deep 60e6
expect "$(number deep.json program_peak_bytes) > 4e6"

# 10,000 parameters of one number each, and a penalty above them: as much program as there can be to so few numbers
cat >wide.c <<'C'
#include <betty/betty.h>
enum { SIZE = 10000 };
static bt_module *numbers(bt_problem *self)
{
    (void)self;
    bt_module *net = bt_module_new(NULL);
    for (int i = 0; i < SIZE; i++) {
        bt_module *part = bt_module_new(NULL);
        (bt_module_add_param)(part, "value", bt_init_constant(0.01 * i), (const int64_t[]){BT_END});
        bt_module_add(net, part, "%d", i);
    }
    return net;
}
static bt_module *one(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0), 1);
}
static bt_tensor *sum_of_squares(bt_problem *lower) { return bt_sum(bt_square(bt_params(lower))); }
static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(sum_of_squares(self), bt_sum(bt_exp(bt_forward(bt_peer(self, "penalty")))));
}
static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return sum_of_squares(bt_peer(self, "lower"));
}
static const bt_problem_def penalty = {.name = "penalty", .configure_module = one, .training_step = upper_step};
static const bt_problem_def lower = {.name = "lower", .configure_module = numbers, .training_step = lower_step};
BT_EXPORT(.problems = {&penalty, &lower});
C
printf '[engine]\nproblems = wide.c\ntrain_iters = 2\n[dependencies]\nu2l = penalty > lower\nl2u = lower > penalty\n' >wide.ini
"$BETTY_RUN" wide.ini --threads 1 --plan --json >wide.json 2>err || fail "--plan failed: $(cat err)"
"$BETTY_RUN" wide.ini --threads 1 --quiet --output wide 2>err || fail "the run failed: $(cat err)"
check wide 400e6
expect "$(number wide.json program_peak_bytes) > 40e6"
