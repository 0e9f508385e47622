#!/bin/bash
# A plan with recomputed values is the same, byte for byte, in every process, whatever the addresses and contents of its
# memory: with each policy, and with budgets.
. "$(dirname "$0")/common.sh" || exit 1

plan() { # FILE SETTING...
    local file=$1 settings=(--set classifier.resnet=8 --set classifier.colours=false) setting
    shift
    for setting in "$@"; do settings+=(--set "$setting"); done
    "$BETTY_RUN" "$examples/reweight.ini" --threads 1 --plan --json "${settings[@]}" >"$file" 2>err || fail "no plan: $*"
}

twice() { # SETTING...
    plan first.json "$@"
    MALLOC_PERTURB_=85 plan second.json "$@"
    cmp first.json second.json || fail "the plan is another one in another process: $*"
    grep -q '"again"' first.json || fail "nothing is computed again: $*"
}

for policy in cheap cost:20% every:2 sqrt 'modules:layer1.*' ops:relu budget:30MiB; do
    twice "classifier.checkpointing=$policy"
done
twice engine.memory_budget=30MiB
twice classifier.checkpointing=sqrt classifier.type=cg
twice classifier.memory_budget=32MiB reweight.memory_budget=30MiB
