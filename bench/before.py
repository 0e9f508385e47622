#!/usr/bin/env python3
"""Compares two builds of libbetty: how much longer does a step take than before, in each workload?

    python3 bench/before.py --before ../old/build            # all workloads of ./dev bench, one thread
    python3 bench/before.py --before ../old/build mwn maml

Each round measures one build after the other. Which process starts first makes a difference of up to 15 %, due to where
its memory is placed; so in half of the rounds the processes start in the other order. A row has the geometric mean of
the two halves' medians, and the smallest and largest ratio. The exit code is 1 if a row is slower by more than 3 % plus
its own spread. Needs numpy, which the Python of the peers' environment has.
"""
import argparse
import math
import os
import statistics
import sys
import tempfile

import run
import workloads

ALLOWED = 1.03


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", help="names, or their beginnings; none: all")
    parser.add_argument("--before", required=True, help="the build folder of the older one")
    parser.add_argument("--build", default=os.path.join(run.HERE, "..", "build"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a measurement")
    return parser.parse_args()


def measured(sides, workload, args):
    """Milliseconds per step of each of the two sides, in each round."""
    processes = []
    try:
        for side in sides:
            processes.append(run.Process(side, side.command, 1))
        steps = run.steps_for(processes[0], args.seconds, workload.block)
        processes[1].milliseconds(steps)
        return [[p.milliseconds(steps) / steps for p in processes] for _ in range((args.rounds + 1) // 2)]
    finally:
        run.close(processes)


def ratios(workload, before, args):
    """By side: the new build's time over the old one's, for the rounds of each order; and its milliseconds."""
    found = {}
    for new, old in zip(workload.sides, before.sides):
        if new.name.startswith("libbetty"):
            first, second = measured([new, old], workload, args), measured([old, new], workload, args)
            halves = [mine / theirs for mine, theirs in first], [mine / theirs for theirs, mine in second]
            found[new.name] = halves, statistics.median([mine for mine, _ in first] + [mine for _, mine in second])
    return found


def main():
    args = arguments()
    slower = []
    with tempfile.TemporaryDirectory(prefix="libbetty-bench-") as folder:
        now, before = (workloads.all_workloads(build, folder, 1) for build in (args.build, args.before))
        wanted = run.chosen(now, args.workload)
        print("| a step of | ms | now / before | of rounds |\n|---|--:|--:|---|")
        for workload, other in zip(now, before):
            if workload.name not in wanted:
                continue
            if not os.path.exists(workload.folder):
                os.makedirs(workload.folder)
                workload.make(workload.folder)
            for side, (halves, ms) in ratios(workload, other, args).items():
                median = math.sqrt(statistics.median(halves[0]) * statistics.median(halves[1]))
                low, high = min(map(min, halves)), max(map(max, halves))
                name = workload.name + side.removeprefix("libbetty")
                print(f"| {name} | {ms:.4g} | {median:.3f} | {low:.3f} to {high:.3f} |", flush=True)
                if median > ALLOWED + (high - low) / 2:
                    slower.append(name)
    if slower:
        print(f"slower: {', '.join(slower)}", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
