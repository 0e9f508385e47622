"""libbetty as a solver of benchopt, for benchmarks with the interface of benchmark_bilevel.

Such a benchmark passes two JAX functions, but not the data behind them. libbetty compiles losses that are written with
its own operations. So this solver supports two kinds of problems (libbetty.c, next to this file). It recovers the data
from the gradients of the functions at zero, and checks that its losses have the same values as the functions. Other
problems are skipped.
"""
import ctypes
import hashlib
import os
import pathlib
import subprocess
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from benchopt import BaseSolver

CLASSES = 10  # of the images
CHUNK = 256  # examples whose gradients are computed at once


class Task(ctypes.Structure):
    """The struct `task` of libbetty.c."""
    _fields_ = [("features", ctypes.c_int64), ("classes", ctypes.c_int64), ("x", ctypes.c_void_p * 2),
                ("label", ctypes.c_void_p * 2), ("counts", ctypes.c_int64 * 2), ("start", ctypes.c_void_p * 2),
                ("outer", ctypes.c_int64), ("reg", ctypes.c_double)]


def library():
    """libbetty.c, compiled against the installed library (pkg-config) into a private cache."""
    source = pathlib.Path(__file__).with_suffix(".c")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libbetty"], check=True, capture_output=True,
                           text=True).stdout.split()
    place = subprocess.run(["pkg-config", "--variable=libdir", "libbetty"], check=True, capture_output=True,
                           text=True).stdout.strip()
    key = hashlib.sha256(source.read_bytes() + " ".join(flags).encode()).hexdigest()[:16]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "betty"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    shared = cache / f"benchopt-{key}.so"
    if not shared.exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = pathlib.Path(folder) / "made.so"
            subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-O2", "-shared", "-fPIC", str(source), "-o",
                            str(made), *flags, f"-Wl,-rpath,{place}"], check=True)
            made.rename(shared)
    lib = ctypes.CDLL(str(shared))
    lib.bt_error.restype = ctypes.c_char_p
    lib.task_engine.restype = ctypes.c_void_p
    lib.task_engine.argtypes = [ctypes.POINTER(Task)]
    lib.task_read.argtypes = [ctypes.c_void_p, ctypes.POINTER(Task), ctypes.c_void_p, ctypes.c_void_p]
    lib.bt_engine_run_to.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    lib.bt_engine_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    lib.bt_engine_free.argtypes = [ctypes.c_void_p]
    lib.bt_engine_free.restype = None
    return lib


def example_gradients(f, inner, outer, count):
    """The gradient of each example's loss with respect to the inner variable: [count, len(inner)]."""
    one = jax.grad(lambda w, i: f(w, outer, start=i, batch_size=1))
    some = jax.jit(jax.vmap(lambda i: one(jnp.zeros_like(inner), i)))
    return np.concatenate([np.asarray(some(jnp.arange(at, min(at + CHUNK, count)))) for at in range(0, count, CHUNK)])


def same(f, ours, inner, outer, count):
    """Whether f over all examples equals ours, at an arbitrary point."""
    rng = np.random.default_rng(1)
    w, u = (rng.standard_normal(v.shape) * 0.1 for v in (inner, outer))
    found = float(f(jnp.asarray(w, inner.dtype), jnp.asarray(u, outer.dtype), start=0, batch_size=count))
    return abs(found - ours(w, u)) <= 1e-4 * (1 + abs(found))


def softplus(x):
    return np.logaddexp(0, x)


def penalties(f_inner, f_outer, counts, inner, outer):
    """The data of logistic regression with penalties; None: it is not such a problem."""
    if len(outer) not in (1, len(inner)):
        return None
    z = [-2 * example_gradients(f, inner, jnp.zeros_like(outer), n) for f, n in zip((f_inner, f_outer), counts)]

    def lower(w, u):
        return softplus(-z[0] @ w).mean() + (np.exp(u) * w * w).sum() / 2

    def upper(w, u):
        return softplus(-z[1] @ w).mean()
    known = same(f_inner, lower, inner, outer, counts[0]) and same(f_outer, upper, inner, outer, counts[1])
    return dict(features=len(inner), classes=0, reg=0, x=z, label=None) if known else None


def weights(f_inner, f_outer, counts, inner, outer):
    """The data of a classifier with a weight for each example; None: it is not such a problem."""
    if len(outer) != counts[0] or len(inner) % CLASSES:
        return None
    features = len(inner) // CLASSES
    x, label = [], []
    for f, n, weight in zip((f_inner, f_outer), counts, (0.5, 1)):  # sigmoid(0); none
        g = example_gradients(f, inner, jnp.zeros_like(outer), n).reshape(n, features, CLASSES)
        label.append(np.abs(g).sum(1).argmax(1).astype(np.int32))  # the gradient is x (1 / CLASSES - 1 if its label)
        x.append(np.take_along_axis(g, label[-1][:, None, None], 2)[..., 0] / (1 / CLASSES - 1) / weight)
    off = jnp.full_like(outer, -100)  # all examples have weight zero
    reg = float(f_inner(jnp.ones_like(inner), off, start=0, batch_size=counts[0])) / len(inner)

    def losses(w, k):
        product = x[k] @ w.reshape(features, CLASSES)
        return np.logaddexp.reduce(product, 1) - product[np.arange(counts[k]), label[k]]

    def lower(w, u):
        return (losses(w, 0) / (1 + np.exp(-u))).mean() + reg * (w * w).sum()

    def upper(w, u):
        return losses(w, 1).mean()
    known = same(f_inner, lower, inner, outer, counts[0]) and same(f_outer, upper, inner, outer, counts[1])
    return dict(features=features, classes=CLASSES, reg=reg, x=x, label=label) if known else None


class Solver(BaseSolver):
    """Hypergradients by conjugate gradients at the result of the lower problem's last steps."""
    name = "libbetty"
    sampling_strategy = "callback"
    requirements = ["pip::jax"]
    references = ["https://github.com/leopard-ai/betty"]
    parameters = {
        "iterations": [10],      # of conjugate gradients, per hypergradient
        "unroll_steps": [10],    # lower steps per upper step
        "lr": [0.1],             # of the lower problem, with plain gradient descent
        "upper_lr": [0.05],      # of the upper problem, with Adam
        "batch_size": ["all"],
        "eval_freq": [10],       # upper steps between evaluations
        "threads": [0],
    }

    def skip(self, f_inner, f_outer, n_inner_samples, n_outer_samples, inner_var0, outer_var0, **_):
        given = f_inner, f_outer, (n_inner_samples, n_outer_samples), jnp.asarray(inner_var0), jnp.asarray(outer_var0)
        self.data = penalties(*given) or weights(*given)
        return self.data is None, "this is neither of the problems that libbetty.c has"

    def set_objective(self, n_inner_samples, n_outer_samples, inner_var0, outer_var0, **_):
        data, counts = self.data, (n_inner_samples, n_outer_samples)
        start = [np.ascontiguousarray(v, np.float32) for v in (inner_var0, outer_var0)]
        x = [np.ascontiguousarray(part, np.float32) for part in data["x"]]
        self.held = x, data["label"], start  # libbetty reads these as long as it lives
        self.lib = library()
        self.task = Task(features=data["features"], classes=data["classes"], counts=counts, outer=len(outer_var0),
                         reg=data["reg"])
        for k in range(2):
            self.task.x[k] = x[k].ctypes.data
            self.task.label[k] = data["label"][k].ctypes.data if data["label"] else None
            self.task.start[k] = start[k].ctypes.data
        self.inner, self.outer = start[0].copy(), start[1].copy()

    def check(self, failed):
        if failed:
            raise RuntimeError(self.lib.bt_error().decode())

    def run(self, callback):
        engine = self.lib.task_engine(self.task)
        self.check(not engine)
        try:
            settings = {
                "lower.type": "cg", "lower.cg_iterations": self.iterations, "lower.unroll_steps": self.unroll_steps,
                "lower.optimizer": "sgd", "lower.lr": self.lr, "lower.batch_size": self.batch_size,
                "upper.optimizer": "adam", "upper.lr": self.upper_lr, "upper.batch_size": self.batch_size,
                "engine.threads": self.threads}
            for key, value in settings.items():
                self.check(self.lib.bt_engine_set(engine, key.encode(), str(value).encode()))
            step = 0
            self.inner, self.outer = self.held[2][0].copy(), self.held[2][1].copy()
            while callback():
                step += self.eval_freq * self.unroll_steps
                self.check(self.lib.bt_engine_run_to(engine, step))
                self.check(self.lib.task_read(engine, self.task, self.inner.ctypes.data, self.outer.ctypes.data))
        finally:
            self.lib.bt_engine_free(engine)

    def get_result(self):
        return dict(inner_var=self.inner.copy(), outer_var=self.outer.copy())
