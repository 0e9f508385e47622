#!/bin/bash
# A plan with values that are computed again is the same, to the byte, in every process, wherever its memory lies: with
# each policy, and with budgets.
. "$(dirname "$0")/common.sh" || exit 1

    local settings=(--set classifier.resnet=8 --set classifier.colours=false) setting
    for setting in "$@"; do settings+=(--set "$setting"); done
    for name in first second; do
        "$BETTY_RUN" "$examples/reweight.ini" --threads 1 --plan --json "${settings[@]}" >$name.json 2>err || fail "$*: no plan"
        export MALLOC_PERTURB_=85 MALLOC_MMAP_THRESHOLD_=4096
    done
    unset MALLOC_PERTURB_ MALLOC_MMAP_THRESHOLD_
    cmp first.json second.json || fail "$*: the plan is another one in another process"
    grep -q '"again"' first.json || fail "$*: nothing is computed again"
}
for policy in cheap cost:20% every:2 sqrt 'modules:layer1.*' ops:relu budget:30MiB; do
    twice "classifier.checkpointing=$policy"
done
twice engine.memory_budget=30MiB
twice engine.memory_budget=40MiB classifier.type=cg classifier.cg_iterations=2
twice classifier.memory_budget=32MiB reweight.memory_budget=30MiB
