"""Meta-Weight-Net in JAX: one jitted call for a lower and an upper step, or with --scan for that many of them.

The hypergradient is the exact product with the identity in place of the inverse Hessian: the derivative of the lower
loss along the upper gradient, differentiated with respect to the weight net. The loss that the weight net reads is
constant.
"""
import numpy as np

import data
import peer

args = peer.arguments()
program = peer.use_jax(args)
import jax
import jax.numpy as jnp
import optax

sgd = optax.sgd(0.1, momentum=0.9)
adam = optax.sgd(1.0) if args.double else optax.adam(args.lr)


def mlp(params, x):
    for k in range(0, len(params) - 2, 2):
        x = jax.nn.relu(x @ params[k].T + params[k + 1])
    return x @ params[-2].T + params[-1]


def losses(net, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(mlp(net, x), y)


def lower_loss(net, weight_net, x, y):
    loss = losses(net, x, y)
    weight = jax.nn.sigmoid(mlp(weight_net, jax.lax.stop_gradient(loss)[:, None]))[:, 0]
    return jnp.mean(weight * loss)


def upper_loss(net, x, y):
    return jnp.mean(losses(net, x, y))


def hypergradient(net, weight_net, v, x, y):
    along_v = lambda phi: jax.jvp(lambda theta: lower_loss(theta, phi, x, y), (net,), (v,))[1]
    return jax.tree.map(jnp.negative, jax.grad(along_v)(weight_net))


def step(state, lower_rows, upper_rows, train, meta):
    net, weight_net, sgd_state, adam_state = state
    x, y = train[0][lower_rows], train[1][lower_rows]
    update, sgd_state = sgd.update(jax.grad(lower_loss)(net, weight_net, x, y), sgd_state)
    net = optax.apply_updates(net, update)

    v = jax.grad(upper_loss)(net, meta[0][upper_rows], meta[1][upper_rows])
    update, adam_state = adam.update(hypergradient(net, weight_net, v, x, y), adam_state)
    return net, optax.apply_updates(weight_net, update), sgd_state, adam_state


def scanned(state, lower_rows, upper_rows, train, meta):
    body = lambda s, rows: (step(s, *rows, train, meta), None)
    return jax.lax.scan(body, state, (lower_rows, upper_rows))[0]


def rows(name):
    x = jnp.asarray(data.read(args.folder, f"{name}_x", (-1, data.PIXELS)))
    return x, jnp.asarray(data.read(args.folder, f"{name}_y").astype(np.int32))


def params(name, widths):
    return [jnp.asarray(p) for p in data.mlp_params(data.read(args.folder, name), widths)]


train, meta = rows("train"), rows("meta")
net, weight_net = params("lower", data.mlp_widths(args)), params("upper", [1, 100, 1])
state = net, weight_net, sgd.init(net), adam.init(weight_net)
lower_order, upper_order = peer.orders(args)
call = jax.jit(scanned if args.scan else step, donate_argnums=0)


def take(order):
    return np.stack([next(order) for _ in range(args.scan)]) if args.scan else next(order)


def steps(n):
    global state
    for _ in range(n // (args.scan or 1)):
        state = call(state, take(lower_order), take(upper_order), train, meta)
    jax.block_until_ready(state)


def answer():
    return upper_loss(state[0], *meta), np.concatenate([np.ravel(p) for p in state[1]])


def tensor_bytes():
    compiled = call.lower(state, take(lower_order), take(upper_order), train, meta).compile()
    return peer.jax_bytes(compiled, *train, *meta)


peer.serve(program, steps, answer, tensor_bytes)
