"""Measures bytes and time of libbetty with each memory setting, next to PyTorch and JAX with what their users do by
hand. Each side has its own process, on one core. Exit 1 if the sides do not compute the same thing.

The times come first, alternating; then the bytes, in a fresh process for each side. Each figure is a line of JSON on
standard output; a Markdown table for each workload comes last. --quick leaves out some rows and the check in double
precision.
"""
import argparse
import os
import statistics
import sys
import tempfile

import run
from memory_workloads import memory_workloads, own, program, setting

# In the processes that count bytes, each tensor is its own mapping, which returns to the system when it is freed.
# That takes time, so the timed processes do without.
RETURNED = dict(MALLOC_MMAP_THRESHOLD_="65536", MALLOC_TRIM_THRESHOLD_="65536")


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench memory", description=__doc__)
    parser.add_argument("workload", nargs="*", help="names, or their beginnings; none: all")
    parser.add_argument("--quick", action="store_true", help="one or two rounds, of the rows that tell most")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each side, in turn with the others")
    parser.add_argument("--build", default=os.path.join(run.HERE, "..", "build"), help="where bench-libbetty is")
    parser.add_argument("--list", action="store_true", help="only name the workloads and their rows")
    return parser.parse_args()


# ---- times ----


def timed(workload, rounds, report):
    """Milliseconds per step of each side, by name, in each round; None if they do not compute the same thing."""
    processes = run.started(workload, 1)
    try:
        if not run.check(workload, processes, workload.check, (workload.loss, workload.path), report):
            return None
        times = {p.side.name: [] for p in processes}
        for _ in range(rounds):
            for p in processes:
                times[p.side.name].append(p.milliseconds(1))
        return times
    finally:
        run.close(processes)


# ---- bytes ----


def counted(side):
    """The bytes of a side's tensors as it reports them, and the peak growth of its resident memory in a step.

    When they count bytes, PyTorch has already taken a step, and JAX has compiled. What they keep of that is not
    counted, nor is what persists for the whole run. For libbetty everything but the data set is counted: it allocates
    its arena before the first step.
    """
    p = run.Process(side, side.command, 1, **RETURNED)
    try:
        memory = p.ask("memory")
        if not own(side):
            p.ask("trim")
        with open(f"/proc/{p.process.pid}/clear_refs", "w") as file:
            file.write("5")  # resets the peak
        before = memory.get("resident_before", p.status_bytes("VmRSS"))
        p.milliseconds(1)
        return dict(tensor_bytes=memory["tensor_bytes"], grown_bytes=p.status_bytes("VmHWM") - before, version=p.version, isa=p.isa)
    finally:
        p.close()


def measured(workload, args, report):
    """A figure for each side, or None."""
    if not args.quick and not run.check_double(workload, 1, report):
        return None
    times, figures = timed(workload, min(args.rounds, workload.rounds), report), []
    for side in workload.sides if times else ():
        each = times[side.name]
        figures.append(dict(workload=workload.name, side=side.name, ms_per_step=statistics.median(each), low=min(each),
                            high=max(each), times=each, **counted(side)))  # fmt: skip
        report(**figures[-1])
    return figures or None


# ---- the tables ----


def megabytes(count):
    return f"{count / 1e6:.1f} MB"


def times_as_much(figure, base, spread=True):
    """The median of the rounds' ratios, and half their range."""
    ratios = [a / b for a, b in zip(figure["times"], base["times"])]
    return f"{statistics.median(ratios):.2f}x" + (f" ±{(max(ratios) - min(ratios)) / 2:.2f}" if spread else "")


def table(workload, figures):
    """Each row also has the ratios to its program's first row and to PyTorch's first row."""
    lines = [f"**{workload.title}**", ""]
    if not figures:
        return "\n".join(lines + ["The sides differ."])
    first = {}
    for side, figure in zip(workload.sides, figures):
        first.setdefault(program(side), figure)
    peer = first.get("PyTorch")
    beside = lambda cells: cells if peer else [cell for k, cell in enumerate(cells) if k not in (4, 8)]
    titles = ["program", "setting", "tensors", "of its first", "of PyTorch's", "resident", "time", "of its first", "of PyTorch's"]
    lines += [f"| {' | '.join(beside(titles))} |", "|" + "---|" * len(beside(titles))]
    for side, figure in zip(workload.sides, figures):
        base = first[program(side)]
        share = lambda base: f"{figure['tensor_bytes'] / base['tensor_bytes']:.2f}x"
        cells = [program(side), setting(side), megabytes(figure["tensor_bytes"]), share(base), share(peer or base),
                 megabytes(figure["grown_bytes"]), run.length(figure["ms_per_step"]), times_as_much(figure, base),
                 times_as_much(figure, peer or base)]  # fmt: skip
        lines.append(f"| {' | '.join(beside(cells))} |")
    return "\n".join(lines)


def measure_all(args, workloads, report):
    report(**run.machine())
    for workload in workloads:
        if not os.path.exists(workload.folder):
            os.makedirs(workload.folder)
            workload.make(workload.folder)
    return [(workload, measured(workload, args, report)) for workload in workloads]


def main():
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="libbetty-bench-") as folder:
        os.environ.update(JAX_COMPILATION_CACHE_DIR=os.path.join(folder, "jax"),  # compile each program only once
                          JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")  # fmt: skip
        workloads = memory_workloads(args.build, folder, args.quick)
        names = run.chosen(workloads, args.workload)
        workloads = [workload for workload in workloads if workload.name in names]
        if args.list:
            print("\n".join(f"{w.name}: {'; '.join(side.name for side in w.sides)}" for w in workloads))
            return 0
        results = run.recorded("memory", args.build, lambda report: measure_all(args, workloads, report), tables)
    return 0 if all(figures for _, figures in results) else 1


def tables(results, figures):
    return f"{run.heading(figures)}\n\n" + "\n\n".join(table(*each) for each in results)


if __name__ == "__main__":
    sys.exit(main())
