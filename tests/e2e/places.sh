#!/bin/bash
# The examples elsewhere: on memory that the processor cannot touch, with the same bits as in its own; and on two and
# three ranks, where only the order of sums makes a difference, with the same bits whether the ranks are processes or
# take turns in one.
. "$(dirname "$0")/common.sh" || exit 1
noise_images

places() { # INI SETTING...
    local ini=$1 ranks
    run near "$@"
    BETTY_RUN=$BETTY_RUN_ELSEWHERE BETTY_TEST_BACKEND=far run far "$@"
    cmp -s <(numbers near) <(numbers far) || fail "$ini: other numbers on far memory"
    cmp -s near/checkpoints/*.safetensors far/checkpoints/*.safetensors || fail "$ini: another state on far memory"
    for ranks in 2 3; do
        run "on-$ranks" "$@" engine.ranks=$ranks
        close "on-$ranks" near || fail "$ini: other numbers on $ranks ranks"
        run turns "$@" engine.ranks=$ranks engine.executor=lockstep
        cmp -s <(numbers "on-$ranks") <(numbers turns) || fail "$ini: other numbers of $ranks processes"
        cmp -s "on-$ranks"/checkpoints/*.safetensors turns/checkpoints/*.safetensors ||
            fail "$ini: another state of $ranks processes"
        rm -r turns
    done
    rm -r near far on-2 on-3
}

each_example places
