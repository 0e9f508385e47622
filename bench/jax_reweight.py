"""Meta-Weight-Net over a ResNet in JAX: three jitted calls a step. --checkpoint=block: jax.checkpoint on each block;
convolutions: likewise, but what they make is kept; --scanned: the blocks of one shape are a loop. --micro batches and --cg iterations are loops."""
import itertools

import numpy as np

import data
import peer

args = peer.arguments()
program = peer.use_jax(args)
import jax
import jax.numpy as jnp
import optax
from jax.ad_checkpoint import checkpoint_name

RATE, MOMENTUM = 0.1, 0.9  # of the running statistics, and of SGD
sgd = optax.chain(optax.add_decayed_weights(args.decay), optax.sgd(args.rate, momentum=MOMENTUM))
adam = optax.sgd(1.0) if args.double else optax.adam(args.lr)
EACH = (args.depth - 2) // 6
WIDTHS = [16] + [16 << stage for stage in range(3) for _ in range(EACH)]
REMADE = {
    "none": lambda f: f,
    "block": jax.checkpoint,
    "convolutions": lambda f: jax.checkpoint(f, policy=jax.checkpoint_policies.save_only_these_names("convolution")),
}[args.checkpoint]


# ---- the network: each norm takes its statistics, or None for the batch's, and says which it took ----


def convolution(x, w, stride=1):
    axes = ("NHWC", "HWIO", "NHWC")
    y = jax.lax.conv_general_dilated(x, w, (stride, stride), [(1, 1), (1, 1)], dimension_numbers=axes)
    return checkpoint_name(y, "convolution")


def norm(x, scale, shift, moments=None):
    mean, variance = (x.mean((0, 1, 2)), x.var((0, 1, 2))) if moments is None else moments
    return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * scale) + shift, (mean, variance)


def block(x, params, moments):
    w1, scale1, shift1, w2, scale2, shift2 = params
    y, first = norm(convolution(x, w1, 1 if w1.shape[2] == w1.shape[3] else 2), scale1, shift1, moments and moments[0])
    y, second = norm(convolution(jax.nn.relu(y), w2), scale2, shift2, moments and moments[1])
    pad = (y.shape[3] - x.shape[3]) // 2
    shortcut = jnp.pad(x[:, ::2, ::2], ((0, 0), (0, 0), (0, 0), (pad, pad))) if pad else x
    return jax.nn.relu(y + shortcut), [first, second]


def scanned(x, each):
    """A stage's blocks, those of one shape by a loop: there XLA computes again what jax.checkpoint has it compute again."""
    taken, first = [], 0
    if each[0][0].shape != each[-1][0].shape:
        x, taken = REMADE(block)(x, each[0], None)
        first = 1
    alike = [jnp.stack(p) for p in zip(*each[first:])]
    x, more = jax.lax.scan(lambda x, params: REMADE(block)(x, params, None), x, alike)
    return x, taken + [(mean[k], variance[k]) for k in range(len(each) - first) for mean, variance in more]


def network(params, x, moments=None):
    """Logits, and the statistics of all norms."""
    at = lambda k, n: moments and moments[k : k + n]
    y, first = norm(convolution(x, params[0]), params[1], params[2], moments and moments[0])
    y, taken = jax.nn.relu(y), [first]
    each = [params[3 + 6 * k : 9 + 6 * k] for k in range(len(WIDTHS) - 1)]
    for stage in range(3):
        here = range(EACH * stage, EACH * (stage + 1))
        if args.scanned and moments is None:
            y, more = scanned(y, [each[k] for k in here])
            taken += more
            continue
        for k in here:
            y, more = REMADE(block)(y, each[k], at(1 + 2 * k, 2))
            taken += more
    return y.mean((1, 2)) @ params[-2].T + params[-1], taken


def unbiased(taken, x):
    """As running statistics have the variance, from a batch of x: each map is 1, 1/4 or 1/16 of the image."""
    maps = [x.shape[0] * (x.shape[1] >> max(0, (k - 1) // 2 // EACH)) ** 2 for k in range(len(taken))]
    return [(mean, variance * n / (n - 1)) for (mean, variance), n in zip(taken, maps)]


# ---- the problem ----


def losses(net, x, y):
    logits, taken = network(net, x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y), taken


def weights(weight_net, loss):
    w1, b1, w2, b2 = weight_net
    return jax.nn.sigmoid(jax.nn.relu(loss[:, None] @ w1.T + b1) @ w2.T + b2)[:, 0]


def lower_loss(net, weight_net, x, y):
    loss, taken = losses(net, x, y)
    return jnp.mean(weights(weight_net, jax.lax.stop_gradient(loss)) * loss), taken


def upper_loss(net, x, y):
    return jnp.mean(losses(net, x, y)[0])


def total(f, batches):
    """The mean of f over the micro-batches, one after the other."""
    if args.micro == 1:
        return f(*jax.tree.map(lambda a: a[0], batches))
    add = lambda sum, batch: (jax.tree.map(jnp.add, sum, f(*batch)), None)
    zeros = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(f, *jax.tree.map(lambda a: a[0], batches)))
    return jax.tree.map(lambda a: a / args.micro, jax.lax.scan(add, zeros, batches)[0])


def dot(a, b):
    return sum(jnp.vdot(p, q) for p, q in zip(a, b))


def conjugate_gradients(product, b):
    """Steps towards the solution x of product(x) = b, from 0."""
    add = lambda a, s, b: [p + s * q for p, q in zip(a, b)]

    def iterate(_, state):
        x, r, p, rr = state
        hp = product(p)
        alpha = rr / dot(p, hp)
        x, r = add(x, alpha, p), add(r, -alpha, hp)
        after = dot(r, r)
        return x, r, add(r, after / rr, p), after

    return jax.lax.fori_loop(0, args.cg, iterate, ([jnp.zeros_like(a) for a in b], b, b, dot(b, b)))[0]


def hypergradient(net, weight_net, v, batches):
    gradient = jax.grad(lambda *all: lower_loss(*all)[0])
    if args.cg:
        hessian = lambda p: lambda x, y: jax.jvp(lambda net: gradient(net, weight_net, x, y), (net,), (p,))[1]
        damped = lambda p: [hp + args.damping * a for hp, a in zip(total(hessian(p), batches), p)]
        v = conjugate_gradients(damped, v)

    def along_v(weight_net, x, y):
        return jax.jvp(lambda net: lower_loss(net, weight_net, x, y)[0], (net,), (v,))[1]

    return jax.tree.map(jnp.negative, total(lambda x, y: jax.grad(along_v)(weight_net, x, y), batches))


def moved(moments, net, weight_net, batches):
    """The lower gradient, and the running statistics after the micro-batches."""

    def each(state, batch):
        moments, sum = state
        gradient, taken = jax.grad(lower_loss, has_aux=True)(net, weight_net, *batch)
        toward = lambda old, new: (1 - RATE) * old + RATE * new
        return (jax.tree.map(toward, moments, unbiased(taken, batch[0])), jax.tree.map(jnp.add, sum, gradient)), None

    start = moments, jax.tree.map(jnp.zeros_like, net)
    if args.micro == 1:
        moments, sum = each(start, jax.tree.map(lambda a: a[0], batches))[0]
    else:
        moments, sum = jax.lax.scan(each, start, batches)[0]
    return moments, jax.tree.map(lambda a: a / args.micro, sum)


# ---- a step: three calls, of which none holds what another one needs ----


def lower_step(net, moments, sgd_state, weight_net, batches):
    moments, gradient = moved(moments, net, weight_net, batches)
    update, sgd_state = sgd.update(gradient, sgd_state, net)
    return optax.apply_updates(net, update), moments, sgd_state


def upper_gradient(net, batches):
    return total(lambda x, y: jax.grad(upper_loss)(net, x, y), batches)


def upper_step(weight_net, adam_state, net, v, batches):
    update, adam_state = adam.update(hypergradient(net, weight_net, v, batches), adam_state)
    return optax.apply_updates(weight_net, update), adam_state


# ---- what the driver asks ----


def rows(name):
    x = jnp.asarray(data.read(args.folder, f"{name}_x", (-1, 32, 32, 3)))
    return x, jnp.asarray(data.read(args.folder, f"{name}_y").astype(np.int32))


def network_params(flat):
    """In libbetty's order, and with its axes."""
    shapes = [(3, 3, 3, 16), (16,), (16,)]
    for inputs, outputs in zip(WIDTHS, WIDTHS[1:]):
        shapes += [(3, 3, inputs, outputs), (outputs,), (outputs,), (3, 3, outputs, outputs), (outputs,), (outputs,)]
    shapes += [(data.CLASSES, 64), (data.CLASSES,)]
    parts = np.split(flat, np.cumsum([np.prod(shape) for shape in shapes]))
    assert not len(parts[-1])
    return [jnp.asarray(part.reshape(shape)) for part, shape in zip(parts, shapes)]


train, meta = rows("train"), rows("meta")
net = network_params(data.read(args.folder, "lower"))
weight_net = [jnp.asarray(p) for p in data.mlp_params(data.read(args.folder, "upper"), [1, 100, 1])]
scales = [p for p in net[:-2] if p.ndim == 1][::2]
moments = [(jnp.zeros_like(p), jnp.ones_like(p)) for p in scales]
sgd_state, adam_state = sgd.init(net), adam.init(weight_net)
lower_order, upper_order = peer.orders(args)


def draw(rows, order):
    places = np.stack([next(order) for _ in range(args.micro)])
    return rows[0][places], rows[1][places]


alike = itertools.repeat(np.arange(args.batch))  # a batch only for its shape
batches, upper_batches = draw(train, alike), draw(meta, alike)
compiled = lambda f, *inputs, donated=(): jax.jit(f, donate_argnums=donated).lower(*inputs).compile()
call_lower = compiled(lower_step, net, moments, sgd_state, weight_net, batches, donated=(0, 1, 2))
call_gradient = compiled(upper_gradient, net, upper_batches)
call_upper = compiled(upper_step, weight_net, adam_state, net, net, batches, donated=(0, 1))
del batches, upper_batches


def steps(n):
    global net, weight_net, moments, sgd_state, adam_state
    for _ in range(n):
        batches = draw(train, lower_order)
        net, moments, sgd_state = call_lower(net, moments, sgd_state, weight_net, batches)
        v = call_gradient(net, draw(meta, upper_order))
        weight_net, adam_state = call_upper(weight_net, adam_state, net, v, batches)
    jax.block_until_ready((net, weight_net))


@jax.jit
def meta_loss(net, moments):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(network(net, meta[0], moments)[0], meta[1]))


def answer():
    return meta_loss(net, moments), np.concatenate([np.ravel(p) for p in weight_net])


def tensor_bytes():
    """What stays, the batch, and the most that a call needs beside its arguments; from the second on there is v."""
    stays = sum(a.nbytes for a in jax.tree.leaves((net, weight_net, moments, sgd_state, adam_state)))
    batch, v = args.micro * args.batch * train[0][0].nbytes, sum(p.nbytes for p in net)
    lower, gradient, upper = (call.memory_analysis().temp_size_in_bytes for call in (call_lower, call_gradient, call_upper))
    return stays + batch + max(lower, gradient + v, upper + v)


peer.serve(program, steps, answer, tensor_bytes)
