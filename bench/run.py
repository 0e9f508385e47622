"""Measures libbetty next to Betty, PyTorch and JAX, each in its own process, in alternating rounds on the same cores.

Each figure is a line of JSON on standard output; a Markdown table with the ratios comes last. Exit 1 if the sides do
not compute the same thing.
"""
import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile

import isa
from workloads import FINITE, HERE, all_workloads

RESULTS = os.path.join(HERE, "results")


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("workload", nargs="*", help="names, or their beginnings (mwn, logistic-cg); none: all")
    parser.add_argument("--quick", action="store_true", help="three short rounds on one thread")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, by commas")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each side, in turn with the others")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a measurement")
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build"), help="where bench-libbetty is")
    parser.add_argument("--list", action="store_true", help="only name the workloads")
    args = parser.parse_args()
    if args.quick:
        args.threads, args.rounds, args.seconds = "1", 3, 0.1
    args.threads = [int(n) for n in args.threads.split(",")]
    return args


# ---- one side ----


class Process:
    """A side of a workload, which waits for questions; it has its own environment variables."""

    def __init__(self, side, command, threads, **more):
        self.side, self.command, self.stderr = side, command, tempfile.TemporaryFile("w+")
        cores = sorted(os.sched_getaffinity(0))[:threads]
        variables = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            text=True,
            env={**os.environ, **variables, **isa.environment(), "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "",
                 **more},  # fmt: skip
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        ready = self.answer()
        self.version, self.isa = ready["ready"], ready["isa"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.stderr.seek(0)
            code = self.process.wait()
            raise SystemExit(f"bench: {' '.join(self.command)} failed ({code}):\n{self.stderr.read()[-3000:]}")
        return json.loads(line)

    def ask(self, question):
        try:
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; answer() says why
        return self.answer()

    def milliseconds(self, steps):
        return self.ask(f"steps {steps}")["ms"]

    def status_bytes(self, name):
        """VmRSS or VmHWM, as the system counts them."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))

    def resident_mb(self):
        return self.status_bytes("VmRSS") / 1e6

    def close(self):
        try:
            self.process.stdin.close()  # it ends at the end of its input
        except BrokenPipeError:
            pass
        self.process.wait()
        self.process.stdout.close()
        self.stderr.close()


# ---- do all sides compute the same thing? ----


DOUBLE_TOLERANCE = 1e-9  # relative


def distance(a, b, start):
    """The distance between two sides' (upper) parameters, relative to their distance from the start."""
    return math.dist(a, b) / max(math.dist(b, start), 1e-30)


def check(workload, processes, steps, tolerances, report, **figure):
    """Sides with the same second-order product start with the same loss and parameters, and after the same steps must
    have the same ones again. Each is compared with the first side of its product, which is libbetty."""
    states = [[p.ask("state")] for p in processes]
    for p, state in zip(processes, states):
        if steps:
            p.milliseconds(steps)
            state.append(p.ask("state"))
    loss_tolerance, path_tolerance = tolerances
    good, first = True, {}
    for p, state in zip(processes, states):
        if p.side.product not in first:
            first[p.side.product] = (p, state)
            continue
        other, others = first[p.side.product]
        errors = dict(start_differs=abs(state[0]["loss"] / others[0]["loss"] - 1))
        same = errors["start_differs"] < loss_tolerance
        if steps:
            errors["loss_differs"] = abs(state[1]["loss"] / others[1]["loss"] - 1)
            errors["path_differs"] = distance(state[1]["params"], others[1]["params"], others[0]["params"])
            same = same and errors["loss_differs"] < loss_tolerance and errors["path_differs"] < path_tolerance
        good = good and same
        report(workload=workload.name, check=f"{p.side.name} = {other.side.name}", same=same, steps=steps,
               loss=state[-1]["loss"], **errors, **figure)  # fmt: skip
    return good


def started(workload, threads, double=False):
    """Starts a process for each side; with `double`, for those that can compute in double precision."""
    processes = []
    try:
        for side in workload.sides:
            command = side.double if double else side.command
            if command is None:
                continue
            processes.append(Process(side, command, threads))
            if len(processes) == 1:  # the others start from its values, and use its order of the batches
                count = min(workload.batches, 12) if double else workload.batches
                processes[0].ask(f"export {count}")
    except BaseException:
        close(processes)
        raise
    return processes


def close(processes):
    for p in processes:
        p.close()


def check_double(workload, threads, report):
    """Compares the gradients of all sides in double precision: the same work, apart from float32's rounding."""
    processes = started(workload, threads, double=True)
    try:
        tolerances = DOUBLE_TOLERANCE, DOUBLE_TOLERANCE
        return check(workload, processes, workload.double, tolerances, report, threads=threads, precision="double")
    finally:
        close(processes)


# ---- measuring ----


def steps_for(process, seconds, block):
    """How many steps, a multiple of the block, take about that long; also warms up."""
    steps = block
    while True:
        taken = process.milliseconds(steps) / 1e3
        if taken > 0.3 * seconds:
            break
        steps *= 2 if taken < 1e-9 else max(2, min(10, int(0.5 * seconds / taken)))
    return max(block, round(steps * seconds / taken / block) * block)


RIVAL = 1.25  # among the sides of a column, those slower by this factor are measured only in the first round


def still_measured(workload, times):
    """After the first round: all but those that others in their column beat by far."""
    best = {}
    for side in workload.sides:
        best[column(side)] = min(best.get(column(side), math.inf), times[side.name][0])
    return [side.name for side in workload.sides if times[side.name][0] <= RIVAL * best[column(side)]]


def measure(workload, processes, args, threads, report):
    """Milliseconds per step of each side in each round, and the minimum time of libbetty's steps."""
    steps = {p.side.name: steps_for(p, args.seconds, workload.block) for p in processes}
    times, names = {p.side.name: [] for p in processes}, [p.side.name for p in processes]
    for k in range(min(args.rounds, workload.rounds)):
        for p in processes:
            if p.side.name in names:
                times[p.side.name].append(p.milliseconds(steps[p.side.name]) / steps[p.side.name])
        if k == 0:
            names = still_measured(workload, times)
    floors = {}
    for p in processes:
        each, more = times[p.side.name], {}
        if p.side.name.startswith("libbetty"):
            more = floors[p.side.name] = floor(p.ask(f"work {workload.block}"), threads)
        report(workload=workload.name, threads=threads, side=p.side.name, ms_per_step=statistics.median(each),
               low=min(each), high=max(each), rounds=len(each), steps_per_round=steps[p.side.name],
               resident_mb=round(p.resident_mb()), tensor_bytes=p.ask("memory")["tensor_bytes"],
               version=p.version, isa=p.isa, **more)  # fmt: skip
    return times, floors


def floor(work, threads):
    """The minimum time of a step: its products and convolutions at the peak speed of the cores, or the bytes that it
    must read and write at the speed of copying, whichever takes longer."""
    products = work["flops"] / work["flops_per_second"] if work["flops_per_second"] else 0
    bytes = work["bytes"] / work["bytes_per_second"]
    return dict(work, floor_ms=1e3 * max(products, bytes) / threads)


def run(workload, args, threads, report):
    """The times of all sides, and libbetty's minimum times; None if they do not compute the same thing."""
    if workload.double and threads == args.threads[0] and not check_double(workload, threads, report):
        return None
    processes = started(workload, threads)
    try:
        tolerances = workload.loss, workload.path
        if not check(workload, processes, workload.check, tolerances, report, threads=threads):
            return None
        return measure(workload, processes, args, threads, report)
    finally:
        close(processes)


# ---- the table ----


def digits(x):
    """Formats with three digits."""
    return f"{x:.{max(0, 2 - math.floor(math.log10(x)))}f}" if x > 0 else "0"


def length(ms, spread=""):
    unit, factor = ("us", 1e3) if ms < 0.1 else ("ms", 1)
    return f"{digits(ms * factor)}{spread} {unit}"


def duration(times):
    ms, spread = statistics.median(times), (max(times) - min(times)) / 2
    return length(ms, f" ±{100 * spread / ms:.0f}%")


def ratio(times, name, ours):
    """The median of the ratios per round: a temporary disturbance of the machine affects both sides."""
    if name not in times:
        return "–"
    return f"{digits(statistics.median(b / a for a, b in zip(times[ours], times[name])))}x"


def column(side):
    return side.column or side.name


def fastest(sides, times):
    """By column, because several programs of the same library may compete."""
    columns = {}
    for side in sides:
        best = columns.get(column(side))
        if best is None or statistics.median(times[side.name]) < statistics.median(best):
            columns[column(side)] = times[side.name]
    return columns


def row(title, threads, times, floors, ours, names):
    least = floors[ours]["floor_ms"]
    cells = [title, str(threads), duration(times[ours]), f"{length(least)}, {100 * least / statistics.median(times[ours]):.0f} %"]
    cells += [duration(times[name]) if name in times else "–" for name in names]
    cells += [f"**{ratio(times, name, ours)}**" if name in times else "–" for name in names]
    return f"| {' | '.join(cells)} |"


def table(results):
    names = ("betty", "torch", "jax", "jax-scan")
    lines = ["| a step of | threads | libbetty | floor | Betty | PyTorch | JAX, a call a step | JAX, scanned "
             "| Betty / libbetty | PyTorch / libbetty | JAX / libbetty | scanned / libbetty |",
             "|" + "---|" * 12]  # fmt: skip
    for workload, threads, found in results:
        if found is None:
            lines.append(f"| {workload.title} | {threads} |" + " differs |" * 10)
            continue
        times, floors = found
        lines.append(row(workload.title, threads, fastest(workload.sides, times), floors, "libbetty", names))
        if "libbetty-finite" in times:
            alike = [side for side in workload.sides if side.product == FINITE]
            title = "the same, Betty's finite difference on all sides"
            lines.append(row(title, threads, fastest(alike, times), floors, "libbetty-finite", names))
    return "\n".join(lines)


def memory_table(figures):
    """For the sides that know it: the peak of all tensors except the data set, and of the whole process."""
    lines = ["| memory of | side | tensors | resident process |", "|---|---|---|---|"]
    for figure in figures:
        if figure.get("tensor_bytes") and figure["threads"] == 1 and not figure["workload"].startswith(("logistic", "mlp")):
            lines.append(f"| {figure['workload']} | {figure['side']} | {figure['tensor_bytes'] / 1e6:.2f} MB "
                         f"| {figure['resident_mb']} MB |")  # fmt: skip
    return "\n".join(lines)


def machine():
    with open("/proc/cpuinfo") as info:
        facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in info)}
    vectors = next((name for name in ("avx512f", "avx2") if name in facts.get("flags", "").split()), "neither")
    return dict(machine=facts.get("model name", platform.machine()), vectors=vectors, cores=os.cpu_count(),
                load=round(os.getloadavg()[0], 1))  # fmt: skip


def heading(figures):
    """The line above the table: the machine, and the versions with the vectors that they use."""
    m = figures[0]
    versions = sorted({f"{figure['version']} ({figure['isa']})" for figure in figures if "version" in figure})
    return f"{m['machine']} ({m['vectors']}), {m['cores']} cores; {'; '.join(versions)}."


def chosen(workloads, wanted):
    """The names of the wanted workloads, given by name or prefix; all if none is given."""
    names = [w.name for w in workloads]
    found = {want: [name for name in names if name == want] or [name for name in names if name.startswith(want)]
             for want in wanted}  # fmt: skip
    for want, matches in found.items():
        if not matches:
            raise SystemExit(f"bench: no workload `{want}`; there are {', '.join(names)}")
    return [name for name in names if not wanted or any(name in matches for matches in found.values())]


def recorded(name, build, measure, tables):
    """Calls measure(report). Each reported figure goes to standard output and into the results; the tables follow."""
    if not os.path.exists(os.path.join(build, "bench-libbetty")):
        raise SystemExit(f"bench: {build}/bench-libbetty is missing: ./dev build makes it")
    os.makedirs(RESULTS, exist_ok=True)
    figures = []
    with open(os.path.join(RESULTS, f"{name}.jsonl"), "w") as file:

        def report(**figure):
            figures.append(figure)
            line = json.dumps(figure)
            print(line, flush=True)
            print(line, file=file, flush=True)

        results = measure(report)
    text = tables(results, figures)
    with open(os.path.join(RESULTS, f"{name}.md"), "w") as file:
        file.write(text + "\n")
    print(text)
    return results


def main():
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="libbetty-bench-") as folder:
        names = chosen(all_workloads(args.build, folder, 1), args.workload)
        if args.list:
            print("\n".join(names))
            return 0
        tables = lambda results, figures: f"{heading(figures)}\n\n{table(results)}\n\n{memory_table(figures)}"
        results = recorded("speed", args.build, lambda report: measure_all(args, folder, names, report), tables)
    return 0 if all(times for _, _, times in results) else 1


def compare_isa(build, report):
    """Kernels that are slower than those of the next narrower instruction set."""
    command = [os.path.join(build, "bench-kernels"), "--compare-isa"]
    if not os.path.exists(command[0]):
        return
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()
    for line in lines:
        if line.endswith("SLOWER"):
            print(f"bench: warning: {' '.join(line.split())}", file=sys.stderr)
    if lines:
        report(kernels=lines[-1])


def measure_all(args, folder, names, report):
    report(**machine())
    if not args.quick:
        compare_isa(args.build, report)
    for workload in all_workloads(args.build, folder, 1):
        if workload.name in names and not os.path.exists(workload.folder):
            os.makedirs(workload.folder)
            workload.make(workload.folder)
    results = []
    for threads in args.threads:
        if threads > len(os.sched_getaffinity(0)):
            print(f"bench: {threads} threads are left out: there are fewer processors", file=sys.stderr)
            continue
        for workload in all_workloads(args.build, folder, threads):
            if workload.name in names and not (workload.one_thread and threads > 1):
                results.append((workload, threads, run(workload, args, threads, report)))
    return results


if __name__ == "__main__":
    sys.exit(main())
