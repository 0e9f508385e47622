#!/bin/bash
# betty-run --compare RUN RUN: two runs of one example, and error messages.
. "$(dirname "$0")/common.sh" || exit 1

few=(engine.train_iters=20 engine.valid_step=10)
run one logistic_hpo "${few[@]}"
run two logistic_hpo "${few[@]}" model.lr=0.2

"$BETTY_RUN" --compare one two >out 2>err || fail "two runs"
cat >due <<'TEXT'
1: one
2: two

configuration
  model.lr  0.1  0.2

code
  the same: versions, what the callbacks trace, and the data

results
TEXT
head -n 10 out | diff - due || fail "the first lines"
grep -Eq '^  model\.valid\.loss +0\.[0-9]+ +0\.[0-9]+ +[-+]' out || fail "no validation loss"
grep -Eq '^  measured_bytes.arena +[0-9]+ +[0-9]+ +=$' out || fail "no bytes"

# the rate is an input of the program, but the form of the regularisation is code
sed 's/bt_square/bt_abs/' "$BT_SOURCE_DIR/problems/logistic_hpo.c" >own.c
cmp -s own.c "$BT_SOURCE_DIR/problems/logistic_hpo.c" && fail "nothing has changed"
run three logistic_hpo "${few[@]}" engine.problems="$PWD/own.c"
"$BETTY_RUN" three --compare one >out 2>err || fail "other code"
grep -Eq '^  model\.training_step +[0-9a-f]{16}  [0-9a-f]{16}$' out || fail "other code is not seen"
grep -q '^  model.data' out && fail "the data are the same"

"$BETTY_RUN" --compare one two --json | python3 -c '
import json, sys
found = json.load(sys.stdin)
assert found["runs"] == ["one", "two"]
assert found["configuration"] == [{"name": "model.lr", "values": ["0.1", "0.2"]}]
assert found["code"] == []
with open("one/summary.json") as file:
    summary = json.load(file)
rows = {row["name"]: row["values"] for row in found["results"]}
assert all(rows[name][0] == value for name, value in summary["metrics"].items())
' || fail "as JSON"

mistake 'needs a second run' --compare one
mistake 'cannot open the folder none' --compare one none
mistake 'is not the folder of a run: it has no config.ini' --compare one "$examples"
mistake 'one pair of runs to compare at a time' --compare one two three
mistake '--compare RUN RUN can be combined only with --json' --compare one two --plan
exit 0
