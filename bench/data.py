"""The data of the workloads, as plain arrays in a folder that every side of the bench reads."""
import gzip
import os

import numpy as np

PIXELS, CLASSES, FEATURES = 28 * 28, 10, 20
FLOAT = np.float32  # the type that the programs compute with; float64 in the check in double precision
# For MAML, with one example per class to adapt with; its loss is over the first STATE_TASKS tasks.
META_BATCH, QUERIES, INNER_STEPS, INNER_LR, META_LR, STATE_TASKS = 4, 15, 5, 0.1, 1e-3, 8


def find_fashion_mnist():
    for root in (os.environ.get("BETTY_DATA", ""), "/usr/share/datasets"):
        folder = os.path.join(root, "fashion-mnist")
        if root and os.path.isdir(folder):
            return folder
    raise SystemExit("bench: Fashion-MNIST is missing: apt install dataset-fashion-mnist")


def read_idx(path):
    """The images or labels of an IDX file: a magic number with the rank in its last byte, sizes, bytes."""
    with gzip.open(path) as file:
        raw = file.read()
    rank = raw[3]
    shape = np.frombuffer(raw, ">i4", rank, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def write(folder, **arrays):
    """Writes arrays without a header; the suffix of the file name is the type."""
    for name, array in arrays.items():
        ending = {"float32": "f32", "int64": "i64", "int32": "i32"}[array.dtype.name]
        array.tofile(os.path.join(folder, f"{name}.{ending}"))


def read(folder, name, shape=(-1,)):
    """Floating-point numbers are returned as FLOAT."""
    for ending, dtype in (("f32", np.float32), ("f64", np.float64), ("i64", np.int64), ("i32", np.int32)):
        path = os.path.join(folder, f"{name}.{ending}")
        if os.path.exists(path):
            values = np.fromfile(path, dtype).reshape(shape)
            return values.astype(FLOAT, copy=False) if ending.startswith("f") else values
    raise FileNotFoundError(f"{folder}/{name}")


def make_mwn(folder):
    """100 clean images of each class are the upper data; 40 % of the other 59,000 get a different label."""
    source = find_fashion_mnist()
    images = read_idx(os.path.join(source, "train-images-idx3-ubyte.gz")).reshape(-1, PIXELS)
    labels = read_idx(os.path.join(source, "train-labels-idx1-ubyte.gz")).astype(np.int64)
    meta = np.concatenate([np.flatnonzero(labels == c)[:100] for c in range(CLASSES)])
    train = np.setdiff1d(np.arange(len(labels)), meta)

    random = np.random.default_rng(1)
    noisy = labels[train]
    wrong = random.random(len(train)) < 0.4
    noisy[wrong] = (noisy[wrong] + random.integers(1, CLASSES, wrong.sum())) % CLASSES
    as_floats = lambda x: x.astype(np.float32) / np.float32(255)
    write(folder, train_x=as_floats(images[train]), train_y=noisy, meta_x=as_floats(images[meta]), meta_y=labels[meta])


def make_logistic(folder):
    """500 rows for training and 500 for choosing the penalties, from a noisy linear rule."""
    random = np.random.default_rng(1)
    x = random.standard_normal((1000, FEATURES))
    y = x @ random.standard_normal(FEATURES) + random.standard_normal(1000) > 0
    x, y = x.astype(np.float32), y.astype(np.float32)
    write(folder, train_x=x[:500], train_y=y[:500], meta_x=x[500:], meta_y=y[500:])


def make_mlp(folder, hidden, batch):
    """Eight batches of noise for an MLP hidden-hidden-hidden-10."""
    random = np.random.default_rng(1)
    x = random.standard_normal((8 * batch, hidden)).astype(np.float32)
    write(folder, train_x=x, train_y=random.integers(0, CLASSES, 8 * batch))


def make_tasks(folder):
    """Makes nothing: Omniglot comes with libbetty, which writes the tasks that it draws."""


def mlp_params(flat, widths):
    """Weight [out, in] and bias of each layer, from a vector that holds them one after the other."""
    params, at = [], 0
    for inputs, outputs in zip(widths, widths[1:]):
        params.append(flat[at : at + inputs * outputs].reshape(outputs, inputs).copy())
        at += inputs * outputs
        params.append(flat[at : at + outputs].copy())
        at += outputs
    assert at == len(flat)
    return params


def mlp_widths(args):
    return [PIXELS] + [args.hidden] * args.layers + [CLASSES]


def convnet_params(flat, blocks, filters, classes):
    """Parameters of the few-shot ConvNet with PyTorch's order of axes, from libbetty's vector."""
    params, at, inputs = [], 0, 1
    for _ in range(blocks):
        weight = flat[at : at + 9 * inputs * filters].reshape(3, 3, inputs, filters)
        params.append(np.ascontiguousarray(weight.transpose(3, 2, 0, 1)))
        at += weight.size
        for _ in range(3):  # the bias of the convolution, then weight and bias of the norm
            params.append(flat[at : at + filters].copy())
            at += filters
        inputs = filters
    features = (len(flat) - at - classes) // classes
    params += [flat[at:-classes].reshape(classes, features).copy(), flat[-classes:].copy()]
    return params


def make_images(folder, upper=100):
    """4,000 images of a class pattern plus noise, as rows of [32, 32, 3]; some of them are the upper data."""
    random = np.random.default_rng(1)
    patterns = random.standard_normal((CLASSES, 3072))
    labels = np.arange(4000) % CLASSES
    x = (0.3 * patterns[labels] + random.standard_normal((4000, 3072))).astype(np.float32)
    y = labels.astype(np.int64)
    write(folder, train_x=x[upper:], train_y=y[upper:], meta_x=x[:upper], meta_y=y[:upper])


def make_maps(folder):
    """504 noisy images of [64, 64, 3], as rows. Each has a square of one class on a ground of another, and a label for
    every pixel; 36 of them are the upper data."""
    random = np.random.default_rng(1)
    colours = random.standard_normal((CLASSES, 3))
    labels = np.repeat(random.integers(0, CLASSES, (504, 1, 1)), 64, 1).repeat(64, 2)
    for each, (top, left) in zip(labels, random.integers(0, 40, (504, 2))):
        each[top : top + 24, left : left + 24] = random.integers(0, CLASSES)
    x = (colours[labels] + random.standard_normal((504, 64, 64, 3))).astype(np.float32).reshape(504, -1)
    y = labels.reshape(504, -1).astype(np.int64)
    write(folder, train_x=x[36:], train_y=y[36:], meta_x=x[:36], meta_y=y[:36])


# For the language model, whose data is one batch of windows of tokens.
TOKENS, WORDS, WIDTH, HEADS, HEAD_WIDTH, FEED = 20, 10000, 20, 8, 32, 32


def make_tokens(folder, batch):
    """Each token follows from the previous one by a fixed rule or, one time in four, is random."""
    random = np.random.default_rng(1)
    rows = np.empty((batch, TOKENS + 1), np.int64)
    rows[:, 0] = random.integers(0, WORDS, len(rows))
    for t in range(TOKENS):
        rows[:, t + 1] = np.where(random.random(len(rows)) < 0.25, random.integers(0, WORDS, len(rows)), rows[:, t] * 7 % 997)
    write(folder, train_x=rows[:, :-1].astype(np.float32), train_y=np.ascontiguousarray(rows[:, 1:]))


def token_batches(folder, batch):
    """The tokens and the tokens that follow them, [batches, batch, TOKENS]."""
    return [read(folder, f"train_{part}", (-1, batch, TOKENS)).astype(np.int64) for part in "xy"]


def language_params(flat, layers):
    """The parameters in order of use; matrices are [out, in]."""
    inner, norm = HEADS * HEAD_WIDTH, [(WIDTH,), (WIDTH,)]
    layer = 3 * [*norm, (inner, WIDTH)] + [(WIDTH, inner), *norm, (FEED, WIDTH), (FEED,), (WIDTH, FEED), (WIDTH,)]
    shapes = [(WORDS, WIDTH), (TOKENS, WIDTH), *(layers * layer), (WORDS, WIDTH), (WORDS,)]
    parts = np.split(flat, np.cumsum([np.prod(shape) for shape in shapes]))
    assert not len(parts[-1])
    return [part.reshape(shape).copy() for part, shape in zip(parts, shapes)]
