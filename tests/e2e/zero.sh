#!/bin/bash
# ZeRO: whatever the ranks divide among them, a run gives the bits of a run where each rank has everything. Numbers that
# are sums over all parameters of a level (a penalty, dot products of cg, sama) agree up to rounding, as each rank adds
# up its part.
. "$(dirname "$0")/common.sh" || exit 1
noise_images

divided() { # bits, state (the state's bits, metrics up to rounding) or rounded, INI SETTING...
    local due=$1 ini=$2 strategy
    shift
    run whole "$@" engine.ranks=3
    for strategy in zero1 zero2 zero3; do
        run parts "$@" engine.ranks=3 engine.strategy=$strategy ${turns:+engine.executor=lockstep}
        close whole parts || fail "$ini: other numbers with $strategy"
        if [ $due != rounded ] || [ $strategy = zero1 ]; then
            cmp -s whole/checkpoints/*.safetensors parts/checkpoints/*.safetensors || fail "$ini: another state with $strategy"
        fi
        if [ $due = bits ] || [ $strategy = zero1 ]; then
            cmp -s <(numbers whole) <(numbers parts) || fail "$ini: other bits with $strategy"
        fi
        rm -r parts
    done
    rm -r whole
}

short=(engine.train_iters=6 engine.valid_step=6 engine.log_step=1)
small=(classifier.resnet=8 classifier.batch_size=20 reweight.batch_size=10 reweight.clean=1 classifier.imbalance=2
    classifier.valid_batch_size=50)
if ldd "$BETTY_RUN" | grep -q libasan; then # one test of each kind; engine.zero and engine.ranks cover the rest
    divided bits reweight "${short[@]}"
    turns=1 divided rounded maml "${short[@]}"
else
    for turns in "" 1; do
        divided bits reweight "${short[@]}"
        divided bits reweight_cifar "${short[@]}" "${small[@]}"
        divided bits language "${short[@]}" engine.train_iters=2 engine.valid_step=2 language.batch_size=16 mixture.batch_size=16
        # Each rank has a learner's few examples: a product there adds to existing values, which it cannot do with
        # parts.
        divided rounded maml "${short[@]}"
        divided rounded learning_by_ignoring "${short[@]}"
    done
    for ini in curriculum custom_op distillation game hyper_cleaning learned_rate reweight_longtail; do
        divided bits $ini "${short[@]}"
    done
    divided state logistic_hpo "${short[@]}"
    divided state three_level "${short[@]}"
    divided rounded sine "${short[@]}"
    divided rounded weak_labels "${short[@]}"
fi

# A checkpoint does not depend on it: a run can be resumed with another strategy, and other numbers of ranks.
begin() { # FOLDER SETTING...
    run "$1" reweight engine.train_iters=20 engine.valid_step=10 engine.checkpoint_step=10 engine.checkpoint_keep=9 "${@:2}"
}
go_on() { # FOLDER SETTING...: to step 40
    local folder=$1 setting settings=()
    for setting in "${@:2}"; do settings+=(--set "$setting"); done
    "$BETTY_RUN" --resume "$folder" --threads 1 --set engine.train_iters=40 "${settings[@]}" >out 2>err || fail "$*: it does not go on"
}
begin whole engine.ranks=3 engine.train_iters=40
begin parts engine.ranks=3 engine.strategy=fsdp
go_on parts engine.strategy=distributed
cmp -s whole/checkpoints/step-40.safetensors parts/checkpoints/step-40.safetensors || fail "another state after zero3 and distributed"
begin parted engine.ranks=4 engine.strategy=zero engine.train_iters=14
"$BETTY_RUN" --resume parted --threads 1 --set engine.train_iters=27 --set engine.ranks=2 --set engine.strategy=zero3 >out 2>err || fail "4 ranks, then 2"
go_on parted engine.ranks=3 engine.strategy=zero2
close whole parted || fail "other numbers of 4, 2 and 3 ranks"
