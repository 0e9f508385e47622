#!/bin/bash
# The examples on the fake CUDA device: the processor's numbers but for rounding; the same bits in any order that CUDA allows,
# and step by step. FAKE_SEEDS orders of each (2).
. "$BT_SOURCE_DIR/tests/e2e/common.sh" || exit 1
noise_images
failed=()

on_cuda() { # FOLDER INI SETTING...
    run "$@" engine.device=cuda
}

same() { # INI FOLDER WHAT
    cmp -s <(numbers one-by-one) <(numbers "$2") || fail "$1: other numbers $3"
    cmp -s one-by-one/checkpoints/*.safetensors "$2"/checkpoints/*.safetensors || fail "$1: another state $3"
    rm -r "$2"
}

orders() {
    local ini=$1 seed
    run near "$@"
    FAKE_CUDA_ORDER=eager BETTY_CUDA=sync on_cuda one-by-one "$@"
    close one-by-one near || fail "$ini: other numbers than on the processor"
    FAKE_CUDA_ORDER=lazy on_cuda lazy "$@"
    same "$ini" lazy "as late as possible"
    for seed in $(seq 1 "${FAKE_SEEDS:-2}"); do
        FAKE_CUDA_ORDER=$seed on_cuda "order-$seed" "$@"
        same "$ini" "order-$seed" "in order $seed"
    done
    rm -r near one-by-one
}

only() { # the example that EXAMPLE names, or each
    if [ -z "${EXAMPLE:-}" ] || [ "$EXAMPLE" = "$1" ]; then orders "$@"; fi
}

each_example only
