"""Data cleaning: a linear classifier of MNIST or Fashion-MNIST with some wrong labels, and a weight for each example
that is chosen on clean ones. The files, as published (IDX, gzip), are searched in $BETTY_DATA/FOLDER and in
/usr/share/datasets/FOLDER (Debian: dataset-fashion-mnist)."""
import gzip
import os
import pathlib
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from benchopt import BaseDataset

CLASSES, PIXELS = 10, 784


def read(folder, name, head):
    for place in os.environ.get("BETTY_DATA"), "/usr/share/datasets":
        path = pathlib.Path(place or ".") / folder / f"{name}.gz"
        if place and path.exists():
            return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=head)
    raise FileNotFoundError(f"{folder}/{name}.gz is neither in $BETTY_DATA nor in /usr/share/datasets")


def losses(w, x, y):
    product = x @ w.reshape(PIXELS, CLASSES)
    return jax.nn.logsumexp(product, axis=1) - jnp.take_along_axis(product, y[:, None], 1)[:, 0]


class Dataset(BaseDataset):
    name = "mnist"
    requirements = ["pip::jax"]
    parameters = {"folder": ["fashion-mnist"], "ratio": [0.5], "rows": [2000], "reg": [1e-3]}

    def get_data(self):
        images = read(self.folder, "train-images-idx3-ubyte", 16).reshape(-1, PIXELS)
        labels = read(self.folder, "train-labels-idx1-ubyte", 8).astype(np.int32)
        rng = np.random.default_rng(1)
        n, reg = self.rows, self.reg
        cut = [slice(0, n), slice(n, 2 * n), slice(2 * n, 4 * n)]  # for training, clean, for testing
        x = [jnp.asarray(images[part] / np.float32(255)) for part in cut]
        y = [labels[part].copy() for part in cut]
        wrong = rng.random(n) < self.ratio
        y[0][wrong] = rng.integers(0, CLASSES, wrong.sum())
        y = [jnp.asarray(part) for part in y]

        def rows_of(start, size, *parts):
            return tuple(jax.lax.dynamic_slice_in_dim(part, start, size) for part in parts)

        @partial(jax.jit, static_argnames="batch_size")
        def f_inner(w, u, start=0, batch_size=1):
            x_some, y_some, u_some = rows_of(start, batch_size, x[0], y[0], u)
            return (jax.nn.sigmoid(u_some) * losses(w, x_some, y_some)).mean() + reg * (w * w).sum()

        @partial(jax.jit, static_argnames="batch_size")
        def f_outer(w, u, start=0, batch_size=1):
            return losses(w, *rows_of(start, batch_size, x[1], y[1])).mean()

        def metrics(w, u):
            right = (x[2] @ w.reshape(PIXELS, CLASSES)).argmax(1) == y[2]
            weight = np.asarray(jax.nn.sigmoid(u))
            return dict(value=float(f_outer(w, u, batch_size=n)), test_error=float(1 - right.mean()),
                        weight_of_wrong=float(weight[wrong].mean()), weight_of_others=float(weight[~wrong].mean()))

        return dict(f_inner=f_inner, f_outer=f_outer, n_inner_samples=n, n_outer_samples=n,
                    inner_var0=np.zeros(PIXELS * CLASSES, np.float32), outer_var0=np.zeros(n, np.float32),
                    metrics=metrics)
