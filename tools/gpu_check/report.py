"""The report: report.json, and report.md for people."""
import json
import os
from collections import Counter

from checks import ABSENT, FAILED, OK, SKIPPED

FAKE = "the tests' fake CUDA device, simulated on the processor. No GPU was used: nothing here is about a GPU."


def counts(entries):
    number = Counter(entry["status"] for entry in entries)
    return {status: number[status] for status in (OK, FAILED, ABSENT, SKIPPED)}


def summary(entries):
    return ", ".join(f"{number} {status}" for status, number in counts(entries).items() if number) or "no checks"


def tell(entries):
    """On the terminal."""
    for entry in entries:
        if entry["status"] != OK:
            print(f"{entry['status']}: {entry['name']}: {entry['note']}")
    print(f"{entries[0]['part'] if entries else ''}: {summary(entries)}", flush=True)


def write(whole, folder):
    whole["counts"] = counts(whole["checks"])
    with open(os.path.join(folder, "report.json"), "w") as file:
        json.dump(whole, file, indent=1)
        file.write("\n")
    with open(os.path.join(folder, "report.md"), "w") as file:
        file.write("\n".join(pages(whole)) + "\n")
    if whole["profile"]:
        with open(os.path.join(folder, "device-profile.json"), "w") as file:
            json.dump(whole["profile"], file, indent=4)
            file.write("\n")


# ---- as text ----


def table(head, rows):
    if not rows:
        return []
    line = lambda cells: "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"
    return [line(head), "|" + "---|" * len(head), *map(line, rows), ""]


def device_words(device):
    if device["kind"] == "fake":
        return FAKE
    if device["kind"] == "none":
        return "none: neither nvidia-smi nor the driver names a card"
    return f"{device['name']}, driver {device['driver_version']}, {device['memory.total']}, sm {device['compute_cap']}"


def machine_rows(whole):
    rows = [("device", device_words(whole["device"])), ("libbetty", f"{whole['version']}, commit {whole['commit']}"),
            ("date", whole["date"])]
    for name, each in whole["libraries"].items():
        rows.append((name, f"{each['version'] or 'unknown'}, {each['file']}" if each else "absent"))
    packages = ", ".join(f"{name} {version}" for name, version in whole["python"]["packages"].items())
    rows.append(("Python", f"{whole['python']['version']}; {packages or 'no packages to compare with'}"))
    rows.append(("host", f"{whole['host']['processor']}, {whole['host']['cores']} cores, {whole['host']['system']}"))
    rows.append(("device profile", "device-profile.json, as cuDNN tells it" if whole["profile"] else "absent"))
    return rows


def check_rows(entries):
    return [(entry["name"], entry["status"], {True: "the same", False: "others", None: ""}[entry["same_bits"]],
             " ".join(f"{seconds:.1f}" for seconds in entry["seconds"]), entry["note"]) for entry in entries]


def side_table(name, sides):
    """Of a workload beside others: numbers or times."""
    number = lambda each, key: f"{each[key]:.4g}" if each.get(key) is not None else ""
    heads = {"ms": "ms a step", "low": "low", "high": "high", "loss": "loss", "loss_differs": "loss differs by",
             "path_differs": "path differs by"}
    keys = [key for key in heads if any(key in each for each in sides.values())]
    head = [name, "version", *(heads[key] for key in keys)]
    return table(head, [(side, each["version"], *(number(each, key) for key in keys)) for side, each in sides.items()])


def speed_tables(entries):
    lines = []
    examples = [(e["name"], e["figures"]) for e in entries if "cuda_ms" in e["figures"]]
    lines += table(["milliseconds a step", "device", "processor", "times as fast"],
                   [(name, f"{f['cuda_ms']:.4g}", f"{f['cpu_ms']:.4g}", f"{f['cpu_ms'] / f['cuda_ms']:.3g}")
                    for name, f in examples if f["cuda_ms"] and f["cpu_ms"]])
    for e in entries:
        lines += side_table(e["name"], e["figures"].get("sides", {}))
        lines += table([f"{e['name']}, timed by the {e['figures'].get('timed_by', '')}", "share", "calls", "us a call", "GFLOP/s", "GB/s"],
                       [(k["kernel"], f"{k['share']:.1%}", k["calls"], k["microseconds"], k["gflops"], k["gbytes"])
                        for k in e["figures"].get("kernels", [])])
    return lines


def byte_tables(entries):
    rows = [(e["name"], f["planned_bytes"], f["allocated_bytes"], f.get("outside_bytes", "")) for e in entries for f in [e["figures"]]
            if f.get("planned_bytes") is not None]
    return table(["bytes on the device", "planned", "allocated", "outside the plan"], rows)


def pages(whole):
    yield "# libbetty on a CUDA device"
    yield ""
    yield f"{summary(whole['checks'])}. Whatever runs twice must give the same bits."
    yield ""
    yield from table(["", ""], machine_rows(whole))
    for part in whole["parts"]:
        entries = [entry for entry in whole["checks"] if entry["part"] == part["name"]]
        yield f"## {part['name']}: {summary(entries)}"
        yield ""
        yield f"{part['seconds']} s of at most {part['limit']:.0f} s."
        yield ""
        yield from table(["check", "", "bits again", "seconds", ""], check_rows(entries))
        yield from byte_tables(entries)
        yield from speed_tables(entries)
