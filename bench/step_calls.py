#!/usr/bin/env python3
"""The number of calls of functions of engine/ in one step: counted by valgrind's callgrind in a build without
optimisation, as the difference between runs of 2 N and of N steps, divided by the steps of all levels in between.

  cmake -S . -B build/debug -DCMAKE_BUILD_TYPE=Debug && cmake --build build/debug --target betty-run
  python3 bench/step_calls.py build/debug/betty-run FILE.ini [--steps N] [--list]
"""
import argparse
import collections
import os
import re
import subprocess
import tempfile


def read(path):
    """{(from file, from, to file, to): calls}; callgrind writes each name once, and its number after that."""
    calls, names, files = collections.Counter(), {}, {}

    def name(text, known):
        number, full = re.match(r"(\(\d+\))(?: (.*))?", text).groups()
        return known.setdefault(number, full)

    for line in open(path):
        kind, _, text = line.rstrip("\n").partition("=")
        if kind == "fl":
            file, to = name(text, files), None
        elif kind == "fn":
            function, to = name(text, names), None
            home = file
        elif kind in ("fi", "fe"):
            name(text, files)
        elif kind in ("cfi", "cfl"):
            to = name(text, files)
        elif kind == "cfn":
            callee = name(text, names)
        elif kind == "calls":
            calls[(home, function, to or file, callee)] += int(text.split()[0])
            to = None
    return calls


def run(args, steps):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "calls")
        subprocess.run(["valgrind", "-q", "--tool=callgrind", "--callgrind-out-file=" + out, "--collect-atstart=no",
                        "--toggle-collect=bt_step_leaves", args.program, args.file, "--threads", "1", "--output",
                        os.path.join(folder, "run"), "--set", "engine.train_iters=%d" % steps], check=True,
                       stdout=subprocess.DEVNULL)
        return read(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("file")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--list", action="store_true", help="each caller with what it calls")
    args = parser.parse_args()
    short, long = run(args, args.steps), run(args, 2 * args.steps)
    calls = {key: count - short[key] for key, count in long.items() if "/engine/" in key[2]}
    usual = {key: count for key, count in calls.items() if count >= args.steps / 2}
    levels = sum(count for key, count in calls.items() if key[3] == "bt_step_call")
    print("%s: %.1f calls a step of one level; %.1f a leaf step; %d functions, %d files" %
          (args.file, sum(calls.values()) / (levels or args.steps), sum(calls.values()) / args.steps,
           len({key[3] for key in usual}), len({key[2] for key in usual})))
    for key, count in sorted(usual.items(), key=lambda item: -item[1]) if args.list else []:
        print("%8.2f  %s:%s -> %s:%s" % ((count / args.steps,) + tuple(part.split("/engine/")[-1] for part in key)))


main()
