"""MAML in JAX: one jitted call per upper step, or with --scan one for that many. The tasks of a step are unrolled one
after the other (--tasks=loop), mapped over (map), or computed at once (vmap)."""
import numpy as np

import data
import peer

args = peer.arguments()
program = peer.use_jax(args)
import jax
import jax.numpy as jnp
import optax

adam = optax.sgd(1.0) if args.double else optax.adam(data.META_LR, eps=args.eps)


def perceptron(params, x):
    w1, b1, w2, b2, w3, b3 = params
    x = jax.nn.relu(x @ w1.T + b1)
    x = jax.nn.relu(x @ w2.T + b2)
    return x @ w3.T + b3


def block(x, w, bias, scale, shift):
    x = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    x = jax.nn.relu((x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def convnet(params, x):
    x = x.reshape(-1, 28, 28, 1)
    for k in range(0, 4 * args.blocks, 4):
        x = (jax.checkpoint(block) if args.checkpoint == "block" else block)(x, *params[k : k + 4])
    return x.reshape(len(x), -1) @ params[-2].T + params[-1]


network = convnet if args.blocks else perceptron


def loss(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(network(params, x), y).mean()


def task_loss(params, x, query):
    def adapted(params, _=None):
        return [p - data.INNER_LR * g for p, g in zip(params, jax.grad(loss)(params, x, support_y))], None

    one = jax.checkpoint(adapted) if args.checkpoint == "step" else adapted
    if args.inner == "scan":
        params = jax.lax.scan(one, params, length=data.INNER_STEPS)[0]
    else:
        for _ in range(data.INNER_STEPS):
            params = one(params)[0]
    return loss(params, query, query_y)


def meta_gradient(params, xs, queries):
    one = lambda task: jax.grad(task_loss)(params, *task)
    if args.tasks == "loop":
        each = [one(task) for task in zip(xs, queries)]
        return jax.tree.map(lambda *g: sum(g) / data.META_BATCH, *each)
    each = jax.vmap(one)((xs, queries)) if args.tasks == "vmap" else jax.lax.map(one, (xs, queries))
    return jax.tree.map(lambda g: g.mean(0), each)


def step(state, k, support_x, query_x):
    params, adam_state = state
    update, adam_state = adam.update(meta_gradient(params, support_x[k], query_x[k]), adam_state)
    return optax.apply_updates(params, update), adam_state


def scanned(state, k, support_x, query_x):
    body = lambda s, i: (step(s, i, support_x, query_x), None)
    return jax.lax.scan(body, state, (k + jnp.arange(args.scan)) % len(support_x))[0]


support_x, query_x, support_y, query_y = map(jnp.asarray, peer.few_shot_tasks(args.folder, args.ways))
flat = data.read(args.folder, "upper")
if args.blocks:  # in libbetty's order of axes
    flat = [p.transpose(2, 3, 1, 0) if p.ndim == 4 else p for p in data.convnet_params(flat, args.blocks, 64, args.ways)]
else:
    flat = data.mlp_params(flat, [data.PIXELS, 64, 64, args.ways])
params = [jnp.asarray(p) for p in flat]
state = params, adam.init(params)
call = jax.jit(scanned if args.scan else step, donate_argnums=0).lower(state, 0, support_x, query_x).compile()
done = 0


def steps(n):
    global state, done
    for _ in range(n // (args.scan or 1)):
        state = call(state, done % len(support_x), support_x, query_x)
        done += args.scan or 1
    jax.block_until_ready(state)


@jax.jit
def first_loss(params):
    first = query_x.reshape(-1, *query_x.shape[2:])[: data.STATE_TASKS]
    return sum(loss(params, query, query_y) for query in first) / data.STATE_TASKS


def answer():
    return first_loss(state[0]), np.concatenate([np.ravel(p) for p in state[0]])


def tensor_bytes():
    return peer.jax_bytes(call, support_x, query_x)


peer.serve(program, steps, answer, tensor_bytes)
