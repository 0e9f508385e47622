"""Measures libbetty beside Betty, PyTorch and JAX, each in a process of its own, in turn, again and again, on the same cores.

Each figure is a line of JSON on standard output; a table in Markdown with the ratios comes last. Exit 1 if the sides do
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

from workloads import HERE, all_workloads

RESULTS = os.path.join(HERE, "results")


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("workload", nargs="*", help="names, or their beginnings (mwn, logistic-cg); none: all")
    parser.add_argument("--quick", action="store_true", help="three short rounds on one thread")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, by commas")
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each side, in turn with the others")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a measurement")
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build"), help="where bench-libbetty is")
    parser.add_argument("--list", action="store_true", help="only name the workloads")
    args = parser.parse_args()
    if args.quick:
        args.threads, args.rounds, args.seconds = "1", 3, 0.1
    args.threads = [int(n) for n in args.threads.split(",")]
    return args


# ---- one side ----


class Process:
    """A side of a workload, waiting for questions."""

    def __init__(self, side, threads):
        self.side, self.stderr = side, tempfile.TemporaryFile("w+")
        cores = sorted(os.sched_getaffinity(0))[:threads]
        variables = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        self.process = subprocess.Popen(
            side.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            text=True,
            env={**os.environ, **variables, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""},
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        self.version = self.answer()["ready"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.stderr.seek(0)
            raise SystemExit(f"bench: {' '.join(self.side.command)} failed:\n{self.stderr.read()[-3000:]}")
        return json.loads(line)

    def ask(self, question):
        try:
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: answer() says why
        return self.answer()

    def milliseconds(self, steps):
        return self.ask(f"steps {steps}")["ms"]

    def resident_mb(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 / 1e6 for line in status if line.startswith("VmRSS"))

    def close(self):
        try:
            self.process.stdin.close()  # the end of its input ends it
        except BrokenPipeError:
            pass
        self.process.wait()
        self.process.stdout.close()
        self.stderr.close()


# ---- do all sides compute the same thing? ----


PATH_TOLERANCE = 5e-3  # of the way that the parameters have come


def distance(a, b, start):
    """Between two sides' (upper) parameters, as a share of how far they have come from where they began."""
    return math.dist(a, b) / max(math.dist(b, start), 1e-30)


def check(workload, processes, threads, report):
    """Sides with the same second-order product begin at the same loss and parameters, and after the same steps
    stand at the same ones again. Each is compared with the first of its product, which is libbetty."""
    states = [[p.ask("state")] for p in processes]
    for p, state in zip(processes, states):
        p.milliseconds(workload.check)
        state.append(p.ask("state"))
    good, first = True, {}
    for p, (begun, now) in zip(processes, states):
        if p.side.product not in first:
            first[p.side.product] = (p, begun, now)
            continue
        other, other_begun, other_now = first[p.side.product]
        start_error = abs(begun["loss"] / other_begun["loss"] - 1)
        loss_error = abs(now["loss"] / other_now["loss"] - 1)
        path_error = distance(now["params"], other_now["params"], other_begun["params"])
        same = start_error < 1e-4 and loss_error < workload.loss_tolerance and path_error < PATH_TOLERANCE
        good = good and same
        report(workload=workload.name, threads=threads, check=f"{p.side.name} = {other.side.name}", same=same,
               steps=workload.check, loss=now["loss"], start_differs=start_error,
               loss_differs=loss_error, path_differs=path_error)  # fmt: skip
    return good


# ---- measuring ----


def steps_for(process, seconds, block):
    """How many steps, a multiple of the block, take about so long; warms up as well."""
    steps = block
    while True:
        taken = process.milliseconds(steps) / 1e3
        if taken > 0.3 * seconds:
            break
        steps *= 2 if taken < 1e-9 else max(2, min(10, int(0.5 * seconds / taken)))
    return max(block, round(steps * seconds / taken / block) * block)


def measure(workload, processes, args, threads, report):
    """Milliseconds per step of each side in each round."""
    steps = [steps_for(p, args.seconds, workload.block) for p in processes]
    times = {p.side.name: [] for p in processes}
    for _ in range(args.rounds):
        for p, n in zip(processes, steps):
            times[p.side.name].append(p.milliseconds(n) / n)
    for p, n in zip(processes, steps):
        each = times[p.side.name]
        report(workload=workload.name, threads=threads, side=p.side.name, ms_per_step=statistics.median(each),
               low=min(each), high=max(each), rounds=len(each), steps_per_round=n,
               resident_mb=round(p.resident_mb()), tensor_bytes=p.ask("memory")["tensor_bytes"],
               version=p.version)  # fmt: skip
    return times


def run(workload, args, threads, report):
    """The times of all sides, or None if they do not compute the same thing."""
    processes = []
    try:
        for side in workload.sides:
            processes.append(Process(side, threads))
            if len(processes) == 1:  # the others begin where it begins, and use its order of the batches
                processes[0].ask(f"export {workload.batches}")
        if not check(workload, processes, threads, report):
            return None
        return measure(workload, processes, args, threads, report)
    finally:
        for p in processes:
            p.close()


# ---- the table ----


def digits(x):
    """Three of them."""
    return f"{x:.{max(0, 2 - math.floor(math.log10(x)))}f}" if x > 0 else "0"


def duration(times):
    ms, spread = statistics.median(times), (max(times) - min(times)) / 2
    unit, factor = ("us", 1e3) if ms < 0.1 else ("ms", 1)
    return f"{digits(ms * factor)} ±{100 * spread / ms:.0f}% {unit}"


def ratio(times, name, ours):
    """The median of the rounds' ratios: what disturbs the machine for a while disturbs both sides."""
    if name not in times:
        return "–"
    return f"{digits(statistics.median(b / a for a, b in zip(times[ours], times[name])))}x"


def fastest(workload, times):
    """By column: several programs of the same library may compete."""
    columns = {}
    for side in workload.sides:
        best = columns.get(side.column or side.name)
        if best is None or statistics.median(times[side.name]) < statistics.median(best):
            columns[side.column or side.name] = times[side.name]
    return columns


def row(title, threads, times, ours, names):
    cells = [title, str(threads), duration(times[ours])]
    cells += [duration(times[name]) if name in times else "–" for name in names]
    cells += [f"**{ratio(times, name, ours)}**" if name in times else "–" for name in names]
    return f"| {' | '.join(cells)} |"


def table(results):
    names = ("betty", "torch", "jax", "jax-scan")
    lines = ["| a step of | threads | libbetty | Betty | PyTorch | JAX, a call a step | JAX, scanned | Betty / libbetty "
             "| PyTorch / libbetty | JAX / libbetty | scanned / libbetty |",
             "|" + "---|" * 11]  # fmt: skip
    for workload, threads, times in results:
        if times is None:
            lines.append(f"| {workload.title} | {threads} |" + " differs |" * 9)
            continue
        lines.append(row(workload.title, threads, fastest(workload, times), "libbetty", names))
        if "libbetty-finite" in times:
            only_betty = {name: times[name] for name in ("libbetty-finite", "betty")}
            title = "the same, Betty's finite difference in both"
            lines.append(row(title, threads, only_betty, "libbetty-finite", names))
    return "\n".join(lines)


def memory_table(figures):
    """Of the sides that know it: the peak of what they hold besides the data set, and of the whole process."""
    lines = ["| memory of | side | tensors | resident process |", "|---|---|---|---|"]
    for figure in figures:
        if figure.get("tensor_bytes") and figure["threads"] == 1 and figure["workload"].startswith(("mwn", "maml", "resnet", "convnet")):
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
    """The machine and the versions, for above the table."""
    m = figures[0]
    versions = sorted({figure["version"] for figure in figures if "version" in figure})
    return f"{m['machine']} ({m['vectors']}), {m['cores']} cores; {'; '.join(versions)}."


def chosen(workloads, wanted):
    """The names of those wanted, each by its name or by how names begin; all if nothing is."""
    names = [w.name for w in workloads]
    found = {want: [name for name in names if name == want] or [name for name in names if name.startswith(want)]
             for want in wanted}  # fmt: skip
    for want, matches in found.items():
        if not matches:
            raise SystemExit(f"bench: no workload `{want}`; there are {', '.join(names)}")
    return [name for name in names if not wanted or any(name in matches for matches in found.values())]


def main():
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="libbetty-bench-") as folder:
        names = chosen(all_workloads(args.build, folder, 1), args.workload)
        if args.list:
            print("\n".join(names))
            return 0
        if not os.path.exists(os.path.join(args.build, "bench-libbetty")):
            raise SystemExit(f"bench: {args.build}/bench-libbetty is missing: ./dev build makes it")
        os.makedirs(RESULTS, exist_ok=True)
        figures = []
        with open(os.path.join(RESULTS, "speed.jsonl"), "w") as file:

            def report(**figure):
                figures.append(figure)
                line = json.dumps(figure)
                print(line, flush=True)
                print(line, file=file)

            results = measure_all(args, folder, names, report)
        text = f"{heading(figures)}\n\n{table(results)}\n\n{memory_table(figures)}"
        with open(os.path.join(RESULTS, "speed.md"), "w") as file:
            file.write(text + "\n")
        print(text)
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
            if workload.name in names:
                results.append((workload, threads, run(workload, args, threads, report)))
    return results


if __name__ == "__main__":
    sys.exit(main())
