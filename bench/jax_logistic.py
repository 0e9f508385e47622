"""Logistic regression with a penalty per feature in JAX: one jitted call for each lower and each upper step (or one for
both, if there are as many of each). With --scan, one for that many upper steps and the lower ones in between."""
import numpy as np

import data
import peer

args = peer.arguments()
program = peer.use_jax(args)
import jax
import jax.numpy as jnp
import optax


def log_loss(w, x, y):
    return jnp.mean(optax.sigmoid_binary_cross_entropy(x @ w, y))


def lower_loss(w, penalty, x, y):
    return log_loss(w, x, y) + 0.5 * jnp.sum(penalty * w**2)


def conjugate_gradients(product, b):
    """Five steps towards the solution x of product(x) = b, from 0."""
    x, r, p = jnp.zeros_like(b), b, b
    rr = r @ r
    for _ in range(5):
        hp = product(p)
        alpha = rr / (p @ hp)
        x, r = x + alpha * p, r - alpha * hp
        rr, before = r @ r, rr
        p = r + rr / before * p
    return x


def hypergradient(w, penalty, v, x, y):
    gradient = jax.grad(lower_loss)
    if args.method == "cg":
        v = conjugate_gradients(lambda u: jax.jvp(lambda w: gradient(w, penalty, x, y), (w,), (u,))[1], v)
    along_v = lambda penalty: jax.jvp(lambda w: lower_loss(w, penalty, x, y), (w,), (v,))[1]
    return -jax.grad(along_v)(penalty)


def lower_step(w, penalty, x, y):
    return w - 0.1 * jax.grad(lower_loss)(w, penalty, x, y)


def upper_step(w, penalty, momentum, train, meta):
    momentum = 0.9 * momentum + hypergradient(w, penalty, jax.grad(log_loss)(w, *meta), *train)
    return jnp.maximum(penalty - momentum, 1e-8), momentum


def block(state, train, meta):
    """The lower steps of one upper step, and that step."""
    w, penalty, momentum = state
    w = jax.lax.fori_loop(0, args.unroll, lambda _, w: lower_step(w, penalty, *train), w)
    return w, *upper_step(w, penalty, momentum, train, meta)


def scanned(state, train, meta):
    return jax.lax.fori_loop(0, args.scan, lambda _, s: block(s, train, meta), state)


def rows(name):
    x = jnp.asarray(data.read(args.folder, f"{name}_x", (-1, data.FEATURES)))
    return x, jnp.asarray(data.read(args.folder, f"{name}_y"))


train, meta = rows("train"), rows("meta")
state = jnp.zeros(data.FEATURES), jnp.ones(data.FEATURES), jnp.zeros(data.FEATURES)
call_lower = jax.jit(lower_step, donate_argnums=0)
call_upper = jax.jit(upper_step, donate_argnums=(1, 2))
call_blocks = jax.jit(scanned if args.scan else block, donate_argnums=0)


def call_each():
    global state
    w, penalty, momentum = state
    for _ in range(args.unroll):
        w = call_lower(w, penalty, *train)
    state = w, *call_upper(w, penalty, momentum, train, meta)


def steps(n):
    global state
    for _ in range(n // args.unroll // (args.scan or 1)):
        if args.scan or args.unroll == 1:
            state = call_blocks(state, train, meta)
        else:
            call_each()
    jax.block_until_ready(state)


def answer():
    return log_loss(state[0], *meta), np.asarray(state[1])


peer.serve(program, steps, answer)
