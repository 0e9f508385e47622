"""Published ResNet weights: libbetty's accuracy, and its logits compared with PyTorch's in double precision.

published_weights.py WEIGHTS_FOLDER CIFAR_FILE [--build DIR]

WEIGHTS_FOLDER has resnet20.f32 and resnet32.f32, all tensors one after the other, with NAME.index.tsv (name, shape,
offset, count); they come from github.com/akamaster/pytorch_resnet_cifar10 (BSD-2). CIFAR_FILE is in CIFAR-10's binary
format.
"""
import argparse
import csv
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def read_weights(folder, name):
    raw = np.fromfile(os.path.join(folder, f"{name}.f32"), "<f4")
    with open(os.path.join(folder, f"{name}.index.tsv")) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    take = lambda row: raw[int(row["offset_floats"]) :][: int(row["count"])]
    shape = lambda row: [int(n) for n in row["shape"].split("x")] if row["shape"] else []
    return {row["name"]: take(row).reshape(shape(row)) for row in rows}


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = dict(dtype="F32", shape=array.shape, data_offsets=[at, at + array.nbytes])
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.astype("<f4").tobytes())


def read_images(path):
    with (gzip.open if path.endswith(".gz") else open)(path) as file:
        raw = np.frombuffer(file.read(), np.uint8).reshape(-1, 3073)
    return raw[:, 1:].reshape(-1, 3, 32, 32), raw[:, 0].astype(np.int64)


def logits_in_double(weights, images, depth):
    import torch
    import torch.nn.functional as F

    w = {name: torch.from_numpy(array.astype(np.float64)) for name, array in weights.items()}

    def conv_norm(x, conv, norm, stride=1):
        x = F.conv2d(x, w[f"{conv}.weight"], stride=stride, padding=1)
        names = ("running_mean", "running_var", "weight", "bias")
        return F.batch_norm(x, *(w[f"{norm}.{name}"] for name in names))

    def net(x):
        x = F.relu(conv_norm(x, "conv1", "bn1"))
        for layer in (1, 2, 3):
            for block in range((depth - 2) // 6):
                stride = 2 if layer > 1 and block == 0 else 1
                at = f"layer{layer}.{block}"
                y = F.relu(conv_norm(x, f"{at}.conv1", f"{at}.bn1", stride))
                y = conv_norm(y, f"{at}.conv2", f"{at}.bn2")
                if stride == 2:
                    pad = x.shape[1] // 2
                    x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, pad, pad))
                x = F.relu(y + x)
        return F.linear(x.mean((2, 3)), w["linear.weight"], w["linear.bias"])

    shape = (1, 3, 1, 1)
    with torch.no_grad():
        parts = [net(torch.from_numpy((part / 255.0 - MEAN.reshape(shape)) / DEVIATION.reshape(shape)))
                 for part in np.array_split(images, max(1, len(images) // 100))]  # fmt: skip
    return torch.cat(parts).numpy()


def compile_example(build, folder):
    """Compiles examples/pretrained.c with the library built by ./dev build."""
    root, program = os.path.dirname(HERE), os.path.join(folder, "pretrained")
    subprocess.run(["cc", "-std=c11", "-O2", "-I", os.path.join(root, "libbetty", "include"),
                    os.path.join(root, "examples", "pretrained.c"), "-o", program, "-L", build, "-lbetty",
                    f"-Wl,-rpath,{os.path.abspath(build)}"], check=True)  # fmt: skip
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("cifar")
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build"))
    parser.add_argument("--limit", type=int, default=1000, help="images to evaluate in double precision, too")
    args = parser.parse_args()
    images, labels = read_images(args.cifar)
    good = True
    for depth in (20, 32):
        weights = read_weights(args.weights, f"resnet{depth}")
        with tempfile.TemporaryDirectory() as folder:
            path, out = os.path.join(folder, "weights.safetensors"), os.path.join(folder, "logits.f32")
            write_safetensors(path, weights)
            program = compile_example(args.build, folder)
            subprocess.run([program, path, args.cifar, str(depth), out], check=True)
            ours = np.fromfile(out, "<f4").reshape(-1, 10)
        exact = logits_in_double(weights, images[: args.limit], depth)
        difference = np.abs(ours[: args.limit] - exact).max()
        first = (ours[:1000].argmax(1) == labels[:1000]).mean()
        print(f"ResNet-{depth}: first 1000 images {first:.4f}, all {len(ours)} {(ours.argmax(1) == labels).mean():.4f}; "
              f"largest difference of a logit to double precision {difference:.2e} on {len(exact)} images")  # fmt: skip
        good = good and difference < 1e-4
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
