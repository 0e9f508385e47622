#!/usr/bin/env python3
"""MAML on Omniglot: the accuracy of examples/maml.ini on held-out alphabets, next to the same network and schedule in
PyTorch.

Needs ./dev build, and the Python environment that ./dev bench makes. Each side draws its own tasks. Writes
results/maml_accuracy.json.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import data

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TEST_TASKS = 600


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", default="5,20", help="classes of a task, by commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3000, help="upper steps, of four tasks each")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at the same time")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where betty-run is")
    parser.add_argument("--json", default=os.path.join(HERE, "results", "maml_accuracy.json"))
    return parser.parse_args()


# ---- libbetty ----


def run_libbetty(build, ways, seed, steps):
    with tempfile.TemporaryDirectory(prefix="libbetty-maml-") as folder:
        lower_steps = steps * data.META_BATCH * data.INNER_STEPS
        command = [os.path.join(build, "betty-run"), os.path.join(ROOT, "examples", "maml.ini"), "--threads", "1",
                   "--output", os.path.join(folder, "run")]  # fmt: skip
        for setting in (f"engine.seed={seed}", f"engine.train_iters={lower_steps}", f"engine.valid_step={lower_steps}",
                        f"meta.ways={ways}", f"meta.valid_batches={TEST_TASKS}"):  # fmt: skip
            command += ["--set", setting]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
        with open(os.path.join(folder, "run", "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
    last = [line for line in lines if "meta.valid.acc" in line][-1]
    return last["meta.valid.acc"], last["meta.valid.acc.interval"]


# ---- PyTorch ----


def characters(split):
    """[classes, 20, PIXELS]; each rotation by 90 degrees gives new classes."""
    folder = os.path.join(ROOT, "data", "omniglot")
    images = data.read_idx(os.path.join(folder, f"{split}-images-idx3-ubyte.gz"))  # class by class
    turned = np.concatenate([np.rot90(images, k, (1, 2)) for k in range(4)])
    return (turned.reshape(-1, 20, data.PIXELS) / 255).astype(np.float32)


def draw(random, classes, ways, tasks, queries=data.QUERIES):
    """Support [tasks, ways, PIXELS] and query images [tasks, ways * queries, PIXELS]."""
    support, query = [], []
    for _ in range(tasks):
        chosen = random.choice(len(classes), ways, replace=False)
        images = np.stack([classes[c][random.permutation(20)[: 1 + queries]] for c in chosen])
        support.append(images[:, 0])
        query.append(images[:, 1:].reshape(-1, data.PIXELS))
    return np.stack(support), np.stack(query)


def run_torch(ways, seed, steps):
    import torch
    import torch.nn.functional as F
    from torch.func import grad, vmap

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    layers = [torch.nn.Linear(*sizes) for sizes in ((data.PIXELS, 64), (64, 64), (64, ways))]
    params = [p.detach() for layer in layers for p in (layer.weight, layer.bias)]
    adam = torch.optim.Adam(params, lr=data.META_LR)
    support_y, query_y = torch.arange(ways), torch.arange(ways).repeat_interleave(data.QUERIES)

    def logits(p, x):
        x = F.relu(F.linear(F.relu(F.linear(x, p[0], p[1])), p[2], p[3]))
        return F.linear(x, p[4], p[5])

    def adapt(p, x):
        for _ in range(data.INNER_STEPS):
            gradient = grad(lambda q: F.cross_entropy(logits(q, x), support_y))(p)
            p = [a - data.INNER_LR * g for a, g in zip(p, gradient)]
        return p

    def task_loss(p, x, query):
        return F.cross_entropy(logits(adapt(p, x), query), query_y)

    def task_accuracy(p, x, query):
        return (logits(adapt(p, x), query).argmax(1) == query_y).float().mean()

    gradients, accuracies = (vmap(f, in_dims=(None, 0, 0)) for f in (grad(task_loss), task_accuracy))
    classes = characters("train")
    for _ in range(steps):
        tasks = map(torch.from_numpy, draw(random, classes, ways, data.META_BATCH))
        for p, g in zip(params, gradients(params, *tasks)):
            p.grad = g.mean(0)
        adam.step()
    classes = characters("test")
    found = []
    for _ in range(TEST_TASKS // 20):
        found += accuracies(params, *map(torch.from_numpy, draw(random, classes, ways, 20))).tolist()
    return statistics.mean(found), 1.96 * statistics.stdev(found) / math.sqrt(len(found))


# ---- all ----


def run(side, build, ways, seed, steps):
    begun = time.perf_counter()
    accuracy, interval = run_libbetty(build, ways, seed, steps) if side == "libbetty" else run_torch(ways, seed, steps)
    result = dict(side=side, ways=ways, seed=seed, steps=steps, accuracy=accuracy, interval=interval,
                  seconds=time.perf_counter() - begun)  # fmt: skip
    print(json.dumps(result), file=sys.stderr, flush=True)
    return result


def table(args, results):
    lines = ["| ways | side | " + " | ".join(f"seed {s + 1}" for s in range(args.seeds)) + " | mean ± deviation |",
             "|---|---|" + "---|" * (args.seeds + 1)]  # fmt: skip
    for ways in map(int, args.ways.split(",")):
        for side in ("libbetty", "PyTorch"):
            found = [r for r in results if r["ways"] == ways and r["side"] == side]
            each = [r["accuracy"] for r in found]
            cells = [f"{r['accuracy']:.3f} ± {r['interval']:.3f}" for r in found]
            spread = statistics.stdev(each) if len(each) > 1 else 0
            lines.append(f"| {ways} | {side} | {' | '.join(cells)} | {statistics.mean(each):.3f} ± {spread:.3f} |")
    return "\n".join(lines)


def main():
    args = arguments()
    with ProcessPoolExecutor(args.jobs) as pool:
        runs = [pool.submit(run, side, args.build, ways, seed, args.steps)
                for ways in map(int, args.ways.split(","))
                for seed in range(1, args.seeds + 1)
                for side in ("libbetty", "PyTorch")]  # fmt: skip
        results = [each.result() for each in runs]
    os.makedirs(os.path.dirname(args.json), exist_ok=True)
    with open(args.json, "w") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    print(table(args, results))


if __name__ == "__main__":
    main()
