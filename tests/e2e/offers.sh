#!/bin/bash
# A memory budget that cannot be met: the message has file and line, and what would fit; exit code 2. Each suggestion,
# set on the command line, fits, takes the bytes that were announced, and runs within the budget.
. "$(dirname "$0")/common.sh" || exit 1
command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }

budget() { # FILE INI BYTES: the example with this budget, in its second line
    { echo "[engine]"; echo "memory_budget = $3"; grep -v '^\[engine\]' "$examples/$2.ini"; } >"$1"
}
refused() { # FILE OPTIONS...: the message is in err
    local file=$1
    shift
    "$BETTY_RUN" "$file" --threads 1 "$@" >out 2>err
    [ $? -eq 2 ] || fail "not 2: $file $*"
    grep -qv '^setting up: ' out && fail "something was printed: $(head -n 3 out)" # slow steps print this
    grep -qF "$file:2: [engine] memory_budget = " err || fail "no file, line and key"
    [ ! -e runs ] || fail "a folder is left"
}
settings() { # a line "BYTES --set A --set B" for each offer in err
    python3 - <<'PYTHON' || fail "the offers cannot be read"
import re
line = [l for l in open("err") if "each of these alone would fit" in l][0].split(": ", 2)[2].strip()
setting = r"([a-z_]+)(?: = (\S+?)| not set)"
for offer in line.split("; "):
    match = re.fullmatch(setting + r" for (.*?)(?:, " + setting + r")? \((\S+ \S+)\)", offer)
    key, value, levels, also, also_value, size = match.groups()
    words = [size.replace(" ", "_")]
    for level in re.split(", | and ", levels):
        words.append(f"--set {level}.{key}={value or ''}")
        if also:
            words.append(f"--set {level}.{also}={also_value or ''}")
    print(*words)
PYTHON
}
expect_fits() { # FILE BYTES: checks each offer
    local file=$1 bytes=$2 count=0 said options
    settings >offers
    while read -r said options; do
        count=$((count + 1))
        # shellcheck disable=SC2086
        "$BETTY_RUN" "$file" --threads 1 $options --plan --json >plan.json 2>planned || fail "does not fit: $options: $(cat planned)"
        python3 - "$bytes" "$said" <<'PYTHON' || fail "other bytes: $options"
import json, sys
planned = sum(json.load(open("plan.json"))["planned_bytes"].values())
number, unit = sys.argv[2].split("_")
unit = {"KiB": 2**10, "MiB": 2**20}[unit]
sys.exit(not (planned <= int(sys.argv[1]) and abs(planned / unit - float(number)) <= 0.051))
PYTHON
    done <offers
    [ "$count" -ge "$3" ] || fail "$count offers: $(cat err)"
}

# bytes of batches, and of the states of an inner loop
budget tight.ini reweight 2500KiB
refused tight.ini
expect_fits tight.ini 2560000 2
[ "$(grep -c 'gradient_accumulation' err)" = 1 ] || fail "no accumulation is offered"
read -r _ options <offers
# shellcheck disable=SC2086
"$BETTY_RUN" tight.ini --threads 1 $options --set engine.train_iters=2 --set engine.valid_step=0 --output run >out 2>err ||
    fail "does not run: $options"
python3 -c 'import json, sys
summary = json.load(open("run/summary.json"))
sys.exit(summary["planned_bytes"] != summary["measured_bytes"] or sum(summary["measured_bytes"].values()) > 2560000)' ||
    fail "not within the budget: $(grep -E "_bytes" run/summary.json)"
budget loop.ini maml_omniglot 23MiB
refused loop.ini --set learner.unroll_steps=10 --plan
grep -q 'itd_spacing = auto for learner' err || fail "no spacing is offered"
sed -i '$a unroll_steps = 10' loop.ini && sed -i '/^unroll_steps = 1$/d;/^unroll_steps *= 1$/d' loop.ini
expect_fits loop.ini 24117248 2

# a level that is not allowed to recompute, but would need to
budget held.ini reweight 1
refused held.ini --set classifier.checkpointing=none
grep -q 'none of these would fit: ' err || fail "what cannot fit is offered"
grep -q 'checkpointing not set for classifier' err || fail "the budget may not choose"
refused held.ini --quiet --plan --json
grep -q 'none of these would fit: ' err || fail "not said"

# a resumed run has its settings; other errors have nothing to do with budgets
"$BETTY_RUN" --resume run --set engine.memory_budget=1000 >out 2>err
[ $? -eq 2 ] || fail "not 2 when resumed"
grep -q 'memory_budget = 1000: the smallest plan' err || fail "another failure"
grep -q 'would fit' err && fail "a run that goes on is offered other settings"
"$BETTY_RUN" tight.ini --set engine.memory_budget=1GiB --set reweight.nonsense=1 >out 2>err
[ $? -eq 2 ] || fail "not 2 for a key that is not there"
grep -q 'would fit' err && fail "a key that is not there is no budget's"
exit 0
