# The beginning of each test of the command: an empty folder, removed at the end, with a cache in it.
# shellcheck shell=bash
[ -x "${BETTY_RUN:-}" ] || { echo "skipped: there is no betty-run"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export XDG_CACHE_HOME=$folder/cache

fail() {
    echo "$*"
    [ -s err ] && cat err
    exit 1
}

examples=$BT_SOURCE_DIR/examples

run() { # FOLDER INI SETTING...: runs an example; its output is in out and err
    local folder=$1 ini=$2 setting settings=()
    shift 2
    for setting in "$@"; do settings+=(--set "$setting"); done
    "$BETTY_RUN" "$examples/$ini.ini" --threads 1 --output "$folder" "${settings[@]}" >out 2>err || fail "$ini ($*) failed"
}

mistake() { # TEXT ARGUMENTS...: wrong usage or input, and its error message
    local text=$1
    shift
    "$BETTY_RUN" "$@" >out 2>err
    [ $? -eq 2 ] || fail "$*: expected exit code 2"
    grep -qF -- "$text" err || fail "$*: expected: $text"
}

metric() { # FOLDER NAME: its last value
    grep -oE "\"$2\": [^,}]+" "$1/summary.json" | tail -n 1 | sed 's/.*: //'
}

expect() { # CONDITION: in awk
    awk "BEGIN { exit !($1) }" || fail "expected $1"
}

# A few images of noise in CIFAR-10's format.
noise_images() {
    export BETTY_DATA=$PWD
    mkdir cifar-10-batches-bin || exit 1
    python3 - <<'END' || fail "no images"
import random

random.seed(2)
for name, count in [(f"data_batch_{i}", 20) for i in range(1, 6)] + [("test_batch", 20)]:
    with open(f"cifar-10-batches-bin/{name}.bin", "wb") as file:
        file.write(b"".join(bytes([i % 10]) + random.randbytes(3072) for i in range(count)))
END
}

numbers() { sed 's/"time": *[0-9.e-]*,//' "$1/metrics.jsonl"; } # FOLDER: its metrics, without the time

same_bits() { # FOLDER OTHER WHAT: two runs have the same bits; removes the other one's folder
    cmp -s <(numbers "$1") <(numbers "$2") || fail "other numbers $3"
    cmp -s "$1"/checkpoints/*.safetensors "$2"/checkpoints/*.safetensors || fail "another state $3"
    rm -r "$2"
}

# FOLDER OTHER [PART]: every metric agrees with the other's, within this relative tolerance (1e-3)
close() {
    python3 - "$1" "$2" "${3:-1e-3}" <<'END'
import json
import sys

part = float(sys.argv[3])
found, due = ([json.loads(line) for line in open(f"{folder}/metrics.jsonl")] for folder in sys.argv[1:3])
assert len(found) == len(due) > 0
for a, b in zip(found, due):
    assert a.keys() == b.keys()
    for key in a:
        if key != "time" and isinstance(b[key], (int, float)) and not abs(a[key] - b[key]) <= part * (1 + abs(b[key])):
            sys.exit(f"{key} at step {b['step']}: {a[key]}, not {b[key]}")
END
}

# COMMAND: called for each example, reduced in size, with its name and settings. Images come from noise_images.
each_example() {
    local ini short small tiny
    short=(engine.train_iters=6 engine.valid_step=6 engine.log_step=1)
    small=(classifier.resnet=8 classifier.batch_size=20 reweight.batch_size=10 reweight.clean=1 classifier.imbalance=2
        classifier.valid_batch_size=50)
    for ini in curriculum custom_op distillation game hyper_cleaning learned_rate logistic_hpo reweight \
        reweight_longtail reweight_table three_level tutorial; do
        "$1" $ini "${short[@]}"
    done
    "$1" learning_by_ignoring "${short[@]}" ignore.batch_size=10 finetune.batch_size=10 \
        pretrain.batch_size=10 finetune.valid_batches=1
    "$1" weak_labels "${short[@]}" engine.precision=fp64 # it counts correct answers: a difference of one is not rounding
    for ini in maml sine; do
        "$1" $ini "${short[@]}" meta.valid_batches=5
    done
    "$1" reweight_cifar "${short[@]}" "${small[@]}"
    "$1" language "${short[@]}" engine.train_iters=2 engine.valid_step=2 language.batch_size=16 mixture.batch_size=16
    "$1" darts_cell "${short[@]}" engine.train_iters=3 engine.valid_step=3 classifier.filters=4 classifier.cells=1 \
        classifier.nodes=1 classifier.batch_size=4 arch.batch_size=4 classifier.valid_batches=1
    for ini in maml_omniglot imaml_omniglot; do
        "$1" $ini "${short[@]}" engine.train_iters=16 engine.valid_step=16 meta.width=8 meta.ways=5 meta.valid_batches=5
    done
    tiny=(tokenizer=words:300 tokens=16 width=16 layers=1)
    "$1" pretrain "${short[@]}" "${tiny[@]/#/masked.}"
    run words pretrain engine.train_iters=2 engine.valid_step=0 "${tiny[@]/#/masked.}"
    # In double precision: Adam takes steps for gradients that are only rounding errors, as of a key's bias, and sama
    # divides by them.
    "$1" finetune "${short[@]}" engine.precision=fp64 "classifier.weights=$PWD/words/checkpoints/step-2.safetensors" \
        classifier.weights_layout=plain 'classifier.weights_names=masked.* > *' classifier.weights_missing=keep \
        "${tiny[@]/#/classifier.}"
}
