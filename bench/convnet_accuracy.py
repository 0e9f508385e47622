#!/usr/bin/env python3
"""MAML with the ConvNet on Omniglot: accuracy on held-out alphabets as training goes on, examples/maml_omniglot.ini beside
the same network and schedule in PyTorch, each on a core of its own for so many minutes. Writes results/convnet_accuracy.json.

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

import data
from maml_accuracy import HERE, ROOT, characters, draw


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--every", type=int, default=50, help="upper steps from one evaluation to the next")
    parser.add_argument("--tasks", type=int, default=100, help="of an evaluation")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where betty-run is")
    parser.add_argument("--torch", action="store_true", help="only PyTorch's side, in this process")
    return parser.parse_args()


def run_libbetty(args):
    with tempfile.TemporaryDirectory(prefix="libbetty-convnet-") as folder:
        every = args.every * data.META_BATCH * data.INNER_STEPS
        command = [os.path.join(args.build, "betty-run"), os.path.join(ROOT, "examples", "maml_omniglot.ini"), "--threads",
                   "1", "--quiet", "--output", os.path.join(folder, "run")]  # fmt: skip
        for setting in (f"engine.valid_step={every}", f"meta.ways={args.ways}", f"meta.queries={data.QUERIES}",
                        f"meta.valid_batches={args.tasks}", f"engine.log_step={every}"):  # fmt: skip
            command += ["--set", setting]
        process = subprocess.Popen(["taskset", "-c", "0", *command])
        time.sleep(60 * args.minutes)
        process.send_signal(signal.SIGINT)
        process.wait()
        with open(os.path.join(folder, "run", "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
    return [(line["step"] // (data.META_BATCH * data.INNER_STEPS), line["meta.valid.acc"], line["meta.valid.acc.interval"])
            for line in lines if "meta.valid.acc" in line]  # fmt: skip


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
    adam = torch.optim.Adam(params, lr=data.META_LR, fused=True)
    support_y, query_y = torch.arange(args.ways), torch.arange(args.ways).repeat_interleave(data.QUERIES)

    def logits(p, x):
        x = x.reshape(-1, 1, 28, 28)
        for k in range(0, 16, 4):
            x = F.batch_norm(F.conv2d(x, p[k], p[k + 1], padding=1), None, None, p[k + 2], p[k + 3], training=True)
            x = F.max_pool2d(F.relu(x), 2)
        return F.linear(x.flatten(1), p[16], p[17])

    def adapt(p, x, second_order):
        for _ in range(data.INNER_STEPS):
            gradient = torch.autograd.grad(F.cross_entropy(logits(p, x), support_y), p, create_graph=second_order)
            p = [a - data.INNER_LR * g for a, g in zip(p, gradient)]
        return p

    def evaluate():
        found = []
        for x, query in zip(*map(torch.from_numpy, draw(np.random.default_rng(2), held_out, args.ways, args.tasks))):
            fast = adapt([p.detach().requires_grad_() for p in params], x, False)
            with torch.no_grad():
                found.append((logits(fast, query).argmax(1) == query_y).float().mean().item())
        return statistics.mean(found), 1.96 * statistics.stdev(found) / math.sqrt(len(found))

    classes, held_out = characters("train"), characters("test")
    begun, step, curve = time.perf_counter(), 0, []
    while time.perf_counter() - begun < 60 * args.minutes:
        for x, query in zip(*map(torch.from_numpy, draw(random, classes, args.ways, data.META_BATCH))):
            (F.cross_entropy(logits(adapt(params, x, True), query), query_y) / data.META_BATCH).backward()
        adam.step()
        adam.zero_grad()
        step += 1
        if step % args.every == 0:
            curve.append((step, *evaluate()))
    return curve


def main():
    args = arguments()
    if args.torch:
        print(json.dumps(run_torch(args)))
        return
    command = ["taskset", "-c", "1", sys.executable, os.path.abspath(__file__), "--torch", f"--ways={args.ways}",
               f"--minutes={args.minutes}", f"--every={args.every}", f"--tasks={args.tasks}"]  # fmt: skip
    with ThreadPoolExecutor() as pool:
        peer = pool.submit(lambda: json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
        curves = dict(libbetty=run_libbetty(args), PyTorch=peer.result())
    os.makedirs(os.path.join(HERE, "results"), exist_ok=True)
    with open(os.path.join(HERE, "results", "convnet_accuracy.json"), "w") as file:
        json.dump(curves, file)
    print("| upper steps | libbetty | PyTorch |\n|---|---|---|")
    cell = lambda point: f"{point[1]:.3f} ± {point[2]:.3f}" if point else "–"
    for step in sorted({point[0] for curve in curves.values() for point in curve}):
        found = [next((p for p in curve if p[0] == step), None) for curve in curves.values()]
        print(f"| {step} | {' | '.join(map(cell, found))} |")


if __name__ == "__main__":
    main()
