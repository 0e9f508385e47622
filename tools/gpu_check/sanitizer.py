"""NVIDIA's compute-sanitizer over some test programs: memory beyond its bounds, races for shared memory, barriers."""
import os

import checks
from checks import ABSENT, SKIPPED

TOOLS = ["memcheck", "racecheck", "synccheck"]
# What has a kernel of each kind, the shorter ones first; a whole run comes last.
PROGRAMS = ["backend.reduce", "backend.elementwise", "backend.move", "backend.update", "backend.rows", "backend.matmul",
            "backend.random", "backend.images", "ops.kernels"]
FOUND = 86  # what it exits with if it has found something


def run(part, places, environment, machine):
    tool = machine["tools"]["compute-sanitizer"]
    if not tool or machine["device"]["kind"] == "fake":
        why = "compute-sanitizer is not on this machine" if not tool else "the fake device is no GPU"
        for each in TOOLS:
            part.note(f"compute-sanitizer {each}", ABSENT if not tool else SKIPPED, why)
        return
    known = places.tests()
    on_device = dict(environment, BETTY_TEST_BACKEND="cuda", CK_TIMEOUT_MULTIPLIER="20")
    begin = lambda each: [tool, "--tool", each, "--target-processes", "all", "--error-exitcode", str(FOUND)]
    made = [checks.program(f"{each} {name}", [*begin(each), places.program(name)], on_device, 90)
            for name in PROGRAMS if name in known for each in TOOLS]
    example = os.path.join(places.examples, "logistic_hpo.ini")
    train = [places.command, example, "--device", "cuda", "--set", "engine.train_iters=4", "--output", "run"]
    made += [checks.program(f"{each} logistic_hpo", [*begin(each), *train], environment, 90) for each in TOOLS]
    part.do(made, times=1)
