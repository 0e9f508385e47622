"""Checks within a time: each is done twice where there is time, and must come to the same bits."""
import os
import re
import shlex
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

OK, FAILED, ABSENT, SKIPPED = "ok", "failed", "absent", "skipped"
SKIP_CODE = 77  # what a test exits with that cannot be done here
NO_DATA = "not found: looked at"  # betty-run, of a data set
LAST_LINES = 12  # of a failed command's output, in the report


@dataclass
class Outcome:
    """Of a check, once."""
    status: str
    note: str = ""
    bits: str = None  # what must be the same each time; None: nothing is compared
    figures: dict = field(default_factory=dict)
    command: str = ""
    seconds: float = 0


@dataclass
class Check:
    name: str
    work: object  # work(folder, end): an Outcome, by that moment of time.monotonic()
    limit: float = 60  # seconds


@dataclass
class Ran:
    """A command that has ended."""
    argv: list
    code: int  # None: it took too long
    output: str
    seconds: float

    def fault(self):
        """In words; None: there is none."""
        if self.code == 0:
            return None
        if self.code is None:
            return f"took longer than {self.seconds:.0f} s"
        tail = "\n".join(self.output.strip().splitlines()[-LAST_LINES:])
        how = f"signal {-self.code}" if self.code < 0 else f"exit {self.code}"
        return f"{how}: {tail}" if tail else how

    def shown(self):
        return shlex.join(self.argv)

    def failure(self, what=""):
        """As an outcome; data that are not on this machine are no fault of libbetty's."""
        status = SKIPPED if NO_DATA in self.output else FAILED
        return Outcome(status, f"{what}{self.fault()}", command=self.shown())


def command(argv, folder, environment, end):
    """Runs it in the folder; it, and what it has started, ends by that moment."""
    start = time.monotonic()
    with open(os.path.join(folder, "output.txt"), "ab+") as output:
        begin = output.seek(0, os.SEEK_END)
        try:
            process = subprocess.Popen(argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            return Ran(argv, 127, str(error), 0)
        try:
            code = process.wait(max(end - start, 0.1))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        output.seek(begin)
        text = output.read().decode(errors="replace")
    return Ran(argv, code, text, time.monotonic() - start)


def program(name, argv, environment, limit=60, bits=None):
    """The check that a program says it is right, by its exit. bits(folder): what must be the same each time."""

    def work(folder, end):
        ran = command(argv, folder, environment, end)
        if ran.code == SKIP_CODE:
            return Outcome(SKIPPED, ran.output.strip(), command=ran.shown())
        if ran.fault():
            return ran.failure()
        return Outcome(OK, "", bits(folder) if bits else None, command=ran.shown())

    return Check(name, work, limit)


class Part:
    """Some checks that have a time together; what they come to is in `entries`."""

    def __init__(self, name, places, seconds, jobs, only="", times=2):
        self.name, self.places, self.jobs, self.only, self.times = name, places, jobs, only, times
        self.start, self.entries = time.monotonic(), []
        self.seconds = seconds

    def left(self):
        return self.seconds - (time.monotonic() - self.start)

    def wants(self, name):
        return not self.only or re.search(self.only, name) is not None

    def note(self, name, status, note="", **more):
        """What is known without doing anything."""
        if self.wants(name):
            self.entries.append({"part": self.name, "name": name, "status": status, "times": 0, "seconds": [],
                                 "same_bits": None, "note": note, "command": "", "figures": {}, **more})

    def do(self, checks, jobs=None, share=1, times=None):
        """All of them once, then again, as long as there is time: at most this share of what is left."""
        checks, times = [check for check in checks if self.wants(check.name)], times or self.times
        end = time.monotonic() + share * self.left()
        outcomes = {check.name: [] for check in checks}
        with ThreadPoolExecutor(jobs or self.jobs) as pool:
            for time_ in range(times):
                again = [c for c in checks if not time_ or outcomes[c.name] and outcomes[c.name][-1].status == OK]
                for check, outcome in zip(again, pool.map(lambda c: self.once(c, time_, end), again)):
                    if outcome:
                        outcomes[check.name].append(outcome)
        self.entries += [self.entry(check, outcomes[check.name], times) for check in checks]

    def once(self, check, time_, end):
        """None: there is no time."""
        left = end - time.monotonic()
        if left < 1:
            return None
        folder = self.places.folder(re.sub(r"[^A-Za-z0-9_.-]+", "-", check.name), str(time_ + 1))
        start = time.monotonic()
        try:
            outcome = check.work(folder, start + min(check.limit, left))
        except (OSError, ValueError, KeyError) as error:  # what it left cannot be read
            outcome = Outcome(FAILED, f"{type(error).__name__}: {error}")
        outcome.seconds = time.monotonic() - start
        if outcome.status == FAILED and "took longer" in outcome.note and left < check.limit:
            if time_:
                return None  # it was right the first time
            outcome.status, outcome.note = SKIPPED, "the time of this part was up"
        return outcome

    def entry(self, check, outcomes, due):
        """What a report says of all its times, of which so many were due."""
        if not outcomes:
            outcomes, times = [Outcome(SKIPPED, "the time of this part was up")], 0
        else:
            times = len(outcomes)
        last = outcomes[-1]
        compared = times > 1 and last.status == OK and last.bits is not None
        same = all(o.bits == last.bits for o in outcomes) if compared else None
        status, note = last.status, last.note
        if same is False:
            status, note = FAILED, "different bits from the first time"
        elif status == OK and times < due:
            note = "; ".join(filter(None, [note, "done once"]))
        return {"part": self.name, "name": check.name, "status": status, "times": times, "same_bits": same,
                "seconds": [round(o.seconds, 3) for o in outcomes][:times], "note": note, "command": last.command,
                "figures": last.figures}
