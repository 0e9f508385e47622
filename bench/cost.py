#!/usr/bin/env python3
"""The cost of hypergradients in gradients of the lower loss: as planned (flops) and as measured (time, by --profile).

Needs ./dev build. The gradient and everything else are measured alternately in one run. Prints a table.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
INI = f"""
[engine]
problems = {os.path.join(HERE, "problems", "cost.c")}
valid_step = 0
log_step = 0
[dependencies]
u2l = upper > lower
l2u = lower > upper
[upper]
optimizer = sgd
lr = 1e-3
batch_size = 100
[lower]
optimizer = sgd
lr = 0.1
batch_size = 100
"""
# The expected cost: gradients per upper step, at most. A gradient is three passes, one forward and two backward.
STEPS, ITERATIONS = 10, 10
CASES = [
    ("one product H x, `product = finite`", 2.1, ["type=neumann", "neumann_iterations=1", "product=finite"]),
    ("one product H x, `product = jvp`", 3, ["type=neumann", "neumann_iterations=1", "product=jvp"]),
    ("one product H x, `product = vjp`", None, ["type=neumann", "neumann_iterations=1", "product=vjp"]),
    (f"`cg`, {ITERATIONS} iterations", (3 + 6 * ITERATIONS) / 3, ["type=cg", f"cg_iterations={ITERATIONS}"]),
    (f"`neumann`, {ITERATIONS} terms", None, ["type=neumann", f"neumann_iterations={ITERATIONS}"]),
    (f"`itd`, {STEPS} steps, themselves included", 4.2 * STEPS, ["type=itd", f"unroll_steps={STEPS}"]),
]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=4, help="about as long a run takes")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each, of which the median is shown")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where betty-run is")
    return parser.parse_args()


def profile(args, settings, steps):
    """By level and part: seconds, flops and runs, over all runs."""
    with tempfile.TemporaryDirectory(prefix="libbetty-cost-") as folder:
        ini = os.path.join(folder, "cost.ini")
        with open(ini, "w") as file:
            file.write(INI)
        # The upper gradient and the product must be measured separately, so they are not joined into one program.
        command = [os.path.join(args.build, "betty-run"), ini, "--threads", "1", "--quiet", "--profile",
                   "--output", os.path.join(folder, "run"), "--set", f"engine.train_iters={steps}",
                   "--set", "engine.reassociate=false"]  # fmt: skip
        for setting in [f"hidden={args.hidden}", "neumann_alpha=1e-3"] + settings:
            command += ["--set", f"lower.{setting}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "run", "profile.json")) as file:
            calls = json.load(file)["calls"]
    parts = {}
    for call in calls:
        part = parts.setdefault((call["level"], call["part"]), dict(seconds=0, flops=0, runs=0))
        part["seconds"] += call["seconds"]
        part["flops"] += call["flops"] * call["calls"]
        part["runs"] = max(part["runs"], call["calls"])
    return parts


def counts(level, part, settings):
    """For a single product only the solve, x <- x + p with it; else all parts but the upper gradient and the update."""
    if "neumann_iterations=1" in settings:
        return part.startswith("solve") and part != "solve start"
    if level == "lower":
        return part and settings[0] == "type=itd"
    return part and part not in ("gradient", "update")


def cost(parts, settings):
    """The planned and measured cost of an upper step, in gradients of the lower loss; and the milliseconds of a
    gradient."""
    gradient = parts["lower", "gradient"]
    upper_steps = parts["upper", "update"]["runs"]
    found = []
    for what in ("flops", "seconds"):
        total = sum(part[what] for (level, name), part in parts.items() if counts(level, name, settings))
        found.append(total / upper_steps / (gradient[what] / gradient["runs"]))
    return found[0], found[1], 1e3 * gradient["seconds"] / gradient["runs"]


def main():
    args = arguments()
    print(f"MLP 784-{args.hidden}-{args.hidden}-10, batches of 100, one thread; in gradients of the lower loss, "
          "for an upper step\n")  # fmt: skip
    print("| | due, at most | planned | measured |\n|---|---|---|---|")
    times = []
    for title, due, settings in CASES:
        steps = STEPS * 4
        first = cost(profile(args, settings, steps), settings)  # to see how long it takes
        per_step = first[2] * (2 + first[1] / (STEPS if settings[0] == "type=itd" else 1)) / 1e3
        steps = max(steps, round(args.seconds / per_step / STEPS) * STEPS)
        rounds = [cost(profile(args, settings, steps), settings) for _ in range(args.rounds)]
        measured = [r[1] for r in rounds]
        times += [r[2] for r in rounds]
        spread = (max(measured) - min(measured)) / 2 / statistics.median(measured)
        print(f"| {title} | {f'{due:.3g}' if due else '–'} | {first[0]:.3g} | {statistics.median(measured):.3g} "
              f"±{100 * spread:.0f}% |", flush=True)  # fmt: skip
    print(f"\nA gradient took {statistics.median(times):.2f} ms.")


if __name__ == "__main__":
    main()
