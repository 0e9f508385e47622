#!/usr/bin/env python3
"""Planned bytes of the examples and, if numpy is available, of the workloads: the arena and persistent memory. --before
compares them with a table printed earlier; the exit code is 1 if anything needs more than before.

    python3 bench/planned.py >planned.txt
    python3 bench/planned.py --before planned.txt

Needs ./dev build. Blank images in CIFAR-10's format replace the real ones: a plan does not depend on their content.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
RESNET = ["classifier.prefetch=false", "reweight.prefetch=false", "classifier.augment=false"]
# More variants of an example: settings that determine the arena of products and of optimisers.
VARIANTS = {
    "reweight_cifar": {
        "darts": [], "darts, finite": ["classifier.product=finite"], "sama": ["classifier.type=sama"],
        "cg, 1 iteration": ["classifier.type=cg", "classifier.cg_iterations=1"],
        "cg, 3 iterations": ["classifier.type=cg", "classifier.cg_iterations=3"],
        "neumann": ["classifier.type=neumann", "classifier.neumann_iterations=3", "classifier.neumann_alpha=0.01"],
        "nystrom": ["classifier.type=nystrom", "classifier.nystrom_rank=3"],
        "itd": ["classifier.type=itd"], "penalty": ["classifier.type=penalty"],
        "accumulation": ["classifier.gradient_accumulation=4", "reweight.gradient_accumulation=4"],
    },
    "reweight": {
        "cg": ["classifier.type=cg"], "neumann": ["classifier.type=neumann", "classifier.neumann_alpha=0.01"],
        "itd": ["classifier.type=itd"], "sama": ["classifier.type=sama"], "nystrom": ["classifier.type=nystrom"],
        "finite": ["classifier.product=finite"], "resnet": ["classifier.resnet=8", "classifier.colours=false"],
    },
}  # fmt: skip


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where betty-run is")
    parser.add_argument("--before", metavar="FILE", help="a table of before")
    parser.add_argument("names", nargs="*", help="words of the rows; none: all")
    return parser.parse_args()


def blank_images(folder):
    os.makedirs(os.path.join(folder, "cifar-10-batches-bin"))
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        with open(os.path.join(folder, "cifar-10-batches-bin", f"{name}.bin"), "wb") as file:
            file.write(b"".join(bytes([i % 10]) + bytes(3072) for i in range(2000)))


def plan(build, example, settings):
    command = [os.path.join(build, "betty-run"), example, "--plan", "--json", "--threads", "1"]
    command += [word for setting in settings for word in ("--set", setting)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        return done.stderr.splitlines()[0][:60]
    found = json.loads(done.stdout)["planned_bytes"]
    return found["arena"] + found["persistent"]


def examples(args):
    for path in sorted(glob.glob(os.path.join(ROOT, "examples", "*.ini"))):
        name = os.path.basename(path)[:-4]
        more = RESNET if name == "reweight_cifar" else []
        for variant, settings in VARIANTS.get(name, {"": []}).items():
            title = f"{name}, {variant}" if variant else name
            if wanted(args, title):
                yield title, plan(args.build, path, more + settings)


def workloads(args, folder):
    try:
        import workloads as bench
    except ImportError:
        return
    for workload in bench.all_workloads(args.build, folder, 1):
        if not wanted(args, f"bench {workload.name}"):
            continue
        os.makedirs(workload.folder, exist_ok=True)
        workload.make(workload.folder)
        done = subprocess.run(workload.sides[0].command, input="memory\n", stdout=subprocess.PIPE, text=True)
        yield f"bench {workload.name}", json.loads(done.stdout.splitlines()[-1])["tensor_bytes"]


def wanted(args, title):
    return not args.names or any(word in title for word in args.names)


def read(path):
    with open(path) as file:
        rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in file if line.startswith("| ")]
    return {row[0]: int(row[-1].replace(",", "")) for row in rows if row[-1].replace(",", "").isdigit()}


def main():
    args = arguments()
    before = read(args.before) if args.before else {}
    worse = 0
    print("| planned bytes of |" + (" before |" if before else "") + " now |\n|---|" + ("---|" if before else "") + "---|")
    with tempfile.TemporaryDirectory(prefix="libbetty-planned-") as folder:
        blank_images(folder)
        os.environ.setdefault("BETTY_DATA", folder)
        for rows in (examples(args), workloads(args, folder)):
            for title, now in rows:
                known = before.get(title)
                worse += known is not None and (not isinstance(now, int) or now > known)
                shown = f"{now:,}" if isinstance(now, int) else now
                middle = (f" {known:,} |" if known is not None else " |") if before else ""
                print(f"| {title} |{middle} {shown} |", flush=True)
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
