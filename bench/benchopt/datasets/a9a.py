"""Logistic regression on a9a (data/a9a), with a penalty for each feature that is chosen on held-out rows."""
import gzip
import os
import pathlib
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from benchopt import BaseDataset

PLACES = os.environ.get("BETTY_DATA", "."), pathlib.Path(__file__).resolve().parents[3] / "data"
FEATURES = 123


def read(rows):
    """The first rows of the file: x, and y of -1 or 1."""
    x, y = np.zeros((rows, FEATURES), np.float32), np.zeros(rows, np.float32)
    path = next(path for path in (pathlib.Path(place) / "a9a/a9a.gz" for place in PLACES) if path.exists())
    with gzip.open(path, "rt") as file:
        for i in range(rows):
            label, *items = file.readline().split()
            y[i] = float(label)
            for item in items:
                place, value = item.split(":")
                x[i, int(place) - 1] = float(value)
    return jnp.asarray(x), jnp.asarray(y)


def loss(w, x, y):
    return jax.nn.softplus(-y * (x @ w)).mean()


class Dataset(BaseDataset):
    name = "a9a"
    requirements = ["pip::jax"]
    parameters = {"rows": [4000]}  # half for training

    def get_data(self):
        x, y = read(self.rows)
        half = self.rows // 2
        parts = (x[:half], y[:half]), (x[half:], y[half:])

        def rows_of(part, start, size):
            return tuple(jax.lax.dynamic_slice_in_dim(values, start, size) for values in part)

        @partial(jax.jit, static_argnames="batch_size")
        def f_inner(w, u, start=0, batch_size=1):
            return loss(w, *rows_of(parts[0], start, batch_size)) + (jnp.exp(u) * w * w).sum() / 2

        @partial(jax.jit, static_argnames="batch_size")
        def f_outer(w, u, start=0, batch_size=1):
            return loss(w, *rows_of(parts[1], start, batch_size))

        @jax.jit
        def solved(u):  # the outer loss at the solution of the lower problem, by Newton's method
            lower = partial(f_inner, start=0, batch_size=half)

            def step(w, _):
                return w - jnp.linalg.solve(jax.hessian(lower)(w, u), jax.grad(lower)(w, u)), None
            w, _ = jax.lax.scan(step, jnp.zeros(FEATURES), None, length=20)
            return f_outer(w, u, batch_size=half), jnp.abs(jax.grad(lower)(w, u)).max()

        def metrics(w, u):
            value, slope = solved(u)
            assert slope < 1e-3, slope
            return dict(value=float(value), outer_value=float(f_outer(w, u, batch_size=half)))

        return dict(f_inner=f_inner, f_outer=f_outer, n_inner_samples=half, n_outer_samples=self.rows - half,
                    inner_var0=np.zeros(FEATURES, np.float32), outer_var0=np.zeros(FEATURES, np.float32),
                    metrics=metrics)
