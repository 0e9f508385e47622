#!/bin/bash
# The peak of resident memory, as counted by the kernel, is at most the plan plus 30 MB: for a data set much larger than
# everything that is computed, and for a large program.
. "$(dirname "$0")/common.sh" || exit 1
if [ -n "${BT_SANITIZE:-}" ]; then echo "skipped: sanitizers hold memory of their own"; exit 77; fi

number() { # FILE KEY: the last number with this name
    grep -oE "\"$2\": [0-9]+" "$1" | tail -n 1 | sed 's/.*: //'
}

check() { # NAME MOST-OF-THE-PROGRAM: checks the folder and the plan of this name
    local planned program outside
    planned=$(number "$1.json" program_peak_bytes)
    program=$(number "$1/summary.json" program_peak_bytes)
    outside=$(number "$1/summary.json" outside_bytes)
    expect "$outside <= 30e6"
    expect "$program <= $2"
    expect "$planned <= $2 && $program <= 1.1 * $planned + 1e6"
    expect "$(number "$1.json" data_bytes) == $(number "$1/summary.json" data_bytes)"
}

arena_of() { # FILE: of all phases
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["arena"])' "$1"
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
    .name = "model", .configure_train_data = rows, .configure_valid_data = rows, /* read once */
    .configure_module = net, .training_step = step, .validation_step = step};
BT_EXPORT(.problems = {&model});
C
printf '[engine]\nproblems = rows.c\ntrain_iters = 20\n[model]\nlr = 1e-4\n' >rows.ini
"$BETTY_RUN" rows.ini --threads 1 --plan --json >rows.json 2>err || fail "--plan failed"
"$BETTY_RUN" rows.ini --threads 1 --quiet --output rows 2>err || fail "the run failed"
expect "$(number rows.json data_bytes) >= 20000 * 50 * 4"
check rows 12e6 # its numbers are doubles while the file is read
"$BETTY_RUN" rows.ini --plan >out 2>err || fail "--plan failed"
grep -qE '^data sets +[0-9]+ ' out || fail "no line for the data: $(cat out)"
grep -qE '^the program itself +[0-9]+ ' out || fail "no line for the program: $(cat out)"

# 2000 layers of 16 numbers: thousands of kernel calls on very little data
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
check deep 65e6
expect "$(number deep.json program_peak_bytes) > 4e6"

# 10,000 parameters with one number each, and a penalty above them: the largest possible program for so few numbers
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

# Planning takes no memory for the planned data. 1200 photos, 180 MB of empty files, for ResNet-50 in batches of 256:
# more than 20 GB, planned in less than 100 MB, and only the first photo is read.
mkdir -p photos/train/a photos/train/b photos/test/a photos/test/b || exit 1
for split in train/a train/b test/a test/b; do
    for i in $(seq 600); do
        printf 'P6\n224 224\n255\n' >photos/$split/$i.ppm && truncate -s 150543 photos/$split/$i.ppm || fail "no photos"
        case $split in test/*) break ;; esac
    done
done
cat >photos.c <<'C'
#include <betty/betty.h>
static bt_dataset *photos(bt_problem *self)
{
    (void)self;
    return bt_dataset_open("photos", "train");
}
static bt_module *net(bt_problem *self)
{
    (void)self;
    return bt_nn_resnet(50, 3, 1000);
}
static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_cross_entropy(bt_forward(self, bt_field(batch, "image")), bt_field(batch, "label")));
}
static const bt_problem_def model = {
    .name = "model", .configure_train_data = photos, .configure_module = net, .training_step = step};
BT_EXPORT(.problems = {&model});
C
printf '[engine]\nproblems = photos.c\n[model]\noptimizer = adam\nlr = 1e-4\nbatch_size = 256\n' >photos.ini
"$BETTY_RUN" photos.ini --threads 1 --plan --json >photos.json 2>err || fail "--plan failed: $(cat err)" # compiles
resident=$(python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$BETTY_RUN" photos.ini --threads 1 --plan) ||
    fail "--plan failed"
expect "$(arena_of photos.json) >= 20e9"
expect "$(number photos.json data_bytes) >= 1200 * 224 * 224 * 3"
expect "$resident <= 100e6"

# Meta-Weight-Net with ResNet-32 in batches of 100, with known numbers of bytes: the gradient, a product alone, and
# exact Hessian products, all without recomputation
mkdir cifar-10-batches-bin || exit 1
python3 - <<'P' || fail "no images"
for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
    with open(f"cifar-10-batches-bin/{name}.bin", "wb") as file:
        file.write(b"".join(bytes([i % 10]) + bytes(3072) for i in range(2000)))
P
plan_of() { # NAME METHOD [SETTING]...
    local name=$1 method=$2 settings=()
    shift 2
    for setting in "$@"; do settings+=(--set "$setting"); done
    BETTY_DATA=$PWD "$BETTY_RUN" "$examples/reweight_cifar.ini" --threads 1 --plan --json \
        --set classifier.type="$method" "${settings[@]}" >"$name.json" 2>err || fail "$name: $(cat err)"
}
plan_of darts darts
expect "$(arena_of darts.json) >= 242e6 && $(arena_of darts.json) <= 245e6"
parts() { # FILE PART KEY: from the first part of this name
    python3 -c 'import json, sys
levels = json.load(open(sys.argv[1]))["levels"]
parts = [part for level in levels for phase in level["phases"] for part in phase["parts"]]
print(next(part[sys.argv[3]] for part in parts if part["part"] == sys.argv[2]))' "$@"
}
expect "$(parts darts.json product most) <= 35e6"
expect "$(parts darts.json product saved) <= 20e6"
expect "$(parts darts.json product saved_all) >= 242e6"
expect "$(parts darts.json gradient saved) == $(parts darts.json gradient saved_all)"
plan_of once cg classifier.cg_iterations=1
expect "$(arena_of once.json) <= 520e6"
plan_of unrolled itd
expect "$(arena_of unrolled.json) <= 520e6"
plan_of thrice cg classifier.cg_iterations=3
expect "$(arena_of thrice.json) <= 670e6"
