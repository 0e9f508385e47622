#!/usr/bin/env python3
"""Compares two single-threaded processes with one process of two threads, for libbetty and PyTorch: time and bytes per
process.

    PYTHON bench/ranks.py              # with the Python of the peers' environment; needs build/betty-run
    PYTHON bench/ranks.py --rounds 1   # a quick look

Plain training of ResNet-32 on images of 32 x 32, batches of 128, SGD with momentum, fp32 (problems/ranks.ini). First
the losses of the first steps must be the same, from the same weights: as one process, and on ranks whose batch norm
uses the statistics of each rank's own rows, as DistributedDataParallel's does. Then all sides are timed, alternating.
Also measures a step of Meta-Weight-Net with 784-500-10 (examples/reweight.ini), for libbetty only. Exit 1 if losses
differ.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import isa
import run
from memory import megabytes

RETURNED = dict(MALLOC_MMAP_THRESHOLD_="65536", MALLOC_TRIM_THRESHOLD_="65536")  # freed memory returns to the system
TOLERANCE, CHECKED = 1e-4, 5  # of a loss, relative; steps
RESNET = os.path.join(run.HERE, "problems", "ranks.ini")
ZERO3 = "engine.strategy=zero3"
WEIGHTED = os.path.join(run.HERE, "..", "examples", "reweight.ini")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(run.HERE, "..", "build"))
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each, in turn")
    parser.add_argument("--steps", type=int, default=12, help="of ResNet-32 in a measurement")
    parser.add_argument("--weighted", type=int, default=1000, help="of Meta-Weight-Net; 0: none")
    return parser.parse_args()


# ---- bytes of processes ----


def own_bytes(pid):
    """Anonymous memory of a process, plus its part of shared memory; not files such as code."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            lines = [line.split() for line in file]
        return sum(1024 * int(line[1]) for line in lines if line[0] in ("Pss_Anon:", "Pss_Shmem:"))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


def most_bytes(pids, work):
    """The peak of any one process while `work` runs, and the result of `work`."""
    most, done = [0], threading.Event()

    def look():
        while not done.is_set():
            most[0] = max([most[0]] + [own_bytes(pid) for pid in pids()])
            time.sleep(0.005)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        return work(), most[0]
    finally:
        done.set()
        watcher.join()


# ---- the sides: steps(n) returns the milliseconds and losses of n steps ----


class Betty:
    def __init__(self, args, title, ini, ranks, threads, every=1, *settings):
        self.title, self.every, self.version = title, every, ""
        self.command = [os.path.join(args.build, "betty-run"), ini, "--ranks", str(ranks), "--threads", str(threads)]
        for setting in ("engine.valid_step=0", f"engine.log_step={every}", *settings):
            self.command += ["--set", setting]

    def steps(self, count, pids=lambda pid: None, **more):
        with tempfile.TemporaryDirectory() as folder:
            command = [*self.command, "--quiet", "--output", os.path.join(folder, "run"), "--set", f"engine.train_iters={count}"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **more})
            pids(process.pid)
            if process.wait():
                raise SystemExit(f"bench: {' '.join(command)} failed")
            with open(os.path.join(folder, "run", "metrics.jsonl")) as file:
                lines = [json.loads(line) for line in file]
            with open(os.path.join(folder, "run", "summary.json")) as file:
                self.version = json.load(file)["backend"].split(",")[0]
        times = [line["time"] for line in lines]
        return [1e3 * (b - a) / self.every for a, b in zip(times, times[1:])], [line["classifier.loss"] for line in lines]

    def most(self, count):
        """The peak of a process during `count` steps; all of it counts."""
        found = []
        look = lambda: found and (children(found[0]) or found)
        return most_bytes(lambda: look() or [], lambda: self.steps(count, found.append, **RETURNED))[1]

    def planned(self):
        text = subprocess.run([*self.command, "--plan", "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout
        planned = json.loads(text)["planned_bytes"]
        return planned["arena"] + planned["persistent"]


class Torch:
    """One process per rank, all asked at once; restarted for each measurement."""

    def __init__(self, title, weights, kind, ranks, threads, layout):
        self.title, self.kind, self.ranks, self.threads, self.version = title, kind, ranks, threads, ""
        self.program = [sys.executable, os.path.join(run.HERE, "torch_ranks.py"), weights, "--kind", kind, "--layout", layout]

    def started(self, folder, more):
        variables = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        for rank in range(self.ranks):
            options = dict(rank=rank, ranks=self.ranks, threads=self.threads, meet=os.path.join(folder, "meet"))
            yield subprocess.Popen(
                [*self.program, *[word for name, value in options.items() for word in (f"--{name}", str(value))]],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env={**os.environ, **variables, **isa.environment(), "CUDA_VISIBLE_DEVICES": "", **more},
            )  # fmt: skip

    def asked(self, processes, question):
        for process in processes:
            process.stdin.write(question)
            process.stdin.flush()
        lines = [process.stdout.readline() for process in processes]
        if not all(lines):
            raise SystemExit(f"bench: {self.title} failed")
        return [json.loads(line) for line in lines]

    def run(self, work, **more):
        with tempfile.TemporaryDirectory() as folder:
            processes = list(self.started(folder, more))
            try:
                ready = [json.loads(process.stdout.readline()) for process in processes]
                self.version = f"{ready[0]['ready']} ({ready[0]['isa']})"
                return work(processes)
            finally:
                for process in processes:
                    process.stdin.close()
                for process in processes:
                    process.wait()

    def steps(self, count):
        answers = self.run(lambda processes: self.asked(processes, f"steps {count}\n"))
        return answers[0]["ms"][1:], [statistics.mean(losses) for losses in zip(*(a["losses"] for a in answers))]

    def most(self, count):
        """The peak above the process with its modules loaded, but without a network or data."""

        def work(processes):
            before = max(own_bytes(process.pid) for process in processes)
            pids = [process.pid for process in processes]
            return most_bytes(lambda: pids, lambda: self.asked(processes, f"steps {count}\n"))[1] - before

        return self.run(work, **RETURNED)


# ---- the same work ----


def exported(args, folder):
    """libbetty's initial parameters as a file of float32, one after the other: those after a step with rate 0."""
    out, path = os.path.join(folder, "start"), os.path.join(folder, "weights")
    command = [os.path.join(args.build, "betty-run"), RESNET, "--quiet", "--output", out]
    subprocess.run([*command, "--set", "engine.train_iters=1", "--set", "classifier.lr=0"], check=True)
    with open(os.path.join(out, "checkpoints", "step-1.safetensors"), "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        body = file.read()
    wanted = [entry["data_offsets"] for name, entry in header.items()
              if name.startswith("classifier.") and name.endswith((".weight", ".bias"))]  # fmt: skip
    with open(path, "wb") as file:
        for begin, end in wanted:
            file.write(body[begin:end])
    return path


def same(sides):
    """Whether all sides have the losses of the first."""
    losses = [side.steps(CHECKED)[1] for side in sides]
    errors = [max(abs(a / b - 1) for a, b in zip(own, losses[0])) for own in losses]
    for side, own, error in zip(sides, losses, errors):
        print(json.dumps(dict(side=side.title, losses=own, differs=error, same=error < TOLERANCE)), flush=True)
    return all(error < TOLERANCE for error in errors)


# ---- the table ----


def timed(sides, rounds, steps):
    """By side, the median step of each round."""
    times = [[] for _ in sides]
    for _ in range(rounds):
        for side, own in zip(sides, times):
            own.append(statistics.median(side.steps(steps)[0]))
            print(json.dumps(dict(side=side.title, ms=own[-1], version=side.version)), flush=True)
    return times


def table(titles, times, first, extra=()):
    """Ratios are medians over the rounds, to the row that `first` gives for each row."""
    lines = []
    for k, (title, own) in enumerate(zip(titles, times)):
        ratio = statistics.median(a / b for a, b in zip(times[first(k)], own))
        cells = [title, run.duration(own), f"{ratio:.2f}x", *(extra[k] if extra else ())]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def resnet(args, weights):
    """None if the sides do not compute the same thing."""
    groups = "classifier.batch_norm_groups=2"
    betty = [Betty(args, "libbetty, 1 process, 2 threads", RESNET, 1, 2), Betty(args, "libbetty, 2 processes", RESNET, 2, 1),
             Betty(args, "libbetty, 2 processes, batch norm of each rank", RESNET, 2, 1, 1, groups),
             Betty(args, "libbetty, zero3, 2 processes, batch norm of each rank", RESNET, 2, 1, 1, groups, ZERO3)]  # fmt: skip
    peers = [Torch(f"PyTorch, {title}", weights, kind, ranks, 2 // ranks, "last") for title, kind, ranks in
             (("1 process, 2 threads", "plain", 1), ("DDP, 2 processes", "ddp", 2), ("FSDP, 2 processes", "fsdp", 2))]  # fmt: skip
    if not all([same([betty[0], betty[1], peers[0]]), same([betty[2], betty[3], peers[1], peers[2]])]):
        return None
    sides = betty + peers
    times = timed(sides, args.rounds, args.steps)
    extra = [(megabytes(side.most(3)), megabytes(side.planned()) if side in betty else "") for side in sides]
    rows = table([side.title for side in sides], times, lambda k: 0 if k < len(betty) else len(betty), extra)
    return [f"{betty[0].version}; {peers[0].version}", "", "| a step of ResNet-32 | time | its rate, of one process | bytes of a process "
            "| by the plan |", "|---|---|---|--:|--:|", *rows]  # fmt: skip


def weighted(args):
    every = max(1, args.weighted // 10)
    sides = [Betty(args, f"libbetty, {title}", WEIGHTED, ranks, 2 // ranks, every, "classifier.hidden=500") for title, ranks in
             (("1 process, 2 threads", 1), ("2 processes", 2))]  # fmt: skip
    rows = table([side.title for side in sides], timed(sides, args.rounds, args.weighted), lambda k: 0)
    return ["", "| a step of Meta-Weight-Net 784-500-10 | time | its rate, of one process |", "|---|---|---|", *rows]


def main():
    args = arguments()
    machine = run.machine()
    print(json.dumps(machine), flush=True)
    with tempfile.TemporaryDirectory(prefix="libbetty-bench-") as folder:
        lines = resnet(args, exported(args, folder))
        if lines is None:
            raise SystemExit("bench: the sides do not compute the same")
    if args.weighted:
        lines += weighted(args)
    print(f"\n{machine['machine']}, {machine['cores']} cores, load {machine['load']}; " + "\n".join(lines))


if __name__ == "__main__":
    main()
