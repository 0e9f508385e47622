#!/bin/bash
# An encoder learns from masked words; a text classifier starts from it, is trained with learned weights, resumes after
# a stop without a difference, and is evaluated.
. "$(dirname "$0")/common.sh" || exit 1

small=(tokenizer=words:300 tokens=16 width=16 layers=1)
run words pretrain engine.train_iters=60 engine.valid_step=30 "${small[@]/#/masked.}"
expect "$(metric words masked.valid.perplexity) < 200" # of 300 words; before, 300

weights=("classifier.weights=$PWD/words/checkpoints/step-60.safetensors" classifier.weights_layout=plain
    'classifier.weights_names=masked.* > *' classifier.weights_missing=keep "${small[@]/#/classifier.}")
run whole finetune engine.train_iters=12 engine.valid_step=6 "${weights[@]}"
grep -q "16 of 18 parameters and buffers are loaded from the file; 2 are not in it and keep their values: head.weight" out err ||
    fail "it does not begin with the encoder"
run part finetune engine.train_iters=6 engine.valid_step=6 "${weights[@]}"
"$BETTY_RUN" --resume part --set engine.train_iters=12 >out 2>err || fail "--resume"
cmp part/checkpoints/step-12.safetensors whole/checkpoints/step-12.safetensors || fail "it goes on otherwise"
"$BETTY_RUN" --evaluate part --json >out 2>err || fail "--evaluate"
found=$(grep -oE '"classifier.valid.acc": ?[0-9.e-]+' out | sed 's/.*: *//')
expect "($found - $(metric part classifier.valid.acc)) ^ 2 < 1e-12"
