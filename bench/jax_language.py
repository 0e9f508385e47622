"""A step of Adam of a causal language model in JAX, in one jitted call. --checkpoint=block: jax.checkpoint on each
layer; --chunks: computes the head and its loss in that many slices of the rows, one after the other, each recomputed in
the backward pass."""
import numpy as np

import data
import peer

args = peer.arguments()
program = peer.use_jax(args)
import jax
import jax.numpy as jnp
import optax


def norm(x, scale, shift):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale + shift


def attention(q, k, v):
    """Written by hand, because jax.nn's computes its softmax in float32 whatever the other types are."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    seen = np.tril(np.ones((q.shape[1], k.shape[1]), bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)), v)


def layer(x, p):
    heads = lambda a: a.reshape(*a.shape[:2], data.HEADS, -1)
    q, k, v = (heads(norm(x, *p[3 * i : 3 * i + 2]) @ p[3 * i + 2].T) for i in range(3))
    x = x + attention(q, k, v).reshape(*x.shape[:2], -1) @ p[9].T
    return x + jax.nn.relu(norm(x, *p[10:12]) @ p[12].T + p[13]) @ p[14].T + p[15]


def head(x, y, weight, bias):
    return optax.softmax_cross_entropy_with_integer_labels(x @ weight.T + bias, y).sum()


def loss(params, x, y):
    h = params[0][x] + params[1]
    for k in range(2, len(params) - 2, 16):
        h = (jax.checkpoint(layer) if args.checkpoint == "block" else layer)(h, params[k : k + 16])
    if args.chunks == 1:
        return head(h.reshape(-1, h.shape[-1]), y.ravel(), *params[-2:]) / y.size
    slices = h.reshape(args.chunks, -1, h.shape[-1]), y.reshape(args.chunks, -1)
    part = jax.checkpoint(lambda sum, rows: (sum + head(*rows, *params[-2:]), None))
    return jax.lax.scan(part, jnp.zeros((), h.dtype), slices)[0] / y.size


optimizer = optax.sgd(1.0) if args.double else optax.adam(args.rate)


def step(params, state, x, y):
    update, state = optimizer.update(jax.grad(loss)(params, x, y), state, params)
    return optax.apply_updates(params, update), state


xs, ys = (jnp.asarray(part.astype(np.int32)) for part in data.token_batches(args.folder, args.batch))
params = [jnp.asarray(p) for p in data.language_params(data.read(args.folder, "lower"), args.layers)]
state = optimizer.init(params)
call = jax.jit(step, donate_argnums=(0, 1)).lower(params, state, xs[0], ys[0]).compile()
one = jax.jit(loss)


def steps(n):
    global params, state
    for k in range(n):
        params, state = call(params, state, xs[k % len(xs)], ys[k % len(xs)])
    jax.block_until_ready(params)


def answer():
    all = sum(one(params, x, y) for x, y in zip(xs, ys)) / len(xs)
    return all, np.concatenate([np.ravel(p) for p in params])


peer.serve(program, steps, answer, lambda: peer.jax_bytes(call))
