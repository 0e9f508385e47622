#!/usr/bin/env python3
"""Test accuracy of the reweighting examples over several seeds, next to plain training and Betty's finite difference.

Needs only ./dev build. Writes results/accuracy.json and plots the curves of the noisy set-up.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import plot

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)

SETUPS = {"noise": "reweight.ini", "longtail": "reweight_longtail.ini"}
BASELINE = ("engine.levels=classifier", "classifier.baseline=true")
VARIANTS = {
    "exact": ("weights, exact product", ()),
    "finite": ("weights, Betty's difference", ("classifier.product=finite", "classifier.detach=follow")),
    "none": ("no weights", BASELINE),
    "clean": ("the clean images only", BASELINE + ("classifier.clean_only=true",)),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("setup", nargs="*", help=f"{', '.join(SETUPS)}; none: all")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--steps", type=int, help="instead of the example's")
    parser.add_argument("--hidden", type=int, default=100, help="units of the classifier")
    parser.add_argument("--every", type=int, default=100, help="steps from one test to the next")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at the same time")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where betty-run is")
    parser.add_argument("--json", default=os.path.join(HERE, "results", "accuracy.json"))
    parser.add_argument("--plot", default=os.path.join(ROOT, "docs", "img", "detach.svg"))
    args = parser.parse_args()
    for name in args.setup:
        if name not in SETUPS:
            parser.error(f"no set-up `{name}`; there are {', '.join(SETUPS)}")
    return args


def train(args, folder, setup, variant, seed):
    """The test accuracy by step: [[step, accuracy], ...]."""
    output = os.path.join(folder, f"{setup}-{variant}-{seed}")
    settings = [f"engine.seed={seed}", f"engine.valid_step={args.every}", f"classifier.hidden={args.hidden}"]
    settings += VARIANTS[variant][1]
    if args.steps:
        settings.append(f"engine.train_iters={args.steps}")
    command = [os.path.join(args.build, "betty-run"), os.path.join(ROOT, "examples", SETUPS[setup])]
    command += ["--threads", "1", "--output", output]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
    with open(os.path.join(output, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    curve = [[line["step"], round(line["classifier.valid.acc"], 5)] for line in lines if "classifier.valid.acc" in line]
    print(f"{setup} {variant} seed {seed}: {curve[-1][1]:.4f}", file=sys.stderr, flush=True)
    return curve


def deviation(values):
    return statistics.stdev(values) if len(values) > 1 else 0


def late(curve):
    """The mean over the last third of the steps: a single evaluation of plain SGD jumps by a few per cent."""
    return statistics.mean(accuracy for step, accuracy in curve if step > curve[-1][0] * 2 / 3)


def best(curve):
    """The result of somebody who tests every 500 steps and keeps the best of the last four tests."""
    return max([accuracy for step, accuracy in curve if step % 500 == 0][-4:], default=math.nan)


MEASURES = {"mean over the last third": late, "at the last step": lambda curve: curve[-1][1],
            "best of the last four tests, one every 500 steps": best}  # fmt: skip


def summary(curves):
    """Each measure over the seeds: mean and deviation."""
    values = {name: [measure(curve) for curve in curves] for name, measure in MEASURES.items()}
    result = {name: [round(statistics.mean(each), 4), round(deviation(each), 4)] for name, each in values.items()}
    return result | {"curves": curves}


def draw(result, seeds, path):
    lines = []
    for name, variant in result["variants"].items():
        columns = [[accuracy for _, accuracy in points] for points in zip(*variant["curves"])]
        steps = [step for step, _ in variant["curves"][0]]
        lines.append((VARIANTS[name][0], steps, [statistics.mean(c) for c in columns], [deviation(c) for c in columns]))
    title = f"40 % of the labels are wrong: Meta-Weight-Net on Fashion-MNIST, {seeds} seeds, mean ± deviation"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(plot.svg(title, "steps of the classifier", "test accuracy", lines, (0.7, 0.9)))


def table(results):
    lines = [f"| set-up | training | {' | '.join(MEASURES)} |", "|---|---|" + "---|" * len(MEASURES)]
    for setup, result in results.items():
        for name, variant in result["variants"].items():
            numbers = ["{:.3f} ± {:.3f}".format(*variant[measure]) for measure in MEASURES]
            cells = (setup, VARIANTS[name][0], *numbers)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def run_all(args, setups):
    with tempfile.TemporaryDirectory(prefix="libbetty-accuracy-") as folder, ThreadPoolExecutor(args.jobs) as pool:
        runs = {
            (setup, variant, seed): pool.submit(train, args, folder, setup, variant, seed)
            for setup in setups
            for seed in range(1, args.seeds + 1)
            for variant in VARIANTS
        }
        results = {}
        for setup in setups:
            of = lambda variant: [runs[setup, variant, seed].result() for seed in range(1, args.seeds + 1)]
            variants = {variant: summary(of(variant)) for variant in VARIANTS}
            results[setup] = {"example": SETUPS[setup], "hidden": args.hidden, "variants": variants}
    return results


def main():
    args = arguments()
    results = run_all(args, args.setup or list(SETUPS))
    os.makedirs(os.path.dirname(args.json), exist_ok=True)
    with open(args.json, "w") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    if "noise" in results:
        draw(results["noise"], args.seeds, args.plot)
    print(table(results))


if __name__ == "__main__":
    main()
