"""What machine this is: card, driver, NVIDIA's libraries, the Python that others are compared in."""
import ctypes
import glob
import json
import os
import platform
import shutil
import subprocess
import sys

# What libbetty opens (libbetty/backend/cuda/library.c), the newest first, and how each says its version.
LIBRARIES = {
    "cuBLASLt": (["libcublasLt.so.13", "libcublasLt.so.12"], "cublasLtGetVersion"),
    "cuDNN": (["libcudnn.so.9", "libcudnn_graph.so.9"], "cudnnGetVersion"),
    "NCCL": (["libnccl.so.2"], "ncclGetVersion"),
}
PACKAGES = ["torch", "jax", "numpy", "betty-ml", "nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-nccl-cu13"]
ASK_PYTHON = """
import json, sys
from importlib import metadata
versions = {}
for name in sys.argv[1:]:
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps({"version": sys.version.split()[0], "path": [p for p in sys.path if p], "packages": versions}))
"""


def answer(argv, seconds=30, **options):
    """What a command prints; None where it is not there, or fails."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, timeout=seconds, **options)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def ask_python(python):
    said = answer([python, "-c", ASK_PYTHON, *PACKAGES])
    return json.loads(said) if said else {"version": None, "path": [], "packages": {}}


# ---- libraries ----


def folders(python_path):
    """Where NVIDIA's libraries may lie: what the user says, toolkits, the packages of a Python, the system."""
    toolkits = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    toolkits += ["/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"), reverse=True)]
    places = os.environ.get("BETTY_CUDA_LIBRARIES", "").split(":")
    places += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for toolkit in filter(None, toolkits):
        places += [os.path.join(toolkit, lib) for lib in ("lib64", "lib", "targets/x86_64-linux/lib")]
    for path in python_path:
        places += sorted(glob.glob(os.path.join(glob.escape(path), "nvidia", "*", "lib")))
    places += ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"]
    return [place for place in dict.fromkeys(places) if place and os.path.isdir(place)]


def find(files, places):
    for file in files:
        for place in places:
            if os.path.exists(os.path.join(place, file)):
                return os.path.join(place, file)
    return None


def version(path, function):
    """As the library says; asked in another process, which ends if the library does not load."""
    said = answer([sys.executable, os.path.abspath(__file__), path, function])
    return int(said) if said else None


def libraries(python_path):
    """Name to {"file", "version"}, or None where it is absent."""
    places, found = folders(python_path), {}
    for name, (files, function) in LIBRARIES.items():
        path = find(files, places)
        found[name] = {"file": path, "version": version(path, function)} if path else None
    return found


def library_folders(found):
    """As BETTY_CUDA_LIBRARIES has them."""
    return ":".join(dict.fromkeys(os.path.dirname(each["file"]) for each in found.values() if each))


def print_libraries(python):
    found = libraries(ask_python(python)["path"])
    for name, each in found.items():
        print(f"{name}: {each['file']}, version {each['version'] or 'unknown'}" if each else f"{name}: absent")
    print(f"BETTY_CUDA_LIBRARIES={library_folders(found)}")
    return 0


# ---- the card ----

FIELDS = ["name", "driver_version", "compute_cap", "memory.total", "clocks.max.sm", "clocks.max.memory", "power.limit",
          "ecc.mode.current", "mig.mode.current"]
PLAIN_FIELDS = 4  # which every nvidia-smi knows
ATTRIBUTES = {"major": 75, "minor": 76}  # of cuda.h


def tool(name):
    """A program of NVIDIA's: on the path, or where its own installers put it."""
    more = ["/usr/local/cuda/bin", "/usr/local/nvidia/bin", os.path.join(os.environ.get("CUDA_HOME", "/"), "bin")]
    return shutil.which(name) or shutil.which(name, path=":".join(more))


def card():
    """As nvidia-smi tells it, else the driver itself; None: there is none."""
    for fields in (FIELDS, FIELDS[:PLAIN_FIELDS]):
        said = answer([tool("nvidia-smi") or "nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"])
        if said:
            cards = [dict(zip(fields, map(str.strip, line.split(",")))) for line in said.splitlines()]
            return dict(cards[0], count=len(cards))
    said = answer([sys.executable, os.path.abspath(__file__)])
    return json.loads(said) if said else None


def driver_card():
    """By the driver's library."""
    cuda, count, version, bytes_ = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name, numbers = ctypes.create_string_buffer(256), {key: ctypes.c_int() for key in ATTRIBUTES}
    wrong = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or cuda.cuDeviceGetName(name, 256, 0)
    if wrong:
        sys.exit(f"the driver says {wrong}")
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceTotalMem_v2(ctypes.byref(bytes_), 0)
    for key, number in ATTRIBUTES.items():
        cuda.cuDeviceGetAttribute(ctypes.byref(numbers[key]), number, 0)
    return {"name": name.value.decode(), "driver_version": f"for CUDA {version.value / 1000:.1f}",
            "compute_cap": f"{numbers['major'].value}.{numbers['minor'].value}",
            "memory.total": f"{bytes_.value >> 20} MiB", "count": count.value}


def describe(places, python):
    """The machine; on the device that tests make of the processor nobody is asked about a GPU."""
    asked, fake = ask_python(python), places.is_fake()
    found = {} if fake else libraries(asked["path"])
    gpu = None if fake else card()
    return {
        "device": {"kind": "fake" if fake else "gpu" if gpu else "none", **(gpu or {})},
        "libraries": found,
        "library_folders": None if fake else library_folders(found),
        "python": {"file": python, "version": asked["version"], "packages": asked["packages"]},
        "host": {"system": platform.platform(), "processor": processor(), "cores": os.cpu_count()},
        "tools": {name: tool(name) for name in ("nvidia-smi", "compute-sanitizer", os.environ.get("CC", "cc"))},
    }


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def library_version(path, function):
    call, number = getattr(ctypes.CDLL(path), function), ctypes.c_int()
    if function.startswith("nccl"):
        call(ctypes.byref(number))
        return number.value
    call.restype = ctypes.c_size_t
    return call()


if __name__ == "__main__":
    print(library_version(*sys.argv[1:]) if sys.argv[1:] else json.dumps(driver_card()))
