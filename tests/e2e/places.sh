#!/bin/bash
# The examples elsewhere: on memory that the processor cannot touch, where each bit is that of a run in its own; and on
# two and three ranks, where the numbers are, but for the rounding of sums in another order, and each bit is the same
# whether the ranks are processes or take turns in one.
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

short=(engine.train_iters=6 engine.valid_step=6 engine.log_step=1)
small=(classifier.resnet=8 classifier.batch_size=20 reweight.batch_size=10 reweight.clean=1 classifier.imbalance=2
    classifier.valid_batch_size=50)
for ini in curriculum custom_op distillation game hyper_cleaning learned_rate learning_by_ignoring logistic_hpo maml reweight \
    reweight_longtail sine three_level tutorial weak_labels; do
    places $ini "${short[@]}"
done
places reweight_cifar "${short[@]}" "${small[@]}"
places language "${short[@]}" engine.train_iters=2 engine.valid_step=2 language.batch_size=16 mixture.batch_size=16
places darts_cell "${short[@]}" engine.train_iters=3 engine.valid_step=3 classifier.filters=4 classifier.cells=1 \
    classifier.nodes=1 classifier.batch_size=4 arch.batch_size=4 classifier.valid_batches=1
for ini in maml_omniglot imaml_omniglot; do
    places $ini "${short[@]}" engine.train_iters=16 engine.valid_step=16 meta.width=8 meta.ways=5 meta.valid_batches=5
done
tiny=(tokenizer=words:300 tokens=16 width=16 layers=1)
places pretrain "${short[@]}" "${tiny[@]/#/masked.}"
run words pretrain engine.train_iters=2 engine.valid_step=0 "${tiny[@]/#/masked.}"
# In double precision: Adam makes steps of gradients that are zero but for rounding, as of a key's bias, and sama divides by them.
places finetune "${short[@]}" engine.precision=fp64 "classifier.weights=$PWD/words/checkpoints/step-2.safetensors" classifier.weights_layout=plain \
    'classifier.weights_names=masked.* > *' classifier.weights_missing=keep "${tiny[@]/#/classifier.}"
