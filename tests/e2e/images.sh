#!/bin/bash
# The image examples, for a few seconds each; CIFAR-10's format with generated images.
. "$(dirname "$0")/common.sh" || exit 1
export BETTY_DATA=$PWD

# Squares whose place and colour determine the class, with noise: 200 training images, 100 test images.
mkdir cifar-10-batches-bin || exit 1
python3 - <<'END' || fail "no images"
import random

random.seed(1)


def record(label):
    planes = [[random.randrange(96) for _ in range(1024)] for _ in range(3)]
    for y in range(8):
        for x in range(8):
            planes[label % 3][32 * (4 + 8 * (label // 5) + y) + 4 + 5 * (label % 5) + x] = 255
    return bytes([label]) + b"".join(bytes(p) for p in planes)


for name, count in [(f"data_batch_{i}", 40) for i in range(1, 6)] + [("test_batch", 100)]:
    with open(f"cifar-10-batches-bin/{name}.bin", "wb") as file:
        file.write(b"".join(record(i % 10) for i in range(count)))
END

# reweight_cifar: a small residual network learns; batch norm's statistics are used in the test; another run starts from
# its values
small=(classifier.resnet=8 classifier.batch_size=20 reweight.batch_size=10 reweight.clean=1 classifier.imbalance=2
    classifier.valid_batch_size=50)
run first reweight_cifar engine.train_iters=60 engine.valid_step=60 "${small[@]}" classifier.lr=0.05
expect "$(metric first classifier.valid.acc) > 0.2" # chance: 0.1
weights=$PWD/first/checkpoints/step-60.safetensors
again=(engine.train_iters=1 engine.valid_step=1 classifier.lr=0 "classifier.weights=$weights"
    'classifier.weights_names=classifier.* > *' classifier.weights_layout=plain)
run again reweight_cifar "${again[@]}" "${small[@]}"
grep -q "classifier: .*step-60.safetensors: 37 of 37 parameters and buffers are loaded from the file" err out ||
    fail "nothing is said of the weights"
expect "$(metric again classifier.valid.acc) > $(metric first classifier.valid.acc) - 0.1" # the statistics are updated once
"$BETTY_RUN" "$examples/reweight_cifar.ini" --set classifier.weights=none.safetensors \
    --set classifier.resnet=8 >out 2>err && fail "weights that are not there"
grep -q "none.safetensors: file not found in the working folder or in $examples" err ||
    fail "the message lacks the file, or where it was looked for: $(cat err)"
run parts reweight_cifar engine.train_iters=2 engine.valid_step=0 classifier.gradient_accumulation=2 "${small[@]}"
grep -q "classifier: gradient_accumulation = 2: .* in 7 places: classifier.bn1 " err out || fail "no layers are named"

# the kernels chosen for each node: no plain loop in any phase
"$BETTY_RUN" "$examples/reweight_cifar.ini" --info >out 2>err || fail "--info: $(cat err)"
grep -q "conv.blocked" out || fail "no convolution"
grep -E "\.reference " out && fail "a plain loop was chosen"

# darts_cell: the search runs and prints a cell
run search darts_cell engine.train_iters=3 engine.valid_step=3 classifier.filters=4 classifier.cells=1 \
    classifier.nodes=1 classifier.batch_size=4 arch.batch_size=4 classifier.valid_batches=1
grep -qE "^node 2 = [a-z_0-9]+\([01]\) \+ [a-z_0-9]+\([01]\)$" out || fail "no cell: $(cat out)"

# maml_omniglot, imaml_omniglot: the ConvNet adapts
tiny=(meta.width=8 meta.ways=5 meta.valid_batches=20)
run maml maml_omniglot engine.train_iters=100 engine.valid_step=100 "${tiny[@]}"
expect "$(metric maml meta.valid.acc) > 0.3" # chance: 0.2
run strided maml_omniglot engine.train_iters=100 engine.valid_step=100 meta.strided=true "${tiny[@]}"
expect "$(metric strided meta.valid.acc) > 0.3"
run perceptron maml_omniglot engine.train_iters=4 engine.valid_step=4 meta.blocks=0 "${tiny[@]}"
run imaml imaml_omniglot engine.train_iters=64 engine.valid_step=64 "${tiny[@]}"
expect "$(metric imaml meta.valid.acc) > 0.25"

# learning_by_ignoring: images similar to the target's get larger weights
run ignoring learning_by_ignoring engine.train_iters=100 engine.valid_step=100 ignore.few=10 pretrain.many=30 \
    finetune.valid_batches=5 pretrain.batch_size=50
expect "$(metric ignoring pretrain.useful) > $(metric ignoring pretrain.all) + 0.002"
