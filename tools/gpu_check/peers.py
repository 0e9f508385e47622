"""Beside PyTorch, JAX and Betty, where they are installed: workloads of bench/, by bench/on_device.py."""
import json
import os

import checks
from checks import ABSENT, FAILED, OK, Check, Outcome
from places import ROOT

WORKLOADS = ["mlp-256", "mwn-100", "resnet-32", "convnet-5", "mlp-512", "mwn-500"]


def workload_check(places, environment, python, name, options):
    argv = [python, os.path.join(ROOT, "bench", "on_device.py"), "--build", places.build, *options, name]

    def work(folder, end):
        ran = checks.command(argv, folder, environment, end)
        lines = [json.loads(line) for line in ran.output.splitlines() if line.startswith("{")]
        sides = {line.pop("side"): line for line in lines if "side" in line}
        wrong = [f"{side}: {each['differs']}" for side, each in sides.items() if each.get("differs")]
        missing = [f"{side}: {each['absent']}" for side, each in sides.items() if "absent" in each]
        there = {side: each for side, each in sides.items() if "absent" not in each}
        if ran.fault():
            return Outcome(FAILED, ran.fault(), None, {"sides": there}, ran.shown())
        alone = not any(not side.startswith("libbetty") for side in there)
        status = FAILED if wrong else ABSENT if alone and "--values" in options else OK
        return Outcome(status, "; ".join(wrong + missing), None, {"sides": there}, ran.shown())

    return Check(f"workload {name}", work, 60)


def do(part, places, environment, machine, *options, count=len(WORKLOADS), **how):
    if "numpy" not in machine["python"]["packages"]:
        part.note("workloads beside others", ABSENT, "this Python has no NumPy: choose another with --python")
        return
    variables = dict(environment)
    variables["BENCH_LIBRARY_PATH"] = variables.pop("LD_LIBRARY_PATH", "")  # of libbetty's programs only
    python = machine["python"]["file"]
    part.do([workload_check(places, variables, python, name, options) for name in WORKLOADS[:count]], **how)
