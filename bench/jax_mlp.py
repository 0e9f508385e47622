"""A step of SGD of an MLP in JAX: one jitted call per step, or with --scan per that many."""
import numpy as np

import data
import peer

args = peer.arguments()
program = peer.use_jax(args)
import jax
import jax.numpy as jnp
import optax


def loss(params, x, y):
    for k in (0, 2):
        x = jax.nn.relu(x @ params[k].T + params[k + 1])
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(x @ params[4].T + params[5], y))


def step(params, x, y):
    return [p - 0.1 * g for p, g in zip(params, jax.grad(loss)(params, x, y))]


def scanned(params, xs, ys):
    return jax.lax.scan(lambda p, k: (step(p, xs[k % 8], ys[k % 8]), None), params, jnp.arange(args.scan))[0]


xs = jnp.asarray(data.read(args.folder, "train_x", (8, args.batch, args.hidden)))
ys = jnp.asarray(data.read(args.folder, "train_y", (8, args.batch)).astype(np.int32))
batches = list(zip(xs, ys))
widths = [args.hidden, args.hidden, args.hidden, data.CLASSES]
params = [jnp.asarray(p) for p in data.mlp_params(data.read(args.folder, "lower"), widths)]
call = jax.jit(scanned if args.scan else step, donate_argnums=0)


def steps(n):
    global params
    if args.scan:
        for _ in range(n // args.scan):
            params = call(params, xs, ys)
    else:
        for k in range(n):
            params = call(params, *batches[k % 8])
    jax.block_until_ready(params)


def answer():
    flat = xs.reshape(-1, args.hidden), ys.reshape(-1)
    return loss(params, *flat), np.concatenate([np.ravel(p) for p in params])


peer.serve(program, steps, answer)
