#!/usr/bin/env python3
"""Two builds of libbetty in turn: how much longer does a step take than before, in each workload?

    python3 bench/before.py --before ../old/build            # all workloads of ./dev bench, one thread
    python3 bench/before.py --before ../old/build mwn maml

Each round measures one build after the other; a row has the median of the rounds' ratios, and their smallest and
largest. The exit code is 1 if a row is slower by more than 3 % and its own spread. Needs numpy: the Python of the
peers' environment has it.
"""
import argparse
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


def ratios(workload, before, args):
    """By side: the new build's time over the old one's, of each round."""
    found = {}
    for new, old in zip(workload.sides, before.sides):
        if not new.name.startswith("libbetty"):
            continue
        processes = [run.Process(new, new.command, 1), run.Process(old, old.command, 1)]
        try:
            steps = run.steps_for(processes[0], args.seconds, workload.block)
            processes[1].milliseconds(steps)
            rounds = [[p.milliseconds(steps) for p in processes] for _ in range(args.rounds)]
        finally:
            run.close(processes)
        found[new.name] = [mine / theirs for mine, theirs in rounds], rounds[0][0] / steps
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
            for side, (found, ms) in ratios(workload, other, args).items():
                median, low, high = statistics.median(found), min(found), max(found)
                name = workload.name + side.removeprefix("libbetty")
                print(f"| {name} | {ms:.4g} | {median:.3f} | {low:.3f} to {high:.3f} |", flush=True)
                if median > ALLOWED + (high - low) / 2:
                    slower.append(name)
    if slower:
        print(f"slower: {', '.join(slower)}", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
