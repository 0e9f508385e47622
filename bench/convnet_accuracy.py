#!/usr/bin/env python3
"""MAML with the ConvNet on Omniglot: upper loss, and accuracy on held-out alphabets, during training. Compares
examples/maml_omniglot.ini with the same network and schedule in PyTorch, each on its own core. Writes
results/convnet_accuracy.json.

Needs ./dev build, and the Python environment that ./dev bench makes.
"""
import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from maml_accuracy import HERE, ROOT, characters, draw

# As in examples/maml_omniglot.ini.
QUERIES, SHIFT, META_BATCH, META_LR, INNER_LR, ADAPT_STEPS, STEPS, EVERY = 2, 1, 4, 2e-3, 0.4, 5, 12000, 1500
LOG = 125


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many")
    parser.add_argument("--tasks", type=int, default=600, help="of an evaluation")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where betty-run is")
    parser.add_argument("--torch", action="store_true", help="only PyTorch's side, in this process")
    return parser.parse_args()


def run_libbetty(args):
    with tempfile.TemporaryDirectory(prefix="libbetty-convnet-") as folder:
        command = [os.path.join(args.build, "betty-run"), os.path.join(ROOT, "examples", "maml_omniglot.ini"), "--threads",
                   "1", "--quiet", "--output", os.path.join(folder, "run")]  # fmt: skip
        for setting in (f"meta.ways={args.ways}", f"meta.valid_batches={args.tasks}"):
            command += ["--set", setting]
        process = subprocess.Popen(["taskset", "-c", "0", *command])
        try:
            process.wait(None if math.isinf(args.minutes) else 60 * args.minutes)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()
        with open(os.path.join(folder, "run", "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
    names = {"meta.loss": "loss", "meta.valid.acc": "accuracy", "meta.valid.acc.interval": "interval"}
    return [dict(step=line["step"] // META_BATCH, seconds=line["time"], **{names[k]: line[k] for k in names if k in line})
            for line in lines]  # fmt: skip


def moved(random, images):
    """Shifts each image by up to SHIFT pixels in each direction."""
    padded = np.pad(images.reshape(-1, 28, 28), ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))
    corners = random.integers(0, 2 * SHIFT + 1, (len(padded), 2))
    return np.stack([x[i : i + 28, j : j + 28] for x, (i, j) in zip(padded, corners)]).reshape(images.shape)


def run_torch(args):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(1)
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    params = []
    for k in range(4):
        conv, norm = torch.nn.Conv2d(64 if k else 1, 64, 3), torch.nn.BatchNorm2d(64)
        params += [conv.weight, conv.bias, norm.weight, norm.bias]
    head = torch.nn.Linear(64, args.ways)
    params += [head.weight, head.bias]
    adam = torch.optim.Adam(params, lr=META_LR, fused=True)
    annealing = torch.optim.lr_scheduler.CosineAnnealingLR(adam, STEPS)
    support_y, query_y = torch.arange(args.ways), torch.arange(args.ways).repeat_interleave(QUERIES)

    def logits(p, x):
        x = x.reshape(-1, 1, 28, 28)
        for k in range(0, 16, 4):
            x = F.batch_norm(F.conv2d(x, p[k], p[k + 1], padding=1), None, None, p[k + 2], p[k + 3], training=True)
            x = F.max_pool2d(F.relu(x), 2)
        return F.linear(x.flatten(1), p[16], p[17])

    def adapt(p, x, steps, second_order):
        for _ in range(steps):
            gradient = torch.autograd.grad(F.cross_entropy(logits(p, x), support_y), p, create_graph=second_order)
            p = [a - INNER_LR * g for a, g in zip(p, gradient)]
        return p

    def evaluate():
        found, tasks = [], draw(np.random.default_rng(2), held_out, args.ways, args.tasks, QUERIES)
        for x, query in zip(*map(torch.from_numpy, tasks)):
            fast = adapt([p.detach().requires_grad_() for p in params], x, ADAPT_STEPS, False)
            with torch.no_grad():
                found.append((logits(fast, query).argmax(1) == query_y).float().mean().item())
        return dict(accuracy=statistics.mean(found), interval=1.96 * statistics.stdev(found) / math.sqrt(len(found)))

    classes, held_out = characters("train"), characters("test")
    begun, total = time.perf_counter(), 0
    for step in range(1, STEPS + 1):
        tasks = [moved(random, part) for part in draw(random, classes, args.ways, META_BATCH, QUERIES)]
        for x, query in zip(*map(torch.from_numpy, tasks)):
            loss = F.cross_entropy(logits(adapt(params, x, 1, True), query), query_y)
            (loss / META_BATCH).backward()
            total += loss.item()
        adam.step()
        annealing.step()
        adam.zero_grad()
        found = {}
        if step % LOG == 0:
            found, total = dict(loss=total / (LOG * META_BATCH)), 0
        if step % EVERY == 0:
            found.update(evaluate())
        if found:
            print(json.dumps(dict(step=step, seconds=time.perf_counter() - begun, **found)), flush=True)
        if time.perf_counter() - begun > 60 * args.minutes:
            break


def main():
    args = arguments()
    if args.torch:
        run_torch(args)
        return
    command = ["taskset", "-c", "1", sys.executable, os.path.abspath(__file__), "--torch", f"--ways={args.ways}",
               f"--minutes={args.minutes}", f"--tasks={args.tasks}"]  # fmt: skip
    with ThreadPoolExecutor() as pool:
        peer = pool.submit(subprocess.run, command, stdout=subprocess.PIPE, check=True, text=True)
        curves = dict(libbetty=run_libbetty(args))
        curves["PyTorch"] = [json.loads(line) for line in peer.result().stdout.splitlines()]
    os.makedirs(os.path.join(HERE, "results"), exist_ok=True)
    with open(os.path.join(HERE, "results", "convnet_accuracy.json"), "w") as file:
        json.dump(curves, file)
    print("| upper steps | loss | PyTorch's | accuracy | PyTorch's | minutes | PyTorch's |\n" + "|---" * 7 + "|")
    for step in range(4 * LOG, STEPS + 1, 4 * LOG):
        sides = [[point for point in curve if point["step"] == step] for curve in curves.values()]
        columns = [[f"{p['loss']:.3f}" for p in side if "loss" in p] for side in sides]
        columns += [[f"{p['accuracy']:.3f} ± {p['interval']:.3f}" for p in side if "accuracy" in p] for side in sides]
        columns += [[f"{side[-1]['seconds'] / 60:.0f}"] if side else [] for side in sides]
        if any(sides):
            print(f"| {step} | {' | '.join(column[0] if column else '' for column in columns)} |")


if __name__ == "__main__":
    main()
