#!/usr/bin/env python3
"""MAML with the ConvNet on Omniglot: accuracy on held-out alphabets as training goes on, examples/maml_omniglot.ini beside
the same network and schedule in PyTorch, each on a core of its own. Writes results/convnet_accuracy.json.

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

QUERIES, INNER_LR = 3, 0.4
SCHEDULES = {  # by ways: tasks to an upper step, upper steps, from one evaluation to the next, inner steps of evaluations
    5: dict(meta_batch=16, steps=14000, every=1000, adapt_steps=3),
    20: dict(meta_batch=4, steps=35000, every=3500, adapt_steps=5),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", type=int, default=20, choices=SCHEDULES)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many")
    parser.add_argument("--tasks", type=int, default=600, help="of an evaluation")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where betty-run is")
    parser.add_argument("--torch", action="store_true", help="only PyTorch's side, in this process")
    args = parser.parse_args()
    args.schedule = argparse.Namespace(**SCHEDULES[args.ways])
    return args


def run_libbetty(args):
    schedule = args.schedule
    with tempfile.TemporaryDirectory(prefix="libbetty-convnet-") as folder:
        command = [os.path.join(args.build, "betty-run"), os.path.join(ROOT, "examples", "maml_omniglot.ini"), "--threads",
                   "1", "--quiet", "--output", os.path.join(folder, "run")]  # fmt: skip
        for setting in (f"engine.train_iters={schedule.steps * schedule.meta_batch}",
                        f"engine.valid_step={schedule.every * schedule.meta_batch}", f"meta.ways={args.ways}",
                        f"meta.meta_batch={schedule.meta_batch}", f"meta.scheduler_t_max={schedule.steps}",
                        f"meta.queries={QUERIES}", f"meta.valid_batches={args.tasks}", f"learner.lr={INNER_LR}",
                        f"learner.adapt_steps={schedule.adapt_steps}"):  # fmt: skip
            command += ["--set", setting]
        process = subprocess.Popen(["taskset", "-c", "0", *command])
        try:
            process.wait(None if math.isinf(args.minutes) else 60 * args.minutes)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()
        with open(os.path.join(folder, "run", "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
    return [dict(step=line["step"] // schedule.meta_batch, seconds=line["time"], accuracy=line["meta.valid.acc"],
                 interval=line["meta.valid.acc.interval"]) for line in lines if "meta.valid.acc" in line]  # fmt: skip


def run_torch(args):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(1)
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    schedule, params = args.schedule, []
    for k in range(4):
        conv, norm = torch.nn.Conv2d(64 if k else 1, 64, 3), torch.nn.BatchNorm2d(64)
        params += [conv.weight, conv.bias, norm.weight, norm.bias]
    head = torch.nn.Linear(64, args.ways)
    params += [head.weight, head.bias]
    adam = torch.optim.Adam(params, lr=data.META_LR, fused=True)
    annealing = torch.optim.lr_scheduler.CosineAnnealingLR(adam, schedule.steps)
    support_y, query_y = torch.arange(args.ways), torch.arange(args.ways).repeat_interleave(QUERIES)

    def logits(p, x):
        x = x.reshape(-1, 1, 28, 28)
        for k in range(0, 16, 4):
            x = F.conv2d(x, p[k], p[k + 1], stride=2, padding=1)
            x = F.relu(F.batch_norm(x, None, None, p[k + 2], p[k + 3], training=True))
        return F.linear(x.mean((2, 3)), p[16], p[17])

    def adapt(p, x, steps, second_order):
        for _ in range(steps):
            gradient = torch.autograd.grad(F.cross_entropy(logits(p, x), support_y), p, create_graph=second_order)
            p = [a - INNER_LR * g for a, g in zip(p, gradient)]
        return p

    def evaluate():
        found = []
        for x, query in zip(*map(torch.from_numpy, draw(np.random.default_rng(2), held_out, args.ways, args.tasks, QUERIES))):
            fast = adapt([p.detach().requires_grad_() for p in params], x, schedule.adapt_steps, False)
            with torch.no_grad():
                found.append((logits(fast, query).argmax(1) == query_y).float().mean().item())
        return dict(accuracy=statistics.mean(found), interval=1.96 * statistics.stdev(found) / math.sqrt(len(found)))

    classes, held_out = characters("train"), characters("test")
    begun = time.perf_counter()
    for step in range(1, schedule.steps + 1):
        tasks = draw(random, classes, args.ways, schedule.meta_batch, QUERIES)
        for x, query in zip(*map(torch.from_numpy, tasks)):
            loss = F.cross_entropy(logits(adapt(params, x, 1, True), query), query_y)
            (loss / schedule.meta_batch).backward()
        adam.step()
        annealing.step()
        adam.zero_grad()
        if step % schedule.every == 0:
            seconds = time.perf_counter() - begun
            print(json.dumps(dict(step=step, seconds=seconds, **evaluate())), flush=True)
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
        curves = dict(libbetty=run_libbetty(args), PyTorch=[json.loads(line) for line in peer.result().stdout.splitlines()])
    os.makedirs(os.path.join(HERE, "results"), exist_ok=True)
    with open(os.path.join(HERE, "results", "convnet_accuracy.json"), "w") as file:
        json.dump(curves, file)
    print("| upper steps | libbetty | minutes | PyTorch | minutes |\n|---|---|---|---|---|")
    cell = lambda p: f"{p['accuracy']:.3f} ± {p['interval']:.3f} | {p['seconds'] / 60:.0f}" if p else " | "
    for step in sorted({point["step"] for curve in curves.values() for point in curve}):
        found = [next((p for p in curve if p["step"] == step), None) for curve in curves.values()]
        print(f"| {step} | {' | '.join(map(cell, found))} |")


if __name__ == "__main__":
    main()
