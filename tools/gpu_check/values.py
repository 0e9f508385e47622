"""Are the numbers right, and the same again? Kernels against the processor's, engines, and the examples: against the
processor's, step by step against captured, and their bytes against the plan's."""
import hashlib
import json
import os
import re
import shutil
import time

import checks
import peers
from checks import ABSENT, FAILED, OK, SKIPPED, Check, Outcome
from places import ROOT, has_compiler

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = "backend.ranks"  # a test of NCCL, by itself in the report
TOLERANCE = 1e-3  # of the numbers of an example, of their size: as tests/cuda/examples.sh
TF32 = ["reweight", "reweight_cifar"]  # once more with precision = tf32: products, and convolutions
TF32_TOLERANCE = 5e-2  # beside the processor's fp32


# ---- tests ----


def test_checks(places, environment, rooms):
    on_device = dict(environment, BETTY_TEST_BACKEND="cuda")
    return [checks.program(name, [places.program(name)], on_device, limit=120)
            for name in places.tests() if name.split(".")[0] in rooms and name != RANKS]


# ---- examples ----


def metrics(folder):
    """Of each line, without the time; the text of it, by which bits are compared."""
    with open(os.path.join(folder, "metrics.jsonl")) as file:
        return [re.sub(r'"time": *[0-9.e+-]*,', "", line) for line in file]


def state(folder):
    """A hash of a run's numbers and checkpoints."""
    all_of_it = hashlib.sha256("".join(metrics(folder)).encode())
    saved = os.path.join(folder, "checkpoints")
    for name in sorted(os.listdir(saved)) if os.path.isdir(saved) else []:
        if name.endswith(".safetensors"):
            with open(os.path.join(saved, name), "rb") as file:
                all_of_it.update(file.read())
    return all_of_it.hexdigest()


def apart(folder, other, tolerance):
    """In words, the first number of a run that is not the other's but for rounding; None: there is none."""
    found, due = ([json.loads(line) for line in metrics(each)] for each in (folder, other))
    if len(found) != len(due) or not due:
        return f"{len(found)} lines of metrics, not {len(due)}"
    for a, b in zip(found, due):
        if a.keys() != b.keys():
            return f"other metrics at step {b.get('step')}"
        for key, value in b.items():
            if isinstance(value, (int, float)) and not abs(a[key] - value) <= tolerance * (1 + abs(value)):
                return f"{key} at step {b['step']} is {a[key]}, on the processor {value}"
    return None


def figures(folder):
    with open(os.path.join(folder, "summary.json")) as file:
        summary = json.load(file)
    names = {"device_planned_bytes": "planned_bytes", "device_bytes": "allocated_bytes", "device_outside_bytes": "outside_bytes",
             "ms_per_step": "ms_per_step"}
    return {to: summary.get(name) for name, to in names.items()}


class Example:
    """One of them: on the processor, on the device, and there once more step by step."""

    def __init__(self, places, environment, name, settings, tolerance=TOLERANCE):
        self.places, self.environment, self.name, self.tolerance = places, environment, name, tolerance
        self.settings = [word for setting in settings for word in ("--set", setting)]
        self.near = None  # the folder of the run on the processor

    def run(self, folder, output, device, end, **more):
        argv = [self.places.command, os.path.join(self.places.examples, f"{self.name}.ini"), "--threads", "1",
                "--device", device, "--output", output, *self.settings]
        return checks.command(argv, folder, dict(self.environment, **more), end)

    def work(self, folder, end):
        ran = None
        runs = [("captured", "cuda", {}), ("one-by-one", "cuda", {"BETTY_CUDA": "sync"})]
        if not self.near:
            runs.insert(0, ("near", "cpu", {}))
        for output, device, more in runs:
            ran = self.run(folder, output, device, end, **more)
            if ran.fault():
                return ran.failure(f"{output}: ")
        self.near = self.near or shutil.copytree(os.path.join(folder, "near"), os.path.join(folder, "..", "near"))
        captured, one_by_one = (os.path.join(folder, each) for each in ("captured", "one-by-one"))
        found = figures(captured)
        wrong = [apart(captured, self.near, self.tolerance),
                 None if state(captured) == state(one_by_one) else "different bits step by step and captured",
                 None if found["planned_bytes"] == found["allocated_bytes"] and found["planned_bytes"] else
                 f"{found['allocated_bytes']} bytes on the device, planned {found['planned_bytes']}"]
        wrong = "; ".join(filter(None, wrong))
        return Outcome(FAILED if wrong else OK, wrong, state(captured), found, ran.shown())


def needs_compiler(places, name):
    with open(os.path.join(places.examples, f"{name}.ini")) as file:
        return re.search(r"^\s*problems\s*=.*\.c\b", file.read(), re.MULTILINE) is not None


def example_checks(part, places, environment):
    """None of them where the images of noise, or small weights to begin with, could not be made."""
    work = places.folder("examples")
    listed = checks.command(["bash", os.path.join(HERE, "examples.sh")], work, dict(environment, TMPDIR=work),
                             time.monotonic() + 60)
    lines = listed.output.splitlines()
    if listed.fault() or len(lines) < 2:
        part.note("examples", FAILED, listed.fault() or "none are listed", command=listed.shown())
        return []
    made = []
    for name, *settings in (line.split("\t") for line in lines[1:]):
        if needs_compiler(places, name) and not has_compiler():
            part.note(f"example {name}", SKIPPED, "it is a C file, and there is no compiler")
            continue
        with_data = dict(environment, BETTY_DATA=lines[0])
        if not os.path.isdir("/usr/share/datasets/fashion-mnist"):
            share(lines[0])
        made.append(Check(f"example {name}", Example(places, with_data, name, settings).work, 60))
        if name in TF32:
            tf32 = Example(places, with_data, name, [*settings, "engine.precision=tf32"], TF32_TOLERANCE)
            made.append(Check(f"example {name} in tf32", tf32.work, 60))
    return made


def share(folder):
    """Fashion-MNIST beside the images of noise, where the package has it."""
    packed, there = os.path.join(ROOT, "data", "fashion-mnist"), os.path.join(folder, "fashion-mnist")
    if os.path.isdir(packed) and not os.path.exists(there):
        os.symlink(packed, there)


# ---- NCCL ----


def nccl(part, places, environment, machine):
    """As many ranks as there are cards, four at most. Of one card, what several compute is not to be seen, and the
    report says so."""
    fake = machine["device"]["kind"] == "fake"
    ranks = 1 if fake else min(machine["device"].get("count") or 1, 4)
    name = "NCCL, one rank only" if ranks == 1 else f"NCCL, {ranks} ranks"
    if not fake and not machine["libraries"]["NCCL"]:
        part.note(name, ABSENT, "NCCL is not on this machine")
        return
    if not os.path.exists(places.program(RANKS)):
        part.note(name, SKIPPED, f"the build has no {RANKS}")
        return
    alone = dict(environment, FAKE_CUDA_DEVICES="1") if fake else environment
    part.do([checks.program(name, [places.program(RANKS)], alone, 120)])
    for entry in part.entries[-1:]:
        if entry["name"] == name and entry["status"] == OK and ranks == 1:
            entry["note"] = "libbetty's collectives over one rank: this says nothing about several"


def run(part, places, environment, machine):
    part.do(test_checks(places, environment, ["ops", "backend"]), share=0.45)
    part.do(example_checks(part, places, environment), share=0.6)
    peers.do(part, places, environment, machine, "--values", count=4, share=0.5, times=1)
    nccl(part, places, environment, machine)
    part.do(test_checks(places, environment, ["runtime", "engine", "function"]), share=0.8)
