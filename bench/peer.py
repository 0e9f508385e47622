"""Shared by the Python programs of the bench: arguments, and the questions they answer (README.md lists them)."""
import argparse
import ctypes
import gc
import itertools
import json
import os
import sys
import time

import numpy as np

import data
import isa

answers, sys.stdout = sys.stdout, sys.stderr  # the output of libraries goes to stderr


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
    parser.add_argument("--eps", type=float, default=1e-8, help="of Adam in MAML and DARTS")
    parser.add_argument("--tasks", default="loop", choices=("loop", "func", "vmap", "map"), help="of a step of MAML")
    parser.add_argument("--depth", type=int, default=0, help="of a residual network; 0: a perceptron")
    parser.add_argument("--layout", default="first", choices=("first", "last"), help="of PyTorch's images")
    parser.add_argument("--blocks", type=int, default=0, help="of a few-shot ConvNet; 0: a perceptron")
    parser.add_argument("--scan", type=int, default=0, help="JAX: upper steps in one jitted call")
    parser.add_argument("--inner", default="loop", choices=("loop", "scan"), help="JAX: the inner steps of MAML")
    parser.add_argument("--scheduler", default="time", choices=("time", "memory"), help="JAX: what XLA orders a program for")
    parser.add_argument("--layers", type=int, default=1, help="hidden ones of a perceptron")
    parser.add_argument("--network", default="resnet", choices=("resnet", "wrn", "unet", "deep"), help="of images")
    parser.add_argument("--product", default="finite", choices=("finite", "exact"), help="of second order")
    parser.add_argument("--checkpoint", default="none", choices=("none", "block", "convolutions", "step"), help="what is "
                        "computed again: blocks; all of them but convolutions; steps of an inner loop")  # fmt: skip
    parser.add_argument("--along", default="forward", choices=("backward", "forward"), help="how PyTorch differentiates "
                        "losses along a direction: backward twice, or forward")  # fmt: skip
    parser.add_argument("--graphs", default="held", choices=("held", "anew"), help="of PyTorch's gradients, for products")
    parser.add_argument("--cg", type=int, default=0, help="iterations of conjugate gradients")
    parser.add_argument("--damping", type=float, default=0, help="added to the diagonal of the Hessian there")
    parser.add_argument("--micro", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--chunks", type=int, default=1, help="slices of the rows of a head over many words")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate of the network")
    parser.add_argument("--decay", type=float, default=0, help="weight decay of the network")
    parser.add_argument("--dropout", type=float, default=0)
    parser.add_argument("--autocast", action="store_true", help="PyTorch: the network in bf16, but not with --double")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="where PyTorch computes")
    parser.add_argument("--double", action="store_true", help="float64, and plain gradient descent of rate 1 above: its "
                        "first step is the gradient")  # fmt: skip
    args = parser.parse_args()
    data.FLOAT = np.float64 if args.double else np.float32
    return args


def use_torch(args):
    import torch

    torch.set_num_threads(args.threads)
    torch.set_default_dtype(torch.float64 if args.double else torch.float32)
    if args.device == "cuda":
        use_gpu()
    return f"PyTorch {torch.__version__}", torch.backends.cpu.get_cpu_capability()


def use_gpu():
    """From now on PyTorch's tensors are on the device; float32 is float32, not TF32."""
    global settle
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("PyTorch has no GPU here")
    torch.set_default_device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    settle = torch.cuda.synchronize


def settle():
    """Waits for the work in progress; on the processor there is none."""


def tensor(array):
    """A PyTorch tensor from a NumPy array, on the device that computes."""
    import torch

    return torch.from_numpy(array).to(torch.get_default_device())


def use_jax(args):
    import jax

    flags = ["--xla_cpu_enable_concurrency_optimized_scheduler=false"] if args.scheduler == "memory" else []
    if args.checkpoint != "none":  # or XLA merges recomputed values with the first computation
        flags.append("--xla_disable_hlo_passes=cse")
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags])
    isa.hold_jax()
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # faster if each step waits for the previous one
    jax.config.update("jax_enable_x64", args.double)
    return f"JAX {jax.__version__}", isa.held_to() or "whatever there is"


def orders(args):
    """Endless batches, as rows of the lower and of the upper data: those that libbetty's loader draws."""
    lower, upper = (data.read(args.folder, f"{name}_order", (-1, args.batch)) for name in ("train", "meta"))
    return itertools.cycle(lower), itertools.cycle(upper)


def few_shot_tasks(folder, ways):
    """The images to adapt with and those to evaluate on, [steps, META_BATCH, n, PIXELS], and the labels of both."""
    shape = lambda each: (-1, data.META_BATCH, each * ways, data.PIXELS)
    images = [data.read(folder, f"{part}_x", shape(each)) for part, each in (("support", 1), ("query", data.QUERIES))]
    return *images, np.arange(ways), np.arange(ways).repeat(data.QUERIES)


def trim():
    """Returns free memory to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def torch_peak_bytes(run):
    """The peak of PyTorch's allocator during run(); scratch inside kernels is not included."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as record:
        run()
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


def jax_bytes(compiled, *data_set):
    """XLA's report for a call: arguments, results and temporaries; shared memory counts once."""
    m = compiled.memory_analysis()
    every = m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes
    return every - m.alias_size_in_bytes - sum(a.nbytes for a in data_set)


def serve(program, steps, state, tensor_bytes=lambda: None):
    """program: what use_torch or use_jax returned. steps(n) takes n (lower) steps, and has finished when it returns;
    state() is the (upper) loss over all its data, and the (upper) parameters; tensor_bytes() is the peak of all tensors
    except the data set, or None if unknown."""
    answer = lambda **fields: print(json.dumps(fields), file=answers, flush=True)
    version, vectors = program
    answer(ready=version, isa=vectors)
    for line in sys.stdin:
        question, *number = line.split()
        if question == "steps":
            start = time.perf_counter()
            steps(int(number[0]))
            settle()
            answer(ms=1e3 * (time.perf_counter() - start))
        elif question == "state":
            loss, params = state()
            answer(loss=float(loss), params=[float(p) for p in params])
        elif question == "memory":
            answer(tensor_bytes=tensor_bytes())
        elif question == "trim":
            trim()
            answer()
        else:
            raise SystemExit(f"not understood: {line}")
