"""Where things are, in a checkout as in an unpacked package: both have the same folders."""
import os
import shutil

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class Places:
    def __init__(self, build, work):
        self.build, self.work = os.path.abspath(build), os.path.abspath(work)
        self.command = os.path.join(self.build, "betty-run")
        self.bench = os.path.join(self.build, "bench-libbetty")
        self.examples = os.path.join(ROOT, "examples")

    def missing(self):
        """What must be there and is not; None: nothing."""
        if not os.access(self.command, os.X_OK):
            return f"there is no {self.command}: give the folder of a build with CUDA with --build, or unpack a package"
        return None

    def program(self, test):
        return os.path.join(self.build, "tests", "bin", test)

    def tests(self):
        """Those that run on a device, as tests/CMakeLists.txt says."""
        try:
            with open(os.path.join(self.build, "tests", "on-device.txt")) as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def is_fake(self):
        """Whether the device is the one that tests make of the processor: the command names its library."""
        with open(self.command, "rb") as file:
            return b"libfake_cudart" in file.read()

    def commit(self):
        """Of a package, which holds it; else of the checkout."""
        try:
            with open(os.path.join(ROOT, "commit.txt")) as file:
                return file.read().strip()
        except FileNotFoundError:
            return None

    def environment(self, libraries, **more):
        """Of all commands. libraries: the folders of NVIDIA's, with a colon between them; None: as it is."""
        variables = dict(os.environ, BT_SOURCE_DIR=ROOT, BT_BUILD_DIR=self.build, BETTY_RUN=self.command,
                         BETTY_INCLUDE=os.path.join(ROOT, "libbetty", "include"), CK_DEFAULT_TIMEOUT="60",
                         XDG_CACHE_HOME=os.path.join(self.work, "cache"))
        packed = os.path.join(ROOT, "lib")
        if os.path.isdir(packed):
            variables["LD_LIBRARY_PATH"] = ":".join(filter(None, [packed, variables.get("LD_LIBRARY_PATH")]))
        if libraries is not None:
            variables["BETTY_CUDA_LIBRARIES"] = libraries
        if os.path.isdir(os.path.join(ROOT, "data", "fashion-mnist")):
            variables["BETTY_DATA"] = os.path.join(ROOT, "data")
        variables.update(more)
        return variables

    def folder(self, *names):
        """A new, empty one below the folder of the work, from which the data that come with libbetty are found."""
        path = os.path.join(self.work, *names)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        os.symlink(os.path.join(ROOT, "data"), os.path.join(path, "data"))
        return path


def has_compiler():
    return shutil.which(os.environ.get("CC", "cc").split()[0]) is not None
