#!/bin/bash
# Several runs in one command: each equals the same run alone, bit for bit; the table has the mean and deviation that
# Python computes; a stopped or killed grid, parent or child, continues; a failed run is reported, and the others are
# kept.
. "$(dirname "$0")/common.sh" || exit 1
command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }

cat >slow.c <<'C'
#include <betty/betty.h>
#include <stdio.h>
#include <time.h>
static int64_t sleeps, dies;
static bt_module *net(bt_problem *self)
{
    sleeps = bt_option_int(self, "sleeps", 0, 0, 1000);
    dies = bt_option_int(self, "dies", 0, 0, 1000);
    printf("%lld: it speaks\n", (long long)bt_seed(self));
    return bt_nn_parameter(bt_init_normal(0, 1), 3);
}
static bt_status draw(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    float y[3];
    for (int i = 0; i < 3; i++)
        y[i] = (float)bt_host_uniform((uint64_t)bt_seed(self), (uint64_t)index, (uint64_t)i);
    nanosleep(&(struct timespec){.tv_nsec = 1000000 * sleeps}, 0);
    if (dies && index == dies && bt_seed(self) == 2)
        return bt_fail(BT_ERROR_DATA, "batch %lld is <broken>", (long long)index);
    (void)mode;
    return bt_batch_set(batch, "y", BT_ARRAY(y, 3));
}
static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_sub(bt_forward(self), bt_field(batch, "y"))));
}
static const bt_problem_def model = {.name = "model", .get_batch = draw, .configure_module = net, .training_step = step,
                                     .validation_step = step};
BT_EXPORT(.problems = {&model});
C
cat >run.ini <<'INI'
[engine]
problems = slow.c
train_iters = 40
log_step = 5
valid_step = 20
threads = 1
[model]
lr = 0.1
momentum = 0.5
valid_batches = 2
INI

grid() { "$BETTY_RUN" "$@" >out 2>err; } # OPTIONS...
tensors() { sha256sum <"$1/checkpoints/step-$2.safetensors"; }                 # FOLDER STEPS
lines() { sed 's/"time":[^,]*,//' "$1/metrics.jsonl"; }                        # FOLDER
check() { # FOLDER PYTHON: a condition on `runs` by name and `rows` by name of its grid.json
    python3 - "$1" "$2" <<'PYTHON' || fail "$1: not so: $2: $(cat out err)"
import json, math, statistics, sys, xml.etree.ElementTree as xml
grid = json.load(open(sys.argv[1] + "/grid.json"))
runs = {run["run"]: run for run in grid["runs"]}
rows = {row["row"]: row for row in grid["rows"]}
svg = "{http://www.w3.org/2000/svg}"
root = xml.parse(sys.argv[1] + "/grid.svg").getroot()
texts = ["".join(text.itertext()) for text in root.iter(svg + "text")]
dots = len(list(root.iter(svg + "circle")))
sys.exit(0 if eval(sys.argv[2]) else 1)
PYTHON
}

# every combination with every seed, in sequence
grid run.ini --seeds 1..3 --set 'model.lr=0.1|0.02' --set 'model.optimizer=sgd | adam' --set model.momentum= --output first ||
    fail "the grid failed"
[ "$(cd first && echo *seed*)" = "$(echo model.lr=0.{02,1},model.optimizer={adam,sgd},seed={1,2,3})" ] || fail "not the folders: $(ls first)"
check first 'len(runs) == 12 and len(rows) == 4 and set(run["state"] for run in runs.values()) == {"finished"}'
for lr in 0.1 0.02; do
    for optimizer in sgd adam; do
        for seed in 1 3; do
            alone=alone-$lr-$optimizer-$seed one=first/model.lr=$lr,model.optimizer=$optimizer,seed=$seed
            grid run.ini --seed $seed --set model.lr=$lr --set model.optimizer=$optimizer --set model.momentum= --output "$alone" ||
                fail "$alone failed"
            [ "$(tensors "$alone" 40)" = "$(tensors "$one" 40)" ] || fail "$one: the tensors differ from those of the run alone"
            diff <(lines "$alone") <(lines "$one") || fail "$one: the metrics differ from those of the run alone"
            diff <(grep -v ': it speaks' "$one/log.txt" | wc -l) <(grep -v ': it speaks' out | wc -l) || fail "$one: it does not say what the run says alone"
            grep -q "^$seed: it speaks" "$one/log.txt" || fail "$one: what the problem prints is lost"
        done
    done
done

# mean and deviation of the results, as computed by Python; the picture has a dot for each value
check first 'all([math.isclose(row["metrics"][name]["mean"], statistics.mean(values), rel_tol=1e-12)
    and math.isclose(row["metrics"][name]["deviation"], statistics.stdev(values), rel_tol=1e-12)
    and row["metrics"][name]["least"] == min(values) and row["metrics"][name]["greatest"] == max(values)
    and row["metrics"][name]["n"] == 3
    for row in rows.values() for name in ["model.loss", "model.valid.loss"] for values in [[
        json.load(open(f"{sys.argv[1]}/{run}/summary.json"))["metrics"][name]
        for run in runs if runs[run]["settings"] == row["settings"]]]])' 
check first 'dots == 24 and all(row in texts for row in rows) and "model.valid.loss" in texts'
grep -qE '^\| model.lr=0.1, model.optimizer=adam +\| +3 \| +[0-9.]+ ± [0-9.]+ \| +[0-9.]+ ± [0-9.]+ \|$' first/grid.md || fail "not the table: $(cat first/grid.md)"

# finished runs are not repeated; seeds and values are added; the result is the same as if all had been requested at
# once
before=$(stat -c %Y.%i first/*/summary.json)
grid --resume first || fail "a finished grid cannot be looked at again"
grep -q '12 runs, 12 of them finished' err || fail "not said: $(cat err)"
[ "$before" = "$(stat -c %Y.%i first/*/summary.json)" ] || fail "finished runs were run again"
grid --resume first --seeds 2..4 --set model.lr=0.5 --jobs 2 || fail "nothing can be added"
grep -q '24 runs, 12 of them finished, 2 at once' err || fail "not said: $(cat err)"
[ "$before" = "$(stat -c %Y.%i first/model.lr=0.{02,1}*seed=[123]/summary.json)" ] || fail "finished runs were run again"
grid run.ini --seeds 1..4 --set 'model.lr=0.1|0.02|0.5' --set 'model.optimizer=sgd|adam' --set model.momentum= --output whole --json --quiet || fail "the whole grid failed"
python3 -c 'import json
a, b = (json.load(open(name + "/grid.json")) for name in ["first", "whole"])
assert b == json.load(open("out")), "--json prints something else"
assert a["rows"] == b["rows"], "other rows"' || fail "not the same as at once"
[ ! -s err ] || fail "--quiet is not"
rm first/model.lr=0.1,model.optimizer=sgd,seed=2 -r
grid --resume first || fail "a run that was removed is not run again"
grep -q '24 runs, 23 of them finished' err || fail "not said: $(cat err)"

# more steps: all runs continue; other settings: refused, and the folder is unchanged
cp first/grid.json kept.json
grid --resume first --set model.weight_decay=0.1 && fail "other settings were taken"
grep -q 'the checkpoint is of a run with other settings: model.weight_decay was 0, is 0.1' err || fail "not said: $(cat err)"
cmp first/grid.json kept.json || fail "the folder is not as it was"
grid --resume first --set engine.train_iters=60 || fail "it does not go on"
grid run.ini --seed 4 --set model.lr=0.5 --set model.optimizer=sgd --set model.momentum= --set engine.train_iters=60 --output longer || fail "longer"
[ "$(tensors longer 60)" = "$(tensors first/model.lr=0.5,model.optimizer=sgd,seed=4 60)" ] || fail "the tensors differ"
check first 'len(runs) == 24 and all(run["steps"] == 60 for run in runs.values())'

# stopped, or killed, at any moment; then resumed
grid run.ini --seeds 1..6 --jobs 2 --set engine.checkpoint_step=10 --output calm || fail "calm"
until_has() {
    for _ in $(seq 300); do
        if grep -qsF -- "$2" "$1"; then return 0; fi
        sleep 0.05
    done
    fail "$1 never had: $2: $(cat out err)"
}
same_as_calm() { # FOLDER
    for seed in 1 2 3 4 5 6; do
        [ "$(tensors calm/seed=$seed 40)" = "$(tensors "$1/seed=$seed" 40)" ] || fail "$1: the tensors of $seed differ"
        diff <(lines calm/seed=$seed) <(lines "$1/seed=$seed") || fail "$1: the metrics of $seed differ"
    done
    python3 -c 'import json, sys
a, b = (json.load(open(name + "/grid.json"))["rows"] for name in ["calm", sys.argv[1]])
sys.exit(a != b)' "$1" || fail "$1: other rows"
}
begin() { # FOLDER
    rm -f out err
    "$BETTY_RUN" run.ini --seeds 1..6 --jobs 2 --set engine.checkpoint_step=10 --set model.sleeps=20 --output "$1" >out 2>err &
    run=$!
    until_has "$1/seed=2/metrics.jsonl" '"step":'
}
# sleeping changes no bit, but it is a setting, so resumed runs have it, too
go_on() { grid --resume "$1" --jobs 2 || fail "$1 does not go on"; }
sed -i 's/train_iters = 40/train_iters = 40\ncheckpoint_keep = 2/' run.ini

begin stopped
kill -INT $run
wait $run
[ $? -eq 130 ] || fail "not 130 after Ctrl-C"
grep -q 'stopping each run after its current step' err || fail "nothing said: $(cat err)"
grep -q 'continue with: betty-run --resume stopped' err || fail "not said how to go on: $(cat err)"
ls stopped/seed=1/checkpoints/step-*.json >/dev/null || fail "no checkpoint is left"
check stopped '"interrupted" in [run["state"] for run in runs.values()] and rows["as configured"]["finished"] < 6'
go_on stopped
same_as_calm stopped

begin killed
kill -KILL $run
wait $run 2>/dev/null
go_on killed
same_as_calm killed

begin child
read -r first _ <"/proc/$run/task/$run/children" # the line has no newline
[ -n "$first" ] || fail "it has no children"
kill -KILL "$first"
wait $run
[ $? -eq 1 ] || fail "not 1 after the death of a child"
grep -q 'its process was ended by signal 9 (Killed)' out || fail "not said: $(cat out)"
grep -q '1 of 6 runs failed; betty-run --resume child tries them again' err || fail "not said: $(cat err)"
check child 'rows["as configured"]["finished"] == 5 and rows["as configured"]["metrics"]["model.loss"]["n"] == 5'
go_on child
same_as_calm child

# a run that ended before its first checkpoint starts again
mkdir -p begun/seed=1
cp -r calm/. begun
rm -r begun/seed=1/checkpoints begun/seed=1/summary.json
go_on begun
same_as_calm begun

# a broken summary is named in the message; if it is missing, the run is repeated
cp -r killed damaged
echo '{' >damaged/seed=1/summary.json
mistake 'damaged/seed=1/summary.json: line 2: it cannot be read as JSON' --resume damaged
rm -r damaged/seed=1/checkpoints damaged/seed=1/summary.json
go_on damaged
same_as_calm damaged

# a failed run is a row, but not part of the mean
grid run.ini --seeds 1..3 --set model.dies=30 --output fails
[ $? -eq 1 ] || fail "not 1 after a failure"
grep -q '^seed=2: failed: .*batch 30 is <broken>' out || fail "not said: $(cat out)"
grep -qE '^as configured +2 of 3 ' out || fail "not the row: $(cat out)"
check fails 'runs["seed=2"]["state"] == "failed" and rows["as configured"]["metrics"]["model.loss"]["n"] == 2 and dots == 4'
grid run.ini --seeds 1,2 --set 'model.lr=0.1|-1' --output odd && fail "a bad value is no failure"
grep -qE '^model.lr=-1 +failed: --set model.lr = -1: expected a number' out || fail "not said: $(cat out)"
check odd '"failed: --set model.lr = -1: expected a number, from 0 to 1e+06" in texts'

# a value with a | in it, and folder names
grid run.ini --set 'engine.early_stopping_metric=a\|b/c|loss' --set engine.train_iters=2 --plan || fail "a | within a value: $(cat err)"
grep -q '^engine.early_stopping_metric=a|b/c ' out || fail "not the values: $(cat out)"
grid run.ini --set 'engine.early_stopping_metric=a b/*|loss' --set engine.train_iters=2 --output names || fail "names: $(cat err)"
[ -d 'names/engine.early_stopping_metric=a%20b%2F%2A' ] || fail "not the name: $(ls names)"

# --plan: the plan of each run, as --plan prints it, and no files are left
grid "$examples/reweight.ini" --threads 1 --plan --seeds 1..5 --set 'classifier.hidden=10|300' --json || fail "--plan"
planned=$(cat out)
grid "$examples/reweight.ini" --threads 1 --plan --set classifier.hidden=300 --json || fail "--plan of one"
python3 -c 'import json, sys
runs = json.loads(sys.argv[1])["runs"]
assert len(runs) == 2 and runs[1]["planned_bytes"] == json.load(open("out"))["planned_bytes"], runs' "$planned" || fail "other bytes"
[ ! -e runs ] || fail "--plan leaves a folder"

# wrong usage
mistake 'already holds several runs' run.ini --seeds 1..3 --output calm
mistake 'already holds several runs' run.ini --output calm
mistake 'there is no problem `modl`' run.ini --seeds 1..3 --set 'modl.lr=1|2' --output nothing
[ ! -e nothing ] || fail "what cannot be set up leaves a folder: $(ls -R nothing)"
mistake '[model] has no key `lrr`; did you mean `lr`?' run.ini --seeds 1..3 --set model.lrr=1 --output nothing --jobs 2
[ ! -e nothing ] || fail "what cannot be set up leaves a folder: $(ls -R nothing)"
mistake 'expected a whole number' run.ini --seeds 1..3 --set engine.train_iters=few
mistake 'the runs of this folder do not vary it' --resume calm --set 'model.lr=1|2'
mistake 'this folder has several runs' --evaluate calm
mistake '--seed and --seeds cannot be used together' run.ini --seed 3 --seeds 1,2
mistake 'all values and seeds together make 1200 runs; expected at most 1000' run.ini --seeds 1..200 --set 'model.lr=1|2|3|4|5|6'
echo '{"runs": [3]}' >kept.json
mkdir -p broken && cp kept.json broken/grid.json
mistake 'broken/grid.json cannot be read' --resume broken
echo '{' >broken/grid.json
mistake 'broken/grid.json: line 2: it cannot be read as JSON' --resume broken
mv run.ini other.ini
mistake 'run.ini, which no longer exists; name the file: betty-run FILE --resume calm' --resume calm
grid other.ini --resume calm --jobs 2 || fail "it does not go on with another file: $(cat err)"
exit 0
