"""Runs the parts on this machine, and leaves the report."""
import datetime
import os

import checks
import machine as machines
import card_profile
import report
import sanitizer
import speed
import values
from checks import FAILED, OK, Outcome
from places import ROOT, Places

PARTS = {"values": values.run, "sanitizer": sanitizer.run, "speed": speed.run}


def device_answers(part, places, environment):
    """Whether there is a device; without one nothing else need be tried. The first entry of each part."""
    argv = [places.command, os.path.join(places.examples, "logistic_hpo.ini"), "--device", "cuda", "--info"]
    only, part.only = part.only, ""

    def work(folder, end):
        ran = checks.command(argv, folder, environment, end)
        return Outcome(FAILED if ran.fault() else OK, ran.fault() or "", None, {}, ran.shown())

    part.do([checks.Check("a device answers", work, 60)], times=1)
    part.only = only
    return part.entries[-1]["status"] == OK


def run(args):
    places = Places(args.build, os.path.join(args.output, "work"))
    if places.missing():
        print(f"gpu-check: {places.missing()}")
        return 2
    os.makedirs(places.work, exist_ok=True)
    machine = machines.describe(places, args.python)
    environment = places.environment(machine["library_folders"])
    machine["version"] = machines.answer([places.command, "--version"], env=environment)
    machine["commit"] = places.commit() or machines.answer(["git", "-C", ROOT, "rev-parse", "HEAD"])
    now = datetime.datetime.now(datetime.timezone.utc)
    whole = {"what": "libbetty on a CUDA device", "date": now.isoformat(timespec="seconds"), **machine,
             "profile": card_profile.of_card(machine, environment), "parts": [], "checks": []}
    for name in PARTS if args.part == "all" else [args.part]:
        part = checks.Part(name, places, 60 * args.minutes, args.jobs, args.only, 1 if args.once else 2)
        if device_answers(part, places, environment):
            PARTS[name](part, places, environment, machine)
        whole["parts"].append({"name": name, "seconds": round(part.seconds - part.left(), 1), "limit": part.seconds})
        whole["checks"] += part.entries
        report.write(whole, args.output)  # what is known so far stays, whatever happens
        report.tell(part.entries)
    return 1 if any(check["status"] == FAILED for check in whole["checks"]) else 0
