#!/bin/bash
# betty-run as a user sees it: reports, settings, its output folder, an interrupt.
. "$(dirname "$0")/common.sh" || exit 1

has() { # FILE TEXT...
    local file=$1 text
    shift
    for text in "$@"; do
        grep -qF -- "$text" "$file" || { cat "$file"; fail "$file lacks: $text"; }
    done
}

cp "$BT_SOURCE_DIR"/problems/logistic_hpo.c .
sed 's/^problems.*/problems = logistic_hpo.c/' "$BT_SOURCE_DIR"/examples/logistic_hpo.ini >hpo.ini

# options that need no file
"$BETTY_RUN" --version >out 2>err || fail "--version failed"
grep -qE '^betty-run [0-9]+\.[0-9]+\.[0-9]+$' out || fail "--version says $(cat out)"
"$BETTY_RUN" --help >out 2>err || fail "--help failed"
has out '--print-config' 'train_iters' 'cg_iterations' 'weight_decay' 'Exit code'
if "$BETTY_RUN" --help 2>err >/dev/full; then fail "a full disk goes unnoticed"; fi

# reports do not train, and leave no files
"$BETTY_RUN" hpo.ini --print-config --set engine.train_iters=7 >full.ini 2>err || fail "--print-config failed"
has full.ini 'train_iters = 7' '[dependencies]' 'cg_iterations = ' 'valid_step = ' 'momentum = '
"$BETTY_RUN" full.ini --print-config >again.ini 2>err || fail "the printed configuration does not read back"
mkdir -p held/checkpoints
"$BETTY_RUN" full.ini --print-config --output held >/dev/null 2>err || fail "a report asks for a folder of its own"
diff full.ini again.ini || fail "the printed configuration reads back to another one"
"$BETTY_RUN" hpo.ini --plan >plan 2>err || fail "--plan failed"
has plan 'parameters'
"$BETTY_RUN" hpo.ini --info >out 2>err || fail "--info failed"
"$BETTY_RUN" hpo.ini --plan --json >plan.json 2>err || fail "--plan --json failed"
[ "$(head -c 1 plan.json)" = '{' ] || fail "--json is not JSON"
"$BETTY_RUN" hpo.ini --plan --json | diff - plan.json || fail "the plan is another one in another process"
"$BETTY_RUN" hpo.ini --check-hypergradient --samples 2 --set model.unroll_steps=5 >out 2>err || fail "the check failed"
has out 'hypergradient against differences' 'cosine' 'the parts that must be exact agree'
"$BETTY_RUN" hpo.ini --check-hypergradient --samples 2 --json --set model.unroll_steps=5 >out 2>err || fail "the check as JSON failed"
has out '"level": "penalty"' '"samples": [' '"verdict": "' '"lowers": [' '"parts": ['
[ ! -e runs ] || fail "a report left a folder"

# a run: plain lines in a pipe, one folder
"$BETTY_RUN" --threads 1 hpo.ini --set engine.train_iters=300 --set engine.valid_step=100 >out 2>err || fail "the run failed"
has out 'step 300/300' 'steps/s' 'runs/hpo-1'
if grep -q "$(printf '\r')" out; then fail "a pipe got terminal codes"; fi
[ ! -s err ] || fail "a run that went well complained"
has runs/hpo-1/summary.json '"steps": 300' '"ms_per_step": ' '"data_seconds": ' '"metrics": {' '"planned_bytes": {' '"measured_bytes": {' \
    '"arena": ' '"persistent": ' '"outside_bytes": ' '"seed": 1' '"version": "' '"config": {' '"train_iters": 300' \
    '"threads": 1'
has runs/hpo-1/metrics.jsonl '{"step":100,' '{"step":300,'
# shellcheck disable=SC2012
ls runs/hpo-1 runs/hpo-1/checkpoints | diff - <(printf '%s\n' runs/hpo-1: checkpoints config.ini equation.txt \
    metrics.jsonl plan.json summary.json '' runs/hpo-1/checkpoints: step-300.json step-300.safetensors) || fail "the folder holds something else"
"$BETTY_RUN" hpo.ini --set engine.train_iters=300 --threads 1 --quiet >out 2>err || fail "the second run failed"
[ ! -s out ] || fail "--quiet is not"
[ -f runs/hpo-2/summary.json ] || fail "the second run has no folder of its own"

# the same seed gives the same numbers; another seed gives others
metric() { grep -F '"step":300' "$1" | sed 's/"time":[^,]*,//'; }
"$BETTY_RUN" hpo.ini --set engine.train_iters=300 --threads 1 --seed 2 --quiet --output other 2>err || fail "the third run failed"
"$BETTY_RUN" hpo.ini --set engine.train_iters=300 --threads 1 --quiet --output same 2>err || fail "the fourth run failed"
[ "$(metric same/metrics.jsonl)" = "$(metric runs/hpo-2/metrics.jsonl)" ] || fail "one seed gave two results"
[ "$(metric other/metrics.jsonl)" != "$(metric runs/hpo-2/metrics.jsonl)" ] || fail "two seeds gave one result"

# profiling changes no number
"$BETTY_RUN" hpo.ini --set engine.train_iters=300 --set engine.valid_step=100 --threads 1 --profile --output profiled \
    >out 2>err || fail "--profile failed"
has out 'profile of 300 steps' 'parts' 'kernels, by level' 'single calls' 'GF/s'
has profiled/profile.json '"steps": 300' '"kernel": "' '"flops": ' '"share": '
has profiled/trace.json '"traceEvents": [' '"ph": "X"' '"dur": '
[ "$(metric profiled/metrics.jsonl)" = "$(metric runs/hpo-1/metrics.jsonl)" ] || fail "a profile changed the numbers"

# evaluating a checkpoint gives the numbers from the end of its run, and changes nothing
"$BETTY_RUN" --evaluate same --json >out 2>err || fail "--evaluate failed"
last() { grep -oE '"model.valid.loss": ?[-0-9.e]+' "$1" | tail -n 1 | sed 's/.*: *//'; }
awk "BEGIN { exit !($(last out) - $(last same/summary.json) < 1e-9) }" || fail "another loss than the run has reported"
"$BETTY_RUN" --evaluate same --set model.lr=7 --predictions rows.csv >out 2>err || fail "--predictions failed"
has out 'same, step 300' 'model.valid.loss '
has rows.csv 'index,logit'
[ "$(wc -l <rows.csv)" -gt 10 ] || fail "there are too few predictions"
if "$BETTY_RUN" --evaluate nowhere >out 2>err; then fail "a run that is not there was evaluated"; fi

# its networks can be exported
"$BETTY_RUN" --export penalty.onnx --problem penalty same >out 2>err || fail "--export failed"
grep -qx 'penalty.onnx: the network of penalty at step 300: output \[[0-9]*\]' out || fail "it does not say what it has written"
"$BETTY_RUN" hpo.ini --export model.safetensors --problem model same >out 2>err || fail "--export of parameters failed"
has out 'model.safetensors: the network of model at step 300: 1 parameters and 0 buffers'
if "$BETTY_RUN" --export model.onnx same >out 2>err; then fail "the network of nobody was written"; fi
has err 'whose network is written: --problem NAME, one of penalty, model'
[ ! -e model.onnx ] || fail "a file was left that nobody asked for"

# a run can be resumed after its project was moved or copied, with the files there; and in another place, with its INI
# file
mkdir project
cp logistic_hpo.c hpo.ini project
"$BETTY_RUN" project/hpo.ini --set engine.train_iters=20 --quiet --output project/runs/a 2>err || fail "the run to move failed"
has project/runs/a/config.ini 'folder_here = ../..'
mv project moved
"$BETTY_RUN" --resume moved/runs/a --set engine.train_iters=30 >out 2>err || fail "a moved project does not go on"
has out 'moved/runs/a: continuing after step 20'
cp -r moved copy
sed -i 's/bt_square/bt_abs/' moved/logistic_hpo.c
"$BETTY_RUN" --resume copy/runs/a --set engine.train_iters=40 --quiet 2>err || fail "a copied project does not go on with its own files"
if "$BETTY_RUN" --resume moved/runs/a --quiet 2>err; then fail "another problem went on"; fi
mv copy/runs/a apart
"$BETTY_RUN" copy/hpo.ini --resume apart --set engine.train_iters=50 >out 2>err || fail "a run apart from its project does not go on"
has out 'apart: continuing after step 40'
[ "$("$BETTY_RUN" $'no\033[31mfile.ini' 2>&1 | tr -d '\033')" = 'betty-run: no\x1b[31mfile.ini: cannot be opened: No such file or directory' ] ||
    fail "a control byte reaches the terminal"

# a path may contain any bytes: here Latin-1
latin=$'caf\xe9'
mkdir "$latin"
(
    cd "$latin" || exit 1
    "$BETTY_RUN" ../hpo.ini --set engine.train_iters=20 --quiet --output "$latin" 2>../err || fail "a path in Latin-1: the run failed"
    has "$latin/summary.json" '"output": "caf\\xe9"'
    "$BETTY_RUN" --resume "$latin" --set engine.train_iters=30 --quiet 2>../err || fail "a path in Latin-1 does not go on"
    "$BETTY_RUN" --evaluate "$latin" --json >../out 2>../err || fail "a path in Latin-1 is not evaluated"
    has ../out '"run": "caf\\xe9"'
) || exit 1
cp hpo.ini logistic_hpo.c "$latin"
"$BETTY_RUN" "$latin/hpo.ini" --set engine.train_iters=20 --quiet --output named 2>err || fail "a project in Latin-1 failed"
"$BETTY_RUN" --resume named --set engine.train_iters=30 --quiet 2>err || fail "a project in Latin-1 does not go on"

# an interrupt
"$BETTY_RUN" hpo.ini --set engine.train_iters=100000000 --threads 1 --output stopped >out 2>err &
run=$!
for _ in $(seq 100); do
    [ -s stopped/metrics.jsonl ] && break
    sleep 0.1
done
kill -TERM $run
wait $run
code=$?
[ $code -eq 130 ] || fail "interrupted: exit code $code"
has err 'interrupted'
