"""Milliseconds a step: on the device beside the processor, and beside PyTorch and JAX on the same card; and what single
kernels make of it, by libbetty's own profile, whose times are those of the device's events, one after the other."""
import json
import os
import shutil

import checks
import peers
from checks import OK, Check, Outcome

EXAMPLES = ["reweight", "logistic_hpo", "maml_omniglot", "language"]  # at their own size
FIRST = 20  # steps that tell how many are made in SECONDS
SECONDS = 2
KERNELS = 12  # shown of each profile


# ---- examples ----


def trained(places, folder, environment, end, name, steps, *options, device="cuda"):
    argv = [places.command, os.path.join(places.examples, f"{name}.ini"), "--device", device, "--quiet", "--output",
            device, "--set", f"engine.train_iters={steps}", "--set", "engine.valid_step=0", *options]
    return checks.command(argv, folder, environment, end)


def milliseconds(folder, device):
    with open(os.path.join(folder, device, "summary.json")) as file:
        return json.load(file)["ms_per_step"]


def timed(places, folder, environment, end, name, device):
    """A run that takes about SECONDS."""
    ran = trained(places, folder, environment, end, name, FIRST, device=device)
    if ran.fault():
        return ran
    steps = max(FIRST, min(100000, int(1e3 * SECONDS / milliseconds(folder, device))))
    shutil.rmtree(os.path.join(folder, device))
    return trained(places, folder, environment, end, name, steps, device=device)


def example_check(places, environment, name):
    def work(folder, end):
        for device in ("cuda", "cpu"):
            ran = timed(places, folder, environment, end, name, device)
            if ran.fault():
                return ran.failure(f"{device}: ")
        found = {f"{device}_ms": milliseconds(folder, device) for device in ("cuda", "cpu")}
        return Outcome(OK, "", None, found, ran.shown())

    return Check(f"example {name}", work, 60)


# ---- kernels ----


def profile_check(places, environment, name):
    """By kernel: the share of the time, and what it computes and moves in a second of it."""

    def work(folder, end):
        ran = trained(places, folder, environment, end, name, FIRST, "--profile")
        if ran.fault():
            return ran.failure()
        with open(os.path.join(folder, "cuda", "profile.json")) as file:
            profile = json.load(file)
        return Outcome(OK, "", None, {"kernels": kernels(profile), "timed_by": profile["timed_by"]}, ran.shown())

    return Check(f"kernels of {name}", work, 60)


def kernels(profile):
    sums = {}
    for row in profile["calls"]:
        each = sums.setdefault(row["kernel"], dict(seconds=0, flops=0, bytes=0, calls=0))
        each["seconds"] += row["seconds"]
        each["calls"] += row["calls"]
        for key in ("flops", "bytes"):  # of one call
            each[key] += row[key] * row["calls"]
    whole = sum(each["seconds"] for each in sums.values()) or 1
    most = sorted(sums.items(), key=lambda item: -item[1]["seconds"])[:KERNELS]
    return [{"kernel": name, "share": round(each["seconds"] / whole, 4), "calls": each["calls"],
             "microseconds": round(1e6 * each["seconds"] / max(each["calls"], 1), 3),
             "gflops": round(1e-9 * each["flops"] / each["seconds"], 1) if each["seconds"] else None,
             "gbytes": round(1e-9 * each["bytes"] / each["seconds"], 1) if each["seconds"] else None}
            for name, each in most]


def run(part, places, environment, machine):
    part.do([example_check(places, environment, name) for name in EXAMPLES], jobs=1, share=0.4)
    part.do([profile_check(places, environment, name) for name in EXAMPLES], jobs=1, share=0.4, times=1)
    peers.do(part, places, environment, machine, jobs=1, share=0.95)
