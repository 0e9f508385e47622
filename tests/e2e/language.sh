#!/bin/bash
# A language model learns more than word frequencies, and continues a text with words that it knows.
. "$(dirname "$0")/common.sh" || exit 1

run model language engine.train_iters=60 engine.valid_step=60 language.tokenizer=words:300 mixture.batch_size=16
expect "$(metric model language.valid.perplexity) < 46" # 49.9 from word frequencies alone
expect "$(metric model mixture.weight.0) != 1"

text=$("$BETTY_RUN" --evaluate model --sample "It was a" --tokens 12 --temperature 0.8 --top 40)
[[ $text == "It was a "* ]] || fail "this does not go on from the text: $text"
[ "$("$BETTY_RUN" --evaluate model --sample "It was a" --tokens 12 --temperature 0.8 --top 40)" = "$text" ] || fail "it is another text"
[ "$("$BETTY_RUN" --evaluate model --sample "It was a" --tokens 12 --seed 7)" != "$text" ] || fail "the seed does not matter"

# GPT-2's network starts from a published checkpoint, and generates text.
gpt2=(language.gpt2=true language.width=16 language.heads=2 language.layers=2 language.places=12 language.tokens=8
    language.tokenizer=words:64 language.weights_layout=gpt2
    language.weights="$BT_SOURCE_DIR/tests/nn/published/gpt2.safetensors")
run gpt2 language engine.train_iters=1 engine.valid_step=1 language.lr=0 mixture.batch_size=4 language.batch_size=4 "${gpt2[@]}"
grep -q "gpt2.safetensors: 28 of 28 parameters and buffers are loaded" out err || fail "the weights are not taken"
text=$("$BETTY_RUN" --evaluate gpt2 --sample "was a" --tokens 12)
[[ $text == "was a "* ]] || fail "this does not go on from the text: $text"

refused() { # WORD OPTIONS
    local word=$1 told
    shift
    told=$("$BETTY_RUN" "$@" 2>&1) && fail "$* is not refused"
    [[ $told == *"$word"* ]] || fail "$*: $told"
}
refused "--sample needs --evaluate" "$BT_SOURCE_DIR/examples/language.ini" --sample x
refused "--top needs" --evaluate model --top 3
refused "has no token" --evaluate model --sample ""
refused "generates no text" --evaluate model --sample x --level mixture
more=()
for setting in "${gpt2[@]}" language.layers=1; do more+=(--set "$setting"); done
refused "layers.1.self_attn.in_proj_bias >" "$BT_SOURCE_DIR/examples/language.ini" "${more[@]}"

# The bytes that a layer saves for its derivatives are those in docs/memory.md; by default, everything except
# attention's weights.
planned() { # LAYERS HOLD-ATTENTION KEY: the first number with this name in the plan
    "$BETTY_RUN" "$BT_SOURCE_DIR/examples/language.ini" --threads 1 --plan --json --set engine.levels=language --set language.baseline=true \
        --set language.batch_size=256 --set language.prefetch=false --set "language.layers=$1" --set "language.hold_attention=$2" >plan 2>err ||
        fail "there is no plan of $1 layers"
    grep -m 1 -oE "\"$3\": [0-9]+" plan | sed 's/.*: //'
}
expect "$(planned 2 true saved_all) - $(planned 1 true saved_all) == 27525120"
expect "$(planned 2 false arena) - $(planned 1 false arena) == 27525120 - 256 * 8 * 20 * 20 * 4"
