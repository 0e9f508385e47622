#!/bin/bash
# betty-run --find-lr: its output, the files that it writes and those it leaves alone; the suggested setting trains.
. "$(dirname "$0")/common.sh" || exit 1

run runs/logistic_hpo-1 logistic_hpo engine.train_iters=20 engine.valid_step=20
before=$(find runs -type f -exec cksum {} + | sort)
find_lr() { "$BETTY_RUN" "$examples/logistic_hpo.ini" --threads 1 --find-lr model "$@" >out 2>err || fail "$* failed"; }

find_lr
grep -q '^model: learning rates from 1e-07 to 10 in 100 steps' out || fail "not the range: $(cat out)"
grep -q '^runs/logistic_hpo-find-lr-1: lr.csv, lr.svg$' out || fail "not where: $(cat out)"
[ "$(wc -l <runs/logistic_hpo-find-lr-1/lr.csv)" -gt 50 ] || fail "too few steps"
rate=$(sed -n 's/^suggestion: \([^,]*\), where.*/\1/p' out)
grep -q "^lr = $rate\$" out || fail "not the line to write: $(cat out)"
tail -n 5 out | head -n 2 | grep -q '^\[model\]$' || fail "not its section: $(cat out)"
awk -F, -v rate="$rate" 'NR > 1 && $2 > rate * 0.99 && $2 < rate * 1.01 { found = 1 } END { exit !found }' \
    runs/logistic_hpo-find-lr-1/lr.csv || fail "$rate is none of the rates"
run suggested logistic_hpo engine.train_iters=20 engine.valid_step=20 "model.lr=$rate"

# in the given folder; as JSON; the same numbers again; for an upper level
find_lr --output here
cmp -s here/lr.csv runs/logistic_hpo-find-lr-1/lr.csv || fail "other numbers"
find_lr --lr-range 1e-3:1:10 --json
grep -q '"suggestion": ' out || fail "no JSON: $(cat out)"
"$BETTY_RUN" "$examples/logistic_hpo.ini" --threads 1 --find-lr penalty --lr-range 1e-3:1:10 \
    --set model.unroll_steps=2 >out 2>err || fail "no upper level"
grep -q '^\[penalty\]$' out || grep -q '^no suggestion' out || fail "nothing of penalty: $(cat out)"

rm -r runs/logistic_hpo-find-lr-*
[ "$(find runs -type f -exec cksum {} + | sort)" = "$before" ] || fail "the run has changed"

mistake '--find-lr modle: [modle]: there is no problem' "$examples/logistic_hpo.ini" --find-lr modle
mistake '--lr-range = 9: expected a whole number, from 10' "$examples/logistic_hpo.ini" --find-lr model --lr-range 1:2:9
mistake 'must be above the lowest' "$examples/logistic_hpo.ini" --find-lr model --lr-range 2:1:20
mistake 'already' "$examples/logistic_hpo.ini" --find-lr model --output suggested
mistake '--lr-range needs --find-lr' "$examples/logistic_hpo.ini" --lr-range 1:2:20
mistake '--find-lr cannot be combined' "$examples/logistic_hpo.ini" --find-lr model --plan
mistake '--resume trains' --resume suggested --find-lr model
