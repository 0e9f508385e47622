#!/bin/bash
# Runs that are killed again and again, at any moment, and continued with --resume: the result equals that of an
# undisturbed run, to the last bit of every tensor and every line of metrics.
. "$(dirname "$0")/common.sh" || exit 1

cat >problem.c <<'C'
#include <betty/betty.h>

static int64_t loops;
static bt_dataset *data(bt_problem *self)
{
    static double x[29 * 4], y[29];
    for (int i = 0; i < 29 * 4; i++)
        x[i] = bt_host_uniform(1, bt_seed(self), (uint64_t)i) - 0.5;
    for (int i = 0; i < 29; i++)
        y[i] = x[4 * i] - 0.5 * x[4 * i + 1];
    bt_dataset *set = bt_dataset_new(29);
    bt_dataset_add(set, "image", BT_ARRAY(x, 29, 2, 2, 1));
    bt_dataset_add(set, "label", BT_ARRAY(y, 29));
    return bt_dataset_mixup(bt_dataset_flip(bt_dataset_crop(set, 1, 3), 3), 0.5, 3);
}
static bt_module *penalty_module(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(-3), 4);
}
static bt_module *model_module(bt_problem *self)
{
    bt_state(self, "loops", &loops, sizeof loops);
    return bt_nn_sequential(bt_nn_linear(4, 6), bt_nn_fn(bt_tanh), bt_nn_dropout(0.2), bt_nn_linear(6, 1));
}
static bt_tensor *error(bt_problem *model, const bt_batch *batch)
{
    bt_tensor *x = bt_reshape(bt_field(batch, "image"), -1, 4), *share = bt_field(batch, "share");
    bt_tensor *y = bt_add(bt_mul(share, bt_field(batch, "label")),
                          bt_mul(bt_sub(1, share), bt_field(batch, "other_label")));
    return bt_mean(bt_square(bt_sub(bt_squeeze(bt_forward(model, x), 1), y)));
}
static bt_tensor *penalty_step(bt_problem *self, const bt_batch *batch) { return error(bt_peer(self, "model"), batch); }
static double scale(bt_problem *self)
{
    (void)self;
    return 1 + 1 / (1 + (double)loops);
}
static bt_tensor *model_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_mean(bt_exp(bt_forward(bt_peer(self, "penalty"))));
    bt_tensor *loss = bt_mul(bt_host_scalar(self, "scale", scale), error(self, batch));
    return bt_add(loss, bt_mul(strength, bt_sum(bt_square(bt_params(self)))));
}
static bt_tensor *model_valid(bt_problem *self, const bt_batch *batch) { return error(self, batch); }
static void loop_start(bt_problem *self)
{
    (void)self;
    loops++;
}
static const bt_problem_def penalty = {.name = "penalty", .configure_train_data = data,
                                       .configure_module = penalty_module, .training_step = penalty_step};
static const bt_problem_def model = {.name = "model", .configure_train_data = data, .configure_valid_data = data,
                                     .configure_module = model_module, .training_step = model_step,
                                     .validation_step = model_valid, .on_inner_loop_start = loop_start};
BT_EXPORT(.problems = {&penalty, &model});
C
cat >run.ini <<'INI'
[engine]
problems = problem.c
train_iters = 120
checkpoint_step = 1
log_step = 3
valid_step = 16
threads = 1
[dependencies]
u2l = penalty > model
l2u = model > penalty
[penalty]
optimizer = adam
lr = 0.05
batch_size = 8
[model]
lr = 0.05
momentum = 0.9
batch_size = 6
INI

# The results of a run, without times.
tensors() { sha256sum <"$1/checkpoints/step-120.safetensors"; } # FOLDER
lines() { sed 's/"time":[^,]*,//' "$1/metrics.jsonl"; }
summary() { grep -vE '"(seconds|data_seconds|ms_per_step|outside_bytes|output|checkpoint_step)":' "$1/summary.json"; }

RANDOM=4711
wanted=50 share=14 # kills: the minimum in all runs, the maximum in one run
[ -z "${BT_SANITIZE:-}" ] || wanted=8 share=3
kills=0 writing=0

# Starts or resumes the run in FOLDER, and kills it some milliseconds after it has written a checkpoint; after enough
# lives, lets it finish. Fails if the run reached its end.
one_life() { # FOLDER LIVES-BEFORE OPTIONS...
    local run=$1 before process code
    if [ "$2" -ge $share ]; then
        "$BETTY_RUN" run.ini "${@:3}" --set engine.checkpoint_step=50 --quiet >out 2>err || fail "$run: a run that goes on failed"
        return 1
    fi
    shift 2
    before=$(echo "$run"/checkpoints/*.json)
    "$BETTY_RUN" run.ini "$@" --quiet >out 2>err &
    process=$!
    while [ "$before" = "$(echo "$run"/checkpoints/*.json)" ] && kill -0 $process 2>/dev/null; do :; done
    read -rt 0.00$((RANDOM % 10)) <>pipe
    kill -KILL $process 2>/dev/null
    { wait $process; } 2>/dev/null
    code=$?
    case $code in
    0) return 1 ;;
    137) kills=$((kills + 1)) ;;
    *) fail "$run: exit code $code" ;;
    esac
    for file in "$run"/*.tmp "$run"/checkpoints/*.tmp; do
        [ ! -e "$file" ] || writing=$((writing + 1))
    done
}

try() { # NUMBER SETTINGS...
    local run=killed-$1-$kills whole=whole-$1 lives=0
    shift
    if [ ! -d "$whole" ]; then
        "$BETTY_RUN" run.ini "$@" --set engine.checkpoint_step=0 --output "$whole" --quiet >out 2>err ||
            fail "the run without a kill failed"
    fi
    if one_life "$run" 0 "$@" --output "$run"; then
        while one_life "$run" $((lives += 1)) "$@" --resume "$run"; do :; done
    fi
    [ "$(tensors "$whole")" = "$(tensors "$run")" ] || fail "$*: the tensors differ"
    diff <(lines "$whole") <(lines "$run") || fail "$*: the metrics differ"
    diff <(summary "$whole") <(summary "$run") || fail "$*: the summaries differ"
    files=$(ls "$run" "$run/checkpoints")
    [ "$(wc -w <<<"$files")" -eq 12 ] || fail "$run holds something else: $files"
}

mkfifo pipe
while [ $kills -lt $wanted ]; do
    try 1
    try 2 --set model.unroll_steps=5 --set penalty.meta_batch=3 --set model.type=cg
    try 3 --set model.gradient_accumulation=3 --set model.product_batches=all --set model.unroll_steps=2
    try 4 --set engine.roll_back=true --set model.unroll_steps=4 --set model.type=neumann
    try 5 --set model.type=itd --set model.itd_spacing=2 --set model.unroll_steps=6 --set penalty.meta_batch=2
done
echo "$kills kills, $writing of them while a file was being written"

# A finished run that gets more steps is not finished: the lines written only because of its end are removed. (Steps
# with lines of training, of validation, of both, and of neither.)
for end in 1 39 40 47 48 96; do
    run=longer-$end
    "$BETTY_RUN" run.ini --set engine.train_iters=$end --output $run --quiet >out 2>err || fail "$run: the first run failed"
    last=$(lines $run)
    grep -q "\"step\": *$end,.*model.valid.loss" $run/metrics.jsonl || fail "$run: no validation at its end"
    "$BETTY_RUN" --resume $run --quiet >out 2>err || fail "$run: it cannot be ended once more"
    [ "$last" = "$(lines $run)" ] || fail "$run: ended once more, its metrics differ"
    "$BETTY_RUN" --resume $run --set engine.train_iters=120 --quiet >out 2>err || fail "$run: it does not go on"
    [ "$(tensors whole-1)" = "$(tensors $run)" ] || fail "$run: the tensors differ"
    diff <(lines whole-1) <(lines $run) || fail "$run: the metrics differ"
done

# An interrupt leaves a checkpoint, and the exit code shows the interrupt.
"$BETTY_RUN" run.ini --set engine.train_iters=100000000 --set engine.checkpoint_step=0 --output stopped >out 2>err &
process=$!
while [ ! -s stopped/metrics.jsonl ] && kill -0 $process; do sleep 0.01; done
kill -INT $process
wait $process
code=$?
[ $code -eq 130 ] || fail "interrupted: exit code $code"
grep -q 'betty-run: stopping after this step' err || fail "interrupted: nothing is said at once: $(cat err)"
ls stopped/checkpoints/step-*.json >/dev/null || fail "interrupted: no checkpoint is left"
"$BETTY_RUN" --resume stopped --set engine.train_iters=100000000 >going-on 2>err &
process=$!
while [ ! -s going-on ] && kill -0 $process; do sleep 0.01; done

# Only one run at a time may use a folder.
timeout 60 "$BETTY_RUN" --resume stopped --quiet >/dev/null 2>err
code=$?
[ $code -eq 2 ] || fail "a folder in use: exit code $code"
grep -q 'the output folder stopped is in use by another run' err || fail "a folder in use: the message is another one"
timeout 60 "$BETTY_RUN" run.ini --output stopped --quiet >/dev/null 2>err && fail "a folder in use was taken"
grep -q 'the output folder stopped is in use by another run' err || fail "a folder in use: the message is another one"
kill -TERM $process
wait $process
grep -q 'stopped: continuing after step' going-on || fail "a run that goes on does not say so: $(cat going-on)"

# Runs that cannot be resumed, or not in this way.
refuse() { # TEXT OPTIONS...
    local text=$1
    shift
    "$BETTY_RUN" "$@" --quiet >out 2>err
    code=$?
    [ $code -eq 2 ] || fail "betty-run $*: exit code $code, expected 2"
    grep -qF -- "$text" err || fail "betty-run $*: expected: $text"
}
refuse 'model.lr was 0.05, is 0.2' run.ini --resume whole-1 --set model.lr=0.2
refuse 'engine.precision was fp32, is fp64' --resume whole-1 --set engine.precision=fp64
refuse 'the checkpoint is of a run with other settings: ' "$BT_SOURCE_DIR/examples/logistic_hpo.ini" --resume whole-1
refuse 'cannot open the folder missing: No such file or directory' --resume missing
refuse '--resume trains' --resume whole-1 --plan
refuse 'leave out --output' --resume whole-1 --output other
sed -i 's/crop(set, 1, 3)/crop(set, 1, 4)/' problem.c
refuse 'other training data: the field image' --resume whole-1
sed -i 's/crop(set, 1, 4)/crop(set, 1, 3)/' problem.c
sed -i 's/bt_square(bt_sub/bt_abs(bt_sub/' problem.c
refuse 'penalty: the checkpoint belongs to another problem: training_step records other operations than before' --resume whole-1
sed -i 's/bt_abs(bt_sub/bt_square(bt_sub/' problem.c

# A cosine schedule planned for fewer steps rises again: there is a warning; for one with its own end there is none.
"$BETTY_RUN" run.ini --set model.scheduler=cosine --set engine.train_iters=20 --output cosine --quiet 2>err || fail "cosine: $(cat err)"
"$BETTY_RUN" --resume cosine --set engine.train_iters=30 >out 2>err || fail "cosine: it does not go on: $(cat err)"
grep -q 'warning: \[model\] scheduler = cosine: scheduler_t_max is 20' out || fail "cosine: no warning: $(cat out)"
"$BETTY_RUN" --resume cosine --set engine.train_iters=40 >out 2>err || fail "cosine: it does not go on again: $(cat err)"
grep -q 'rises again' out && fail "cosine: a warning where nothing was planned: $(cat out)"

# A damaged checkpoint is skipped, and named.
cp -r killed-1-0 damaged
printf X >>damaged/checkpoints/step-120.safetensors
"$BETTY_RUN" run.ini --resume damaged >out 2>err || fail "a damaged checkpoint was not passed over"
grep -q 'warning: damaged/checkpoints/step-120.safetensors is damaged: .*; continuing from step [0-9]*$' out ||
    fail "a damaged checkpoint was passed over without a word: $(cat out)"
[ "$(tensors damaged)" = "$(tensors whole-1)" ] || fail "the tensors differ after a damaged checkpoint"
exit 0
