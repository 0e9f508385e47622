"""What the Python programs of the bench share: arguments, and the questions they answer (README.md lists them)."""
import argparse
import itertools
import json
import sys
import time

import numpy as np

import data

answers, sys.stdout = sys.stdout, sys.stderr  # what the libraries print goes elsewhere


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--method", default="darts", choices=("darts", "cg"))
    parser.add_argument("--unroll", type=int, default=1, help="lower steps to one upper step")
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--lr", type=float, default=1e-4, help="of the weight net")
    parser.add_argument("--ways", type=int, default=5)
    parser.add_argument("--eps", type=float, default=1e-8, help="of Adam in MAML")
    parser.add_argument("--tasks", default="loop", choices=("loop", "func", "vmap", "map"), help="of a step of MAML")
    parser.add_argument("--depth", type=int, default=0, help="of a residual network; 0: a perceptron")
    parser.add_argument("--layout", default="first", choices=("first", "last"), help="of PyTorch's images")
    parser.add_argument("--blocks", type=int, default=0, help="of a few-shot ConvNet; 0: a perceptron")
    parser.add_argument("--scan", type=int, default=0, help="JAX: upper steps in one jitted call")
    return parser.parse_args()


def orders(folder):
    """Endless batches, as rows of the lower and of the upper data: those that libbetty's loader draws."""
    lower, upper = (data.read(folder, f"{name}_order", (-1, data.BATCH)) for name in ("train", "meta"))
    return itertools.cycle(lower), itertools.cycle(upper)


def few_shot_tasks(folder, ways):
    """The images to adapt with and those to judge by, [steps, META_BATCH, n, PIXELS], and the labels of both."""
    shape = lambda each: (-1, data.META_BATCH, each * ways, data.PIXELS)
    images = [data.read(folder, f"{part}_x", shape(each)) for part, each in (("support", 1), ("query", data.QUERIES))]
    return *images, np.arange(ways), np.arange(ways).repeat(data.QUERIES)


def torch_peak_bytes(run):
    """The most that PyTorch's allocator gives out while run() goes on (scratch within kernels is not in it)."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as record:
        run()
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


def serve(version, steps, state, tensor_bytes=lambda: None):
    """steps(n) takes n (lower) steps, and is done when it returns; state() is the (upper) loss over all its data, and
    the (upper) parameters; tensor_bytes() is the peak of what it holds besides the data set, None: unknown."""
    answer = lambda **fields: print(json.dumps(fields), file=answers, flush=True)
    answer(ready=version)
    for line in sys.stdin:
        question, *number = line.split()
        if question == "steps":
            start = time.perf_counter()
            steps(int(number[0]))
            answer(ms=1e3 * (time.perf_counter() - start))
        elif question == "state":
            loss, params = state()
            answer(loss=float(loss), params=[float(p) for p in params])
        elif question == "memory":
            answer(tensor_bytes=tensor_bytes())
        else:
            raise SystemExit(f"not understood: {line}")
