"""Measures a workload on a CUDA device, for tools/gpu-check: libbetty there and on the processor, next to PyTorch and
JAX on the same card and Betty on the processor. Prints a line of JSON for each side.

--values: compares the results after the same steps. Otherwise: milliseconds per step, in alternating rounds. TF32 is
off on all sides. Programs that are not installed, or have no GPU, are left out.
"""
import argparse
import importlib.util
import json
import os
import statistics
import tempfile

import run
from workloads import all_workloads

THREADS = 4  # on the processor, for all sides
ROUNDS = 3
PEERS = {"torch": "torch", "torch-exact": "torch", "jax": "jax", "betty": "betty"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", help="its name: bench/workloads.py")
    parser.add_argument("--build", required=True, help="where bench-libbetty is")
    parser.add_argument("--values", action="store_true", help="compare numbers, not times")
    parser.add_argument("--seconds", type=float, default=0.3, help="of a measurement")
    return parser.parse_args()


def tell(**fields):
    print(json.dumps(fields), flush=True)


def commands(workload, values):
    """Name, product, command and variables of each side; libbetty's on the device is the first of its product."""
    library = {"LD_LIBRARY_PATH": os.environ.get("BENCH_LIBRARY_PATH", "")}
    for side in workload.sides:
        if side.name in ("libbetty", "libbetty-finite"):
            if side.name == "libbetty" or values:
                yield f"{side.name} on the device", side.product, [*side.command, "engine.device=cuda"], library
            if side.name == "libbetty" and not values:
                yield "libbetty on the processor", side.product, [*side.command, "engine.device=cpu"], library
        elif side.name in PEERS and (values or side.name != "betty"):
            gpu = ["--device=cuda"] if PEERS[side.name] == "torch" else []
            more = {"CUDA_VISIBLE_DEVICES": "0", "JAX_PLATFORMS": "cuda", "JAX_DEFAULT_MATMUL_PRECISION": "highest"}
            if side.name == "betty":
                more = {}
            yield side.name, side.product, [*side.command, *gpu], more


def start(name, product, command, more):
    """None if a peer cannot run here; libbetty must."""
    ours = name.startswith("libbetty")
    if not ours and not importlib.util.find_spec(PEERS[name]):
        tell(side=name, absent=f"{PEERS[name]} is not installed")
        return None
    gpu = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0")} if ours else {}
    try:
        process = run.Process(None, command, THREADS, **{**gpu, **more})
    except SystemExit as error:
        if ours:
            raise
        lines = str(error).strip().splitlines()
        tell(side=name, absent=next((line for line in reversed(lines) if "Error" in line), lines[-1]))
        return None
    process.name, process.product = name, product
    return process


def started(workload, values):
    processes = []
    for each in commands(workload, values):
        process = start(*each)
        if process and not processes:  # the others start from its values, and use its order of the batches
            process.ask(f"export {workload.batches}")
        if process:
            processes.append(process)
    return processes


def compare(workload, processes):
    """Compares each side with libbetty on the device, after the same steps."""
    first = {}
    for p in processes:
        start_, steps = p.ask("state"), workload.check or workload.block
        p.milliseconds(steps)
        end = p.ask("state")
        if p.product not in first:
            first[p.product] = end
            tell(side=p.name, version=p.version, loss=end["loss"], steps=steps)
            continue
        ours = first[p.product]
        loss = abs(ours["loss"] / end["loss"] - 1)
        path = run.distance(ours["params"], end["params"], start_["params"])
        wrong = not (loss < workload.loss and path < workload.path)
        tell(side=p.name, version=p.version, loss=end["loss"], steps=steps, loss_differs=loss, path_differs=path,
             differs=f"loss by {loss:.2g}, path by {path:.2g}" if wrong else None)


def measure(workload, processes, seconds):
    steps = {p.name: run.steps_for(p, seconds, workload.block) for p in processes}
    times = {p.name: [] for p in processes}
    for _ in range(ROUNDS):
        for p in processes:
            times[p.name].append(p.milliseconds(steps[p.name]) / steps[p.name])
    for p in processes:
        each = times[p.name]
        tell(side=p.name, version=p.version, ms=statistics.median(each), low=min(each), high=max(each),
             steps=steps[p.name])


def main():
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        known = {workload.name: workload for workload in all_workloads(args.build, folder, THREADS)}
        if args.workload not in known:
            raise SystemExit(f"there is no workload {args.workload}: {', '.join(known)}")
        workload = known[args.workload]
        os.makedirs(workload.folder)
        workload.make(workload.folder)
        processes = started(workload, args.values)
        try:
            if args.values:
                compare(workload, processes)
            else:
                measure(workload, processes, args.seconds)
        finally:
            run.close(processes)


if __name__ == "__main__":
    main()
