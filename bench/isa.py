"""Restricts the other programs to the instruction set that BETTY_ISA selects for libbetty.

To measure their speed then: OMP_NUM_THREADS=1 BETTY_ISA=v3 PYTHON bench/isa.py torch (or jax).
"""
import ctypes
import os
import subprocess
import sys
import time

# By BETTY_ISA: the name to show, and its name in XLA, oneDNN (in PyTorch and XLA), ATen and MKL.
HELD = {
    "v3": ("AVX2", dict(XLA_FLAGS="--xla_cpu_max_isa=AVX2", ONEDNN_MAX_CPU_ISA="AVX2", ATEN_CPU_CAPABILITY="avx2",
                        MKL_ENABLE_INSTRUCTIONS="AVX2")),
    "generic": ("SSE4.2", dict(XLA_FLAGS="--xla_cpu_max_isa=SSE4_2", ONEDNN_MAX_CPU_ISA="SSE41",
                               ATEN_CPU_CAPABILITY="default", MKL_ENABLE_INSTRUCTIONS="SSE4_2")),
}  # fmt: skip
FLAGS = {"AVX2": 0x7F, "SSE4.2": 0x07}  # of YNNPACK: sse2, ssse3, sse41, avx, f16c, avx2, fma3, then avx512f and so on


def environment():
    """Environment variables for the other programs."""
    variables = dict(HELD.get(os.environ.get("BETTY_ISA", ""), ("", {}))[1])
    if "XLA_FLAGS" in variables and os.environ.get("XLA_FLAGS"):
        variables["XLA_FLAGS"] = f"{os.environ['XLA_FLAGS']} {variables['XLA_FLAGS']}"
    return variables


def held_to():
    """The instruction set that the programs are restricted to; empty if they may use any."""
    return HELD.get(os.environ.get("BETTY_ISA", ""), ("", {}))[0]


def hold_jax():
    """XLA runs its products and convolutions in YNNPACK, which queries the processor and has no switch. This finds its
    flags by their symbol and clears some of them. Call it before the first computation."""
    name = held_to()
    if not name:
        return
    import jaxlib

    path = os.path.join(os.path.dirname(jaxlib.__file__), "libjax_common.so")
    ctypes.CDLL(path)
    places = {}
    for line in subprocess.run(["nm", path], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        place, *_, symbol = line.split()
        if "ynn24get_supported_arch_flags" in symbol:
            places[symbol] = int(place, 16)
    with open("/proc/self/maps") as maps:
        base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith("/libjax_common.so"))
    ask = ctypes.CFUNCTYPE(ctypes.c_uint64)(base + places["_ZN3ynn24get_supported_arch_flagsEv"])
    found = ask()
    flags = ctypes.c_uint64.from_address(base + places["_ZZN3ynn24get_supported_arch_flagsEvE5flags"])
    flags.value &= FLAGS[name]
    if ask() != found & FLAGS[name]:
        raise SystemExit(f"bench: JAX cannot be held to {name}: its flags of YNNPACK are elsewhere")


# ---- by hand ----


def speed(flops, run):
    """GFlop/s, the best of several runs."""
    times = []
    for _ in range(20):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return f"{flops / min(times) * 1e-9:.0f} GF/s"


PRODUCT, CONVOLUTION = 2 * 768**3, 2 * 9 * 16 * 28 * 28 * 64 * 64  # 768 x 768; 16 images of 28 x 28 x 64, window 3


def torch_speeds():
    import torch

    x, images, weight = torch.rand(768, 768), torch.rand(16, 64, 28, 28), torch.rand(64, 64, 3, 3)
    last = [t.to(memory_format=torch.channels_last) for t in (images, weight)]
    print(f"PyTorch, {torch.backends.cpu.get_cpu_capability()}: product {speed(PRODUCT, lambda: x @ x)}, convolution "
          f"{speed(CONVOLUTION, lambda: torch.conv2d(images, weight, padding=1))}, channels last "
          f"{speed(CONVOLUTION, lambda: torch.conv2d(*last, padding=1))}")  # fmt: skip


def jax_speeds():
    hold_jax()
    import jax
    import jax.numpy as jnp

    x, images, weight = jnp.ones((768, 768)), jnp.ones((16, 28, 28, 64)), jnp.ones((3, 3, 64, 64))
    product = jax.jit(lambda x: x @ x)
    axes = ("NHWC", "HWIO", "NHWC")
    convolution = jax.jit(lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=axes))
    print(f"JAX: product {speed(PRODUCT, lambda: product(x).block_until_ready())}, convolution "
          f"{speed(CONVOLUTION, lambda: convolution(images, weight).block_until_ready())}")  # fmt: skip


if __name__ == "__main__":
    os.environ.update(environment(), MKL_NUM_THREADS="1", JAX_PLATFORMS="cpu")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    {"torch": torch_speeds, "jax": jax_speeds}[sys.argv[1]]()
