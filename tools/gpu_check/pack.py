"""Builds with the CUDA toolkit, and packs what a GPU machine needs:
programs and what they load, examples, data, scripts."""
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

from places import ROOT

MOST = 60_000_000  # bytes
BUILD = os.path.join(ROOT, "build", "cuda")
# The test programs share one library: the kernels, are in it once. MPI is not for one card.
OPTIONS = ["-DBT_CUDA=on", "-DBUILD_TESTING=ON", "-DBT_TESTS_SHARED=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON"]
TARGETS = ["betty-run", "bench-libbetty", "betty_test_support", "on-device-tests"]
# What git has of them.
FOLDERS = ["examples", "data", "libbetty/include", "tests/e2e", "tests/engine/data", "bench", "tools"]
FILES = ["LICENSE", "docs/cuda.md"]
FASHION_MNIST = "/usr/share/datasets/fashion-mnist"
SYSTEM = re.compile(r"^(lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+)\.so|ld-linux|linux-vdso)")  # every system has them


class Refused(Exception):
    pass


def run(*argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Refused(f"{' '.join(argv)}: {done.stdout[-3000:]}")
    return done.stdout


def build(architectures, jobs):
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    known = os.path.exists(os.path.join(BUILD, "CMakeCache.txt"))
    run("cmake", "-S", ROOT, "-B", BUILD, *([] if known else generator), *OPTIONS,
        f"-DBT_CUDA_ARCHITECTURES={architectures}")
    run("cmake", "--build", BUILD, "-j", str(jobs), "--target", *TARGETS)


def needed(program):
    """The libraries that it loads and that a machine may lack."""
    for line in run("ldd", program).splitlines():
        found = re.match(r"\s*(\S+) => (\S+)", line)
        if found and not SYSTEM.match(found[1]):
            if found[2] == "not":
                raise Refused(f"{program} needs {found[1]}, which is not on this machine")
            yield found[1], found[2]


def programs():
    """Each, and where it goes."""
    with open(os.path.join(BUILD, "tests", "on-device.txt")) as file:
        tests = file.read().split()
    names = ["betty-run", "bench-libbetty", *(os.path.join("tests", "bin", test) for test in tests)]
    return [(os.path.join(BUILD, name), os.path.join("build", "cuda", name)) for name in names]


def copy(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
    shutil.copymode(source, target)


def stage(top):
    """What is packed, below a folder."""
    libraries = {}
    for source, target in programs():
        copy(source, os.path.join(top, target))
        run("strip", os.path.join(top, target))
        libraries.update(needed(source))
    for name, source in libraries.items():
        copy(source, os.path.join(top, "lib", name))
        run("strip", "--strip-unneeded", os.path.join(top, "lib", name))
    copy(os.path.join(BUILD, "tests", "on-device.txt"), os.path.join(top, "build", "cuda", "tests", "on-device.txt"))
    for path in run("git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", *FOLDERS, *FILES).splitlines():
        copy(os.path.join(ROOT, path), os.path.join(top, path))
    changed = run("git", "-C", ROOT, "status", "--porcelain").strip()
    with open(os.path.join(top, "commit.txt"), "w") as file:
        file.write(run("git", "-C", ROOT, "rev-parse", "HEAD").strip() + (", with changes" if changed else "") + "\n")


def archive(top, file):
    def plain(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    with tarfile.open(file, "w:xz", preset=6) as packed:
        packed.add(top, os.path.basename(top), filter=plain)
    return os.path.getsize(file)


def with_fashion_mnist(top, file):
    """Packed with it, if it is here and fits; else without."""
    folder, words = os.path.join(top, "data", "fashion-mnist"), "without Fashion-MNIST, which is not on this machine"
    if os.path.isdir(FASHION_MNIST):
        for name in os.listdir(FASHION_MNIST):
            if name.endswith(".gz"):
                copy(os.path.join(FASHION_MNIST, name), os.path.join(folder, name))
        size = archive(top, file)
        if size <= MOST:
            return size, "with Fashion-MNIST"
        shutil.rmtree(folder)
        words = "without Fashion-MNIST, which does not fit"
    return archive(top, file), words


def pack(file, architectures, jobs):
    try:
        build(architectures, jobs)
        with tempfile.TemporaryDirectory() as folder:
            top = os.path.join(folder, "gpu-check")
            stage(top)
            size, words = with_fashion_mnist(top, file)
    except (Refused, OSError) as error:
        print(f"gpu-check: {error}")
        return 1
    print(f"{file}: {size / 1e6:.1f} MB, {words}; at most {MOST / 1e6:.0f} MB")
    print(f"there: tar -xf {os.path.basename(file)} && gpu-check/tools/gpu-check run")
    return 0 if size <= MOST else 1
