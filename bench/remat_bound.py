#!/usr/bin/env python3
"""A lower bound on the work that must be recomputed within a budget of bytes, next to what the library's search finds.

    ~/.cache/libbetty/peers/bin/python bench/remat_bound.py

The bound is the linear relaxation of Checkmate's integer programme (Jain et al. 2020) in its form of stages: stage t
computes step t for the first time, and any fraction of earlier steps again. Some inequalities are added, and HiGHS
solves it (pip install highspy); it takes minutes. Small values, and those read soon after, only take bytes in the steps
that touch them, and are available for free, which only lowers the bound. It holds for the order of steps that the
search chose. The exit code is 1 if a bound is above what was found, or the gap is wider than it should be.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import highspy
import numpy

from planned import RESNET, blank_images

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
CUTS = 24  # stages with additional inequalities
SMALL, SHORT = 500, 50  # values below this fraction of the peak, or read within this fraction of the steps
GAPS = {0.5: 0.10, 0.25: 0.20}  # of a step's work, by budget as a fraction of the peak without recomputation
PROGRAMS = {
    "ResNet-32, train step": ["examples/reweight_cifar.ini", "classifier", "gradient", RESNET],
    "perceptron, 20 layers with norms": ["bench/problems/deep.ini", "deep", "gradient", []],
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where bench-remat is")
    parser.add_argument("names", nargs="*", help="words of the programs; none: all")
    return parser.parse_args()


class Programme:
    """A linear programme, row by row. Variables are numbers; None is the constant 1."""

    def __init__(self):
        self.cost, self.upper, self.rows = [], [], []

    def variable(self, upper=1.0, cost=0.0):
        self.cost.append(cost)
        self.upper.append(upper)
        return len(self.cost) - 1

    def at_most(self, terms, bound):
        """The sum of factor times variable, over (variable, factor), is at most the bound."""
        whole = {}
        for variable, factor in terms:
            if variable is None:
                bound -= factor
            else:
                whole[variable] = whole.get(variable, 0.0) + factor
        self.rows.append((whole, -highspy.kHighsInf, bound))

    def equal(self, terms, value):
        self.at_most(terms, value)
        whole, _, bound = self.rows[-1]
        self.rows[-1] = (whole, bound, bound)

    def least(self):
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.rows)
        lp.col_cost_, lp.col_upper_ = numpy.array(self.cost), numpy.array(self.upper)
        lp.col_lower_ = numpy.zeros(len(self.cost))
        lp.row_lower_, lp.row_upper_ = (numpy.array([row[i] for row in self.rows]) for i in (1, 2))
        matrix = lp.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.start_ = numpy.cumsum([0] + [len(row[0]) for row in self.rows])
        matrix.index_ = numpy.array([v for row in self.rows for v in row[0]])
        matrix.value_ = numpy.array([f for row in self.rows for f in row[0].values()])
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", bool(os.environ.get("HIGHS_LOG")))
        solver.setOptionValue("solver", "ipm")
        solver.setOptionValue("run_crossover", "off")
        solver.passModel(lp)
        solver.run()
        status = solver.modelStatusToString(solver.getModelStatus())
        return solver.getInfo().objective_function_value if status == "Optimal" else None, status


class Graph:
    """A program's arrays in a given order of steps. free: the values whose recomputation is allowed and matters,
    because they are large and live long, and the values that these are computed from. Bytes and costs are fractions of
    the total."""

    def __init__(self, arrays, order):
        self.steps = steps = [arrays["steps"][s] for s in order]
        total, most = sum(step[0] for step in steps if step[0] > 0), arrays["bytes"]
        self.values = [(size / most, there, kept) for size, there, kept in arrays["values"]]
        self.maker = {v: s for s, step in enumerate(steps) for v in step[3]}
        self.last = {v: s for s, step in enumerate(steps) for v in step[2] + step[3]}
        self.cost = [step[0] / total for step in steps]
        self.scratch = [step[1] / most for step in steps]
        free = {v for v, s in self.maker.items() if steps[s][0] >= 0 and not any(self.values[v][1:])}
        large = {v for v in free if self.values[v][0] >= 1 / SMALL}
        self.free = {v for v in large if self.last[v] - self.maker[v] > len(steps) / SHORT}
        new = self.free
        while new := {v for made in new for v in steps[self.maker[made]][2]} & large - self.free:
            self.free |= new
        self.others = free - self.free  # count in steps that touch them; all others are in `fixed`
        change = [0.0] * (len(steps) + 1)
        for v, (size, there, kept) in enumerate(self.values):
            if v not in free and v in self.last:
                change[0 if there or v not in self.maker else self.maker[v]] += size
                change[len(steps) if kept else self.last[v] + 1] -= size
        self.fixed = list(numpy.cumsum(change))
        self.touch = [bool(self.free & set(step[2] + step[3])) for step in steps]
        self.again = [bool(self.free & set(step[3])) for step in steps]

    def reads(self, k):
        return [v for v in self.steps[k][2] if v in self.free]

    def makes(self, k):
        return [v for v in self.steps[k][3] if v in self.free]

    def own(self, k, first):
        """Bytes that the step needs besides `free` and `fixed`; results that may overwrite an operand are left out."""
        over = {o for o, v in self.steps[k][4] if v in self.maker and not (o in self.free and v in self.free)}
        made = [v for v in self.steps[k][3] if v not in over and (not first or v in self.free | self.others)]
        read = [v for v in self.steps[k][2] if v in self.others]
        taken = sum(self.values[o][0] for o in over if first and o not in self.free | self.others)  # already in `fixed`
        return sum(self.values[v][0] for v in made + read) + self.scratch[k] - taken


def run_step(p, g, t, k, run, held, used, budget):
    """Step k in stage t: held[v] is the fraction of v that exists, `used` the bytes of all that is held."""
    before = {v: held.get(v) for v in g.reads(k) + g.makes(k)}
    for v in g.reads(k):
        p.at_most([(run, 1.0), (before[v], -1.0)], 0.0)
        held[v] = p.variable()
        p.at_most([(held[v], 1.0), (before[v], -1.0)], 0.0)
    room = [(used, 1.0), (run, g.own(k, k == t))]
    for output in g.makes(k):  # it overwrites an operand that exists before the step but not after it
        operands = [v for o, v in g.steps[k][4] if o == output and v in g.free]
        if operands:
            over = p.variable()
            p.at_most([(over, 1.0), (run, -1.0)], 0.0)
            p.at_most([(over, 1.0)] + [(held[v], 1.0) for v in operands] + [(before[v], -1.0) for v in operands], 0.0)
            room.append((over, -g.values[output][0]))
    p.at_most(room, budget - g.fixed[t])
    for v in g.makes(k):
        held[v] = p.variable()
        p.at_most([(held[v], 1.0), (run, -1.0)] + ([(before[v], -1.0)] if k < t else []), 0.0)
    then = p.variable(upper=budget)
    change = [(held[v], g.values[v][0]) for v in before]
    change += [(b, -g.values[v][0]) for v, b in before.items() if b is not None]
    p.equal([(used, 1.0), (then, -1.0)] + change, 0.0)
    return then


def cut(p, g, stages, runs):
    """A value that is needed from a stage on either exists at its beginning or is recomputed, and then the same holds
    for its operands. Without these inequalities a small fraction of its operands could produce a value many times."""
    steps, later, behind = [k for k, again in enumerate(g.again) if again], {}, []
    for number, t in reversed(list(enumerate(stages))):
        behind.append(t)
        if number % (len(stages) // CUTS + 1):
            continue
        for k in steps:
            if k < t:  # the sum of all recomputations from this stage on
                total = p.variable(upper=highspy.kHighsInf)
                terms = [(runs[b, k], -1.0) for b in behind] + ([(later[k], -1.0)] if k in later else [])
                p.at_most([(total, 1.0)] + terms, 0.0)
                later[k] = total
        behind = []
        again = {v: p.variable() for v in stages[t]}
        for v, part in again.items():
            p.at_most([(part, 1.0), (later[g.maker[v]], -1.0)], 0.0)
            for operand in g.reads(g.maker[v]):
                p.at_most([(part, 1.0), (stages[t][operand], -1.0), (again[operand], -1.0)], 0.0)
            if g.last[v] >= t:
                p.at_most([(part, -1.0), (stages[t][v], -1.0)], -1.0)


def bound(arrays, found, budget):
    """The least work that must be redone, as a fraction of the total, and the solver's status."""
    g, p = Graph(arrays, found["order"]), Programme()
    held, used, stages, runs = {}, p.variable(upper=0.0), {}, {}
    for t in range(len(g.steps)):
        if not g.touch[t]:
            p.at_most([(used, 1.0)], budget - g.fixed[t] - g.own(t, True))
            continue
        stages[t] = dict(held)
        for k in range(t + 1):
            if k == t or g.again[k]:
                run = None if k == t else p.variable(cost=g.cost[k])
                used = run_step(p, g, t, k, run, held, used, budget)
                runs[t, k] = run
    cut(p, g, stages, runs)
    least, status = p.least()
    return least, status, len(stages), len(p.rows)


def export(build, program, parts, folder):
    ini, level, name, settings = program
    command = [os.path.join(build, "bench-remat"), os.path.join(ROOT, ini), level, name, ",".join(map(str, parts))]
    environment = {"BETTY_DATA": folder, **os.environ}
    return json.loads(subprocess.run(command + settings, stdout=subprocess.PIPE, check=True, env=environment).stdout)


def main():
    args, wrong = arguments(), 0
    print("| program | budget | work done again, found | at least | gap | |\n|---|---|---|---|---|---|")
    for title, program in PROGRAMS.items():
        if args.names and not any(word in title for word in args.names):
            continue
        with tempfile.TemporaryDirectory(prefix="libbetty-bound-") as folder:
            blank_images(folder)
            arrays = export(args.build, program, GAPS, folder)
        for (part, most), found in zip(GAPS.items(), arrays["found"]):
            start = time.time()
            least, status, steps, rows = bound(arrays, found, part)
            note = f"{steps} steps, {rows} rows, {time.time() - start:.0f} s"
            if least is None or found["bytes"] > found["budget"]:
                print(f"| {title} | {part:.0%} | {found['extra']:.1%} | | | {status}, {note} |", flush=True)
                wrong += 1
                continue
            gap = found["extra"] - least
            wrong += gap > most or gap < -1e-6
            print(f"| {title} | {part:.0%} | {found['extra']:.1%} | {least:.1%} | {gap:.1%} | {note} |", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
