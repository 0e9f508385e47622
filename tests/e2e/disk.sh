#!/bin/bash
# Full disks and folders that cannot be written: a message, the right exit code, no partial file.
. "$(dirname "$0")/common.sh" || exit 1
bad=0

cat >run.ini <<'INI'
[engine]
problems = logistic_hpo
train_iters = 200
valid_step = 0
log_step = 1
[dependencies]
u2l = penalty > model
l2u = model > penalty
[penalty]
lr = 0.01
[model]
lr = 0.1
INI
complain() {
    printf '%s\n' "$*"
    cat err
    bad=1
}
# A limit on the size of every file simulates a full disk; messages go through a pipe, which has no limit.
limited() { # KIB ARGUMENTS...
    local kib=$1
    shift
    { bash -c 'ulimit -f "$0" && exec "$BETTY_RUN" "$@"' "$kib" "$@" 2>&1; echo "exit code $?"; } | cat >err
}
says() { # CODE TEXT
    grep -qF "exit code $1" err || complain "expected exit code $1"
    grep -qF -- "$2" err || complain "expected: $2"
}

"$BETTY_RUN" run.ini --quiet --output good 2>err || { complain "the run without a fault failed"; exit 1; }
[ "$(wc -c <good/metrics.jsonl)" -gt 16384 ] || complain "the run writes too little for this test"

# metrics.jsonl ends with its last complete line
limited 8 run.ini --quiet --output small
says 1 'small/metrics.jsonl cannot be written: File too large'
[ -s small/metrics.jsonl ] || complain "nothing was kept"
lines=$(wc -l <small/metrics.jsonl)
without_time() { sed 's/"time":[^,]*,//' "$1"; }
diff <(without_time small/metrics.jsonl) <(without_time good/metrics.jsonl | head -n "$lines") >diff ||
    complain "what was kept is not what was written: $(cat diff)"
[ "$(echo $(ls small))" = "config.ini equation.txt metrics.jsonl plan.json" ] || complain "left behind: $(ls small)"

# a checkpoint is complete or missing
limited 5 run.ini --quiet --set engine.log_step=0 --set engine.train_iters=2 --set model.optimizer=adam \
    --set model.amsgrad=true --set penalty.optimizer=adam --set penalty.amsgrad=true --output checked
says 1 'checked/checkpoints/step-2.safetensors cannot be written: File too large'
[ -z "$(ls checked/checkpoints)" ] || complain "left behind: $(ls checked/checkpoints)"
[ ! -e checked/summary.json ] || complain "there is a summary of a run that failed"

# and so is the configuration
limited 1 run.ini --quiet --output config
says 2 'config/config.ini cannot be written: File too large'
[ -z "$(ls config)" ] || complain "left behind: $(ls config)"

# the cache of compiled problems
cp "$BT_SOURCE_DIR"/problems/logistic_hpo.c own.c
limited 1 run.ini --quiet --set engine.problems=own.c --output own
says 2 'own.c does not compile'
[ -z "$(ls cache/betty)" ] || complain "left in the cache: $(ls cache/betty)"
[ ! -e own ] || complain "left a folder"

# printed output
if "$BETTY_RUN" run.ini --plan 2>err >/dev/full; then complain "a full disk goes unnoticed"; fi
grep -qF 'cannot be written' err || complain "expected: cannot be written"

# closed standard streams: no file of the run takes their place
for closed in '>&-' '2>&-' '<&- >&- 2>&-'; do
    rm -rf closed
    eval "\"\$BETTY_RUN\" run.ini --output closed >out 2>err $closed"
    code=$?
    case $closed in '2>&-') due=0 ;; *) due=1 ;; esac # printed output is lost
    [ $code -eq $due ] || complain "$closed: exit code $code, expected $due"
    diff <(without_time closed/metrics.jsonl) <(without_time good/metrics.jsonl) >diff ||
        complain "$closed: metrics.jsonl holds something else: $(head -n 5 diff)"
done

# folders that cannot be written
touch file
mv file runs # the parent of folders without --output
"$BETTY_RUN" run.ini --quiet 2>err
[ $? -eq 2 ] || complain "runs is a file: expected exit code 2"
grep -qF 'the output folder runs cannot be created: Not a directory' err || complain "expected: runs cannot be created"
mv runs file
for output in file file/below /proc/nowhere; do
    "$BETTY_RUN" run.ini --quiet --output "$output" 2>err
    code=$?
    [ $code -eq 2 ] || complain "$output: exit code $code, expected 2"
    grep -qF -- "--output: the output folder $output cannot be created: " err || complain "expected: $output cannot be created"
done
mkdir sealed
chmod 500 sealed
if [ "$(id -u)" -ne 0 ]; then
    "$BETTY_RUN" run.ini --quiet --output sealed 2>err
    [ $? -eq 2 ] || complain "a sealed folder: expected exit code 2"
    grep -qF 'sealed/config.ini cannot be written: Permission denied' err || complain "expected: cannot be written"
fi
chmod 700 sealed
[ ! -e runs ] || complain "left a folder"
exit $bad
