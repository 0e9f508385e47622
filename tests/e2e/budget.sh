#!/bin/bash
# A memory budget finds what `checkpointing = cost` finds: a run whose worst moment is the hypergradient's product, in
# which room is made only by computing the forward pass again for each block.
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
# Kernels of each instruction set need other bytes: of two searches one may end a per cent above the other.
budget=$((cost * 102 / 100))
expect "$(planned "engine.memory_budget=$budget") <= $budget"
