#!/usr/bin/env python3
"""Mutants: faults put into a copy of the sources, one at a time. Each must make the test fail that is about it.

Called by ./dev mutants; list.txt beside it has the faults, and says how they are written.
"""
import argparse
import concurrent.futures
import dataclasses
import fcntl
import hashlib
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = ROOT / "tests/mutants/list.txt"
PLACES = ROOT / "build/mutants"
TIMEOUT, CUDA_TIMEOUT = 120, 600  # seconds for a test program
CORES = os.cpu_count() or 1
MANY = 20  # mutants that justify a separate build


@dataclasses.dataclass
class Mutant:
    """One entry of list.txt."""
    name: str
    what: str
    file: str = ""
    killers: list = dataclasses.field(default_factory=list)  # (program, case)
    old: list = dataclasses.field(default_factory=list)
    new: list = dataclasses.field(default_factory=list)

    @property
    def cuda(self):
        """A fault of what a device does: the tests run on the one that is made of the processor."""
        return self.file.startswith(("libbetty/backend/cuda/", "tests/fake_cuda/"))

    def mutated(self, text):
        """The file's text with the fault; None if the old text is not there exactly once."""
        old = "\n".join(self.old)
        return text.replace(old, "\n".join(self.new)) if text.count(old) == 1 else None


@dataclasses.dataclass
class Place:
    """A copy of the sources that faults are put into, one at a time, and its builds."""
    number: int

    @property
    def source(self):
        return PLACES / f"src{self.number or ''}"

    def build(self, cuda):
        """cuda: for a CUDA device that is simulated on the processor."""
        return PLACES / f"{'cuda' if cuda else 'out'}{self.number or ''}"


def fail(message):
    sys.exit(f"mutants: {message}")


def read_mutants(path):
    mutants = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        key, _, value = line.partition(": ")
        if not line or line.startswith("#"):
            continue
        if line.startswith("in: "):
            mutants[-1].file = value
        elif line.startswith("killed by: "):
            mutants[-1].killers = [tuple(killer.split()) for killer in value.split(", ")]
        elif line[:2] in ("- ", "-") and mutants and not mutants[-1].new:
            mutants[-1].old.append(line[2:])
        elif line[:2] in ("+ ", "+"):
            mutants[-1].new.append(line[2:])
        elif re.fullmatch(r"[a-z0-9-]+", key) and value:
            mutants.append(Mutant(key, value))
        else:
            fail(f"{path.name}:{number}: found \"{line}\"; see the entries around it")
    return mutants


def check(mutants):
    """Every fault can be put in and every test is there: a change of the sources must not make one vanish silently."""
    names = [mutant.name for mutant in mutants]
    wrong = [f"{name}: two mutants have this name" for name in sorted(set(names)) if names.count(name) > 1]
    for mutant in mutants:
        file = ROOT / mutant.file
        text = file.read_text() if file.is_file() else ""
        mutated = mutant.mutated(text) if mutant.old else None
        if mutated is None:
            wrong.append(f"{mutant.name}: its old text must be in {mutant.file or 'a file'} exactly once")
        elif mutated == text:
            wrong.append(f"{mutant.name}: it changes nothing")
        for killer in mutant.killers or [("no", "test")]:
            test = ROOT / "tests" / "/test_".join(killer[0].rsplit(".", 1))
            if len(killer) != 2 or not re.search(rf"START_TEST\({killer[1]}\)", read_or_nothing(test.with_suffix(".c"))):
                wrong.append(f"{mutant.name}: there is no test {' '.join(killer)}")
    if wrong:
        fail("\n  ".join(["tests/mutants/list.txt no longer fits the sources:"] + wrong))


def read_or_nothing(path):
    return path.read_text() if path.is_file() else ""


def copy_sources(place):
    """Files that have not changed keep their time, so that the next build is short."""
    kept = set()
    for folder, folders, files in os.walk(ROOT):
        here = pathlib.Path(folder).relative_to(ROOT)
        folders[:] = [f for f in folders if not (here == pathlib.Path() and (f in ("build", "runs") or f[0] == "."))]
        for file in files:
            source, copy = ROOT / here / file, place.source / here / file
            kept.add(copy)
            if not copy.is_file() or source.read_bytes() != copy.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)
    for copy in place.source.rglob("*"):
        if copy.is_file() and copy not in kept:
            copy.unlink()


def run_quietly(command):
    """None, or what a command that failed has said. Objects of one place serve another: they name no folder."""
    environment = {**os.environ, "CCACHE_BASEDIR": str(PLACES), "CCACHE_NOHASHDIR": "1"}
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    return run.stdout or f"exit code {run.returncode}" if run.returncode else None


def configure(place, cuda):
    folder = place.build(cuda)
    command = ["cmake", "-S", place.source, "-B", folder, "-DCMAKE_BUILD_TYPE=Debug", "-DBT_WERROR=OFF"]
    # The simulated device is slow enough as it is.
    command += ["-DBT_CUDA=fake", "-DCMAKE_C_FLAGS_DEBUG=-O1", "-DCMAKE_CXX_FLAGS_DEBUG=-O1"] if cuda else [
        "-DCMAKE_C_FLAGS_DEBUG=-O0"]
    if f"CMAKE_HOME_DIRECTORY:INTERNAL={place.source}\n" not in read_or_nothing(folder / "CMakeCache.txt"):
        shutil.rmtree(folder, ignore_errors=True)  # new, or from a checkout that was moved
        command += ["-G", "Ninja"] if shutil.which("ninja") else []
    if shutil.which("ccache"):
        command += ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    said = run_quietly(command)
    if said:
        fail("cmake failed:\n" + said)


def build(place, mutants, cuda, jobs=CORES):
    """None, or what the compiler said."""
    programs = sorted({program for mutant in mutants for program, _ in mutant.killers})
    return run_quietly(["cmake", "--build", place.build(cuda), "-j", str(jobs), "--target", *programs])


def failed_cases(place, program, cuda, cases=()):
    """The cases of a test program, of these or of all, that fail; "*" if it does not come to its end."""
    folder, timeout = place.build(cuda), CUDA_TIMEOUT if cuda else TIMEOUT
    environment = {**os.environ, "CK_VERBOSITY": "normal", "CK_DEFAULT_TIMEOUT": str(timeout // 2),
                   "BT_SOURCE_DIR": str(place.source), "BT_BUILD_DIR": str(folder),
                   "BETTY_RUN": str(folder / "betty-run")}
    if cases:
        environment["BT_TEST_ONLY"] = ",".join(sorted(cases))
    if cuda and not program.startswith("cuda."):
        environment["BETTY_TEST_BACKEND"] = "cuda"
    try:
        run = subprocess.run([folder / "tests/bin" / program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env=environment, timeout=timeout, errors="replace", text=True, cwd=folder)
    except subprocess.TimeoutExpired:
        return {"*"}
    # FILE:LINE:F or E:test case:function:iteration: message
    failed = set(re.findall(r"^[^:\n]+:\d+:[FE]:[^:\n]*:(\w+):\d+: ", run.stdout, re.MULTILINE))
    return failed or ({"*"} if run.returncode else set())


def judge(place, mutant, jobs):
    """What became of one mutant."""
    file = place.source / mutant.file
    text = file.read_text()
    file.write_text(mutant.mutated(text))
    try:
        said = build(place, [mutant], mutant.cuda, jobs)
        if said:
            return "does not build", "\n" + said
        for program, case in mutant.killers:
            if case in failed_cases(place, program, mutant.cuda, {case}):
                return "killed", f"{program} {case}"
        others = [f"{program} {other}" for program in sorted({program for program, _ in mutant.killers})
                  for other in sorted(failed_cases(place, program, mutant.cuda))]
        return "survived", "but these failed: " + ", ".join(others) if others else ""
    finally:
        file.write_text(text)


def make_ready(place, mutants):
    """The copy and its builds."""
    copy_sources(place)
    for cuda in sorted({mutant.cuda for mutant in mutants}):
        configure(place, cuda)
        said = build(place, [mutant for mutant in mutants if mutant.cuda == cuda], cuda)
        if said:
            fail("the sources do not build:\n" + said)


def check_without_faults(place, mutants):
    cases = {}
    for mutant in mutants:
        for program, case in mutant.killers:
            cases.setdefault((program, mutant.cuda), set()).add(case)
    for (program, cuda), some in sorted(cases.items()):
        if failed_cases(place, program, cuda, some):
            fail(f"{program} fails without any fault; see ./dev test{' --cuda' if cuda else ''}")


def judge_all(mutants, count):
    """Verdicts in the order in which they come, from so many places at a time."""
    free = queue.SimpleQueue()

    def judge_somewhere(mutant):
        place = free.get()
        try:
            return mutant, *judge(place, mutant, max(1, CORES // count))
        finally:
            free.put(place)

    for place in map(Place, range(count)):
        make_ready(place, mutants)
        if free.empty():  # the first place is enough
            check_without_faults(place, mutants)
        free.put(place)
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        for verdict in concurrent.futures.as_completed([pool.submit(judge_somewhere, mutant) for mutant in mutants]):
            yield verdict.result()


def sample(mutants, count):
    """Neighbours in the list, as the commit says (the day, where there is none)."""
    git = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    seed = git.stdout if git.returncode == 0 else str(int(time.time() / 86400)).encode()
    first = int(hashlib.sha256(seed).hexdigest(), 16)
    return [mutants[(first + i) % len(mutants)] for i in range(min(count, len(mutants)))]


def arguments():
    parser = argparse.ArgumentParser(prog="./dev mutants", description="Puts faults into a copy of the sources, one at "
                                     "a time, and sees whether the tests find them.")
    parser.add_argument("--list", action="store_true", help="say which there are, and run none")
    parser.add_argument("--sample", type=int, metavar="N", help="run N of them, which ones the commit says")
    parser.add_argument("--cuda", action="store_true", help="run those of the CUDA backend, on the device that is made "
                        "of the processor; without a name, they are not run otherwise")
    parser.add_argument("names", nargs="*", metavar="NAME", help="run these only")
    return parser.parse_args()


def choose(options, mutants):
    unknown = set(options.names) - {mutant.name for mutant in mutants}
    if unknown:
        fail(f"no such mutant: {', '.join(sorted(unknown))}; ./dev mutants --list names them")
    if options.names:
        return [mutant for mutant in mutants if mutant.name in options.names]
    mutants = [mutant for mutant in mutants if options.list or mutant.cuda == options.cuda]
    return mutants if options.sample is None else sample(mutants, options.sample)


def main():
    options = arguments()
    mutants = read_mutants(LIST)
    check(mutants)
    mutants = choose(options, mutants)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.name}: {mutant.what} ({mutant.file})")
        return 0
    PLACES.mkdir(parents=True, exist_ok=True)
    lock = open(PLACES / "lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # one process at a time may use the copies
    killed = 0
    count = max(1, min(CORES, len(mutants) // MANY))
    for mutant, verdict, detail in judge_all(mutants, count):
        killed += verdict == "killed"
        print(f"{verdict}: {mutant.name}{': ' if detail else ''}{detail}", flush=True)
        if verdict != "killed":
            print(f"    {mutant.file}: {mutant.what}", flush=True)
    print(f"{killed} of {len(mutants)} killed")
    return 0 if killed == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
