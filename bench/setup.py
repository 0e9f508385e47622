#!/usr/bin/env python3
"""How the time of set-up grows with the size of a graph or a hierarchy: seconds of a core, from reading the files to
the plan. Doubling a size may take at most 2.3 times as long.

Needs ./dev build. Prints a table. Each case runs twice, because the first run compiles the problems' files.
"""
import argparse
import os
import resource
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
LISTED = 16  # problems in the record of a file, BT_MAX_ITEMS

LEVEL = """
static bt_tensor *step_{i}(bt_problem *self, const bt_batch *batch)
{{
    (void)batch;
    bt_tensor *loss = bt_square(bt_sub(bt_forward(self), 1));
    {above}{below}return loss;
}}
static const bt_problem_def p{i} = {{
    .name = "p{i}", .get_batch = nothing, .configure_module = number, .training_step = step_{i}}};
"""
CHAIN = """#include <betty/betty.h>
static bt_status nothing(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    const float one = 1;
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "one", BT_ARRAY(&one, 1));
}
static bt_module *number(bt_problem *self)
{
    (void)self;
    return (bt_nn_parameter)(bt_init_constant(0), (const int64_t[]){BT_END});
}
"""


def lines(key, items, count=50):
    """A comma-separated list that is longer than a line of an INI file may be."""
    starts = range(0, len(items), count)
    return "".join(f"{key}{f'_{n + 1}' if n else ''} = {', '.join(items[s:s + count])}\n" for n, s in enumerate(starts))


def chain(folder, size):
    """p0 > p1 > ...; each loss reads the number above it and the one below it."""
    files = []
    for start in range(0, size, LISTED):
        levels = range(start, min(size, start + LISTED))
        files.append(os.path.join(folder, f"chain{size}_{start}.c"))
        with open(files[-1], "w") as file:
            file.write(CHAIN)
            for i in levels:
                term = 'loss = bt_add(loss, bt_square(bt_sub(bt_forward(self), bt_forward(bt_peer(self, "p{}")))));\n    '
                file.write(LEVEL.format(i=i, above=term.format(i - 1) if i else "",
                                        below=term.format(i + 1) if i + 1 < size else ""))
            file.write("BT_EXPORT(.problems = {" + ", ".join(f"&p{i}" for i in levels) + "});\n")
    u2l = lines("u2l", [f"p{i} > p{i + 1}" for i in range(size - 1)])
    l2u = lines("l2u", [f"p{i + 1} > p{i}" for i in range(size - 1)])
    text = f"[engine]\n{lines('problems', files, 12)}train_iters = 1\n[dependencies]\n{u2l}{l2u}"
    return text + "".join(f"[p{i}]\n" + ("type = darts\n" if i else "") for i in range(size))


def graph(settings, above=True):
    def ini(_, size):
        head = f"[engine]\nproblems = {os.path.join(HERE, 'problems', 'setup.c')}\ntrain_iters = 1\n"
        head += "" if above else "levels = lower\n"
        edges = "[dependencies]\nu2l = penalty > lower\nl2u = lower > penalty\n" if above else ""
        lower = f"[lower]\nsize = {size}\noptimizer = sgd\n" + "".join(f"{s}\n" for s in settings)
        return head + edges + lower + ("" if above else "penalised = false\n")
    return ini


def batches(folder, size):
    settings = ["type = darts", "product_batches = all", f"gradient_accumulation = {size}"]
    return graph(settings)(folder, size).replace(f"size = {size}\n", "size = 2\n", 1)


def darts(method):
    """examples/darts_cell.ini with 16 filters, on batches of 16 made-up images in CIFAR-10's format, none of them short."""
    def ini(folder, size):
        data = os.path.join(folder, "cifar-10-batches-bin")
        os.makedirs(data, exist_ok=True)
        for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
            with open(os.path.join(data, name + ".bin"), "wb") as file:
                file.write((bytes([1]) + bytes(range(256)) * 12) * 64)
        lower = f"type = {method}\noptimizer = sgd\nmomentum = 0.9\nbatch_size = 16\ndata = {data}\ncells = {size}\n"
        return (f"[engine]\nproblems = {os.path.join(ROOT, 'problems', 'darts_cell.c')}\ntrain_iters = 1\n"
                "[dependencies]\nu2l = arch > classifier\nl2u = classifier > arch\n"
                f"[arch]\noptimizer = adam\nbatch_size = 16\n[classifier]\n{lower}")
    return ini


ROWS = [
    ("layers of an MLP", graph([], above=False), [500, 1000, 2000, 4000]),
    ("with a penalty, `darts`", graph(["type = darts"]), [500, 1000, 2000, 4000]),
    ("with a penalty, `cg`", graph(["type = cg"]), [500, 1000, 2000, 4000]),
    ("with a penalty, `itd`, 10 steps", graph(["type = itd", "unroll_steps = 10"]), [125, 250, 500, 1000]),
    ("parameters of one number, with a penalty", graph(["type = darts", "wide = true"]), [1250, 2500, 5000, 10000]),
    ("micro-batches, `product_batches = all`", batches, [500, 1000, 2000, 4000]),
    ("levels of a chain", chain, [25, 50, 100, 200]),
    ("cells of the DARTS network", darts("darts"), [5, 10]),
    ("cells of the DARTS network, `cg`", darts("cg"), [5, 10]),
]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where betty-run is")
    parser.add_argument("--limit", type=float, default=60, help="seconds after which a run is given up")
    parser.add_argument("--shrink", type=int, default=1, help="divide all sizes by this")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the files there")
    parser.add_argument("rows", nargs="*", help="words of the rows to be measured; none: all")
    return parser.parse_args()


def seconds(args, folder, make, size):
    path = os.path.join(folder, f"{abs(hash((make, size)))}.ini" if not args.keep else f"{size}.ini")
    with open(path, "w") as file:
        file.write(make(folder, size))
    command = [os.path.join(args.build, "betty-run"), path, "--threads", "1"]
    try:
        for _ in range(2):
            before = used()
            subprocess.run([*command, "--plan"], check=True, stdout=subprocess.DEVNULL, timeout=args.limit)
            after = used()
    except subprocess.TimeoutExpired:
        return None
    return after - before


def used():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def main():
    args = arguments()
    print("| set-up of | sizes | seconds | twice the size |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="libbetty-setup-") as folder:
        for name, make, sizes in ROWS:
            if args.rows and not any(word in name for word in args.rows):
                continue
            times = []
            for size in sizes:
                times.append(seconds(args, args.keep or folder, make, max(2, size // args.shrink)))
                if times[-1] is None:
                    break
            cells = [f"{t:.2f}" if t is not None else f"over {args.limit:g}" for t in times]
            ratios = [f"{b / a:.1f}" for a, b in zip(times, times[1:]) if b is not None]
            shown = ", ".join(f"{max(2, size // args.shrink):,}" for size in sizes)
            print(f"| {name} | {shown} | {', '.join(cells)} | {', '.join(ratios)} |", flush=True)


main()
