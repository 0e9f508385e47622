#!/bin/bash
# Real-world kinds of data through the built-in problems: images of different sizes, classes by name in predictions,
# tables, sparse rows, arrays.
. "$(dirname "$0")/common.sh" || exit 1

python3 - <<'END' || fail "no data"
import os
import random
import struct

random.seed(1)
for split, count in [("train", 12), ("test", 5)]:
    for k, name in enumerate(["cat", "dog"]):
        os.makedirs(f"photos/{split}/{name}")
        for i in range(count):
            w, h = random.randrange(9, 30), random.randrange(9, 30)
            pixels = bytes(random.randrange(100) + 150 * (k == c) * (c < 2) for _ in range(w * h) for c in range(3))
            with open(f"photos/{split}/{name}/{i}.ppm", "wb") as file:
                file.write(b"P6 %d %d 255\n" % (w, h) + pixels)


def save(name, text, shape, numbers):
    head = f"{{'descr': '{text}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}".encode()
    with open(name, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.ljust(117) + b"\n" + numbers)


for split, count in [("train", 60), ("test", 20)]:
    os.makedirs(f"arrays/{split}")
    label = [random.randrange(3) for _ in range(count)]
    save(f"arrays/{split}/x.npy", "<f4", [count, 4], b"".join(
        struct.pack("<4f", *[random.gauss(2 * (c == k), 1) for c in range(4)]) for k in label))
    save(f"arrays/{split}/label.npy", "<i8", [count], struct.pack(f"<{count}q", *label))
END

small=(engine.train_iters=40 engine.valid_step=40 classifier.batch_size=10 reweight.batch_size=6 classifier.noise=0)
run photos reweight "${small[@]}" classifier.data="$PWD/photos" classifier.resize=8 reweight.clean=3 classifier.hidden=8
expect "$(metric photos classifier.valid.acc) > 0.8"
"$BETTY_RUN" --evaluate photos --predictions rows.csv >out 2>err || fail "--predictions: $(cat err)"
[ "$(head -n 1 rows.csv | cut -d , -f 1-4)" = "index,class,logit.cat,logit.dog" ] || fail "no names: $(head -n 1 rows.csv)"
[ "$(cut -d , -f 2 rows.csv | sort -u | tr '\n' ' ')" = "cat class dog " ] || fail "other classes: $(cat rows.csv)"
run arrays reweight "${small[@]}" classifier.data="$PWD/arrays" reweight.clean=5 classifier.hidden=8
expect "$(metric arrays classifier.valid.acc) > 0.5" # chance: 0.33

# sparse and dense rows: the same run up to rounding
for kind in a9a a9a:sparse; do
    run "table-${kind#a9a}" reweight_table "${small[@]}" classifier.data=$kind
    run "hpo-${kind#a9a}" logistic_hpo engine.train_iters=20 engine.valid_step=20 model.unroll_steps=5 model.data=$kind \
        penalty.data=$kind
done
close table-:sparse table- || fail "reweight: sparse rows are trained on otherwise"
close hpo-:sparse hpo- || fail "logistic_hpo: sparse rows are trained on otherwise"
