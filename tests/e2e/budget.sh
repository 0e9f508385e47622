#!/bin/bash
# A memory budget finds the plan of `checkpointing = cost`: in this run the peak is in the hypergradient's product, and
# only recomputing the forward pass block by block reduces it.
. "$(dirname "$0")/common.sh" || exit 1
command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }

planned() { # SETTING: bytes of the whole run
    "$BETTY_RUN" "$examples/reweight.ini" --threads 1 --plan --json --set classifier.resnet=20 --set classifier.colours=false \
        --set classifier.precision=bf16 --set classifier.batch_size=20 --set reweight.batch_size=20 --set "$1" >out 2>err ||
        fail "$1 is not planned"
    python3 -c 'import json; p = json.load(open("out"))["planned_bytes"]; print(p["arena"] + p["persistent"])'
}

cost=$(planned classifier.checkpointing=cost:70%)
expect "$cost < 7e6"
# The kernels of each instruction set need different bytes: one search may end a per cent above the other.
budget=$((cost * 102 / 100))
expect "$(planned "engine.memory_budget=$budget") <= $budget"
