#!/bin/bash
# The examples on the fake CUDA device: the processor's numbers up to rounding; the same bits in any order that CUDA
# allows, and step by step. FAKE_SEEDS: the number of orders for each (2).
. "$BT_SOURCE_DIR/tests/e2e/common.sh" || exit 1
noise_images
failed=()

on_cuda() { # FOLDER INI SETTING...
    run "$@" engine.device=cuda
}

orders() {
    local ini=$1 seed
    run near "$@"
    FAKE_CUDA_ORDER=eager BETTY_CUDA=sync on_cuda one-by-one "$@"
    close one-by-one near || fail "$ini: other numbers than on the processor"
    FAKE_CUDA_ORDER=lazy on_cuda lazy "$@"
    same_bits one-by-one lazy "of $ini as late as possible"
    for seed in $(seq 1 "${FAKE_SEEDS:-2}"); do
        FAKE_CUDA_ORDER=$seed on_cuda "order-$seed" "$@"
        same_bits one-by-one "order-$seed" "of $ini in order $seed"
    done
    rm -r near one-by-one
}

only() { # the example that EXAMPLE names, or each
    if [ -z "${EXAMPLE:-}" ] || [ "$EXAMPLE" = "$1" ]; then orders "$@"; fi
}

each_example only
