"""Meta-Weight-Net over a ResNet in JAX: a jitted call for each gradient and product of a micro-batch, so that no call
holds what another one needs. --checkpoint=block: jax.checkpoint on each block; convolutions: the same, but keeps their
results."""
import numpy as np

import data
import peer

args = peer.arguments()
program = peer.use_jax(args)
import jax
import jax.numpy as jnp
import optax
from jax.ad_checkpoint import checkpoint_name

RATE, MOMENTUM = 0.1, 0.9  # of the running statistics and of SGD
sgd = optax.chain(optax.add_decayed_weights(args.decay), optax.sgd(args.rate, momentum=MOMENTUM))
adam = optax.sgd(1.0) if args.double else optax.adam(args.lr)
EACH = (args.depth - 2) // 6
WIDTHS = [16] + [16 << stage for stage in range(3) for _ in range(EACH)]
REMADE = {
    "none": lambda f: f,
    "block": jax.checkpoint,
    "convolutions": lambda f: jax.checkpoint(f, policy=jax.checkpoint_policies.save_only_these_names("convolution")),
}[args.checkpoint]


# ---- the network: each norm uses its statistics, or the batch's if they are None, and returns those it used ----


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


def network(params, x, moments=None):
    """Logits, and the statistics of all norms."""
    at = lambda k, n: moments and moments[k : k + n]
    y, first = norm(convolution(x, params[0]), params[1], params[2], moments and moments[0])
    y, taken = jax.nn.relu(y), [first]
    for k in range(len(WIDTHS) - 1):
        y, more = REMADE(block)(y, params[3 + 6 * k : 9 + 6 * k], at(1 + 2 * k, 2))
        taken += more
    return y.mean((1, 2)) @ params[-2].T + params[-1], taken


def unbiased(taken, x):
    """The unbiased variances for the running statistics, from a batch of x: each map is 1, 1/4 or 1/16 of the image."""
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


# ---- the calls: each adds the contribution of a micro-batch to a sum ----


def summed(sum, part):
    return jax.tree.map(lambda a, b: a + b / args.micro, sum, part)


def lower_gradient(sum, moments, net, weight_net, x, y):
    """Also returns the updated running statistics."""
    gradient, taken = jax.grad(lower_loss, has_aux=True)(net, weight_net, x, y)
    moved = jax.tree.map(lambda old, new: (1 - RATE) * old + RATE * new, moments, unbiased(taken, x))
    return summed(sum, gradient), moved


def upper_gradient(sum, net, x, y):
    return summed(sum, jax.grad(upper_loss)(net, x, y))


def hessian_product(sum, net, weight_net, p, x, y):
    gradient = jax.grad(lambda net: lower_loss(net, weight_net, x, y)[0])
    return summed(sum, jax.jvp(gradient, (net,), (p,))[1])


def mixed_product(sum, net, weight_net, v, x, y):
    along_v = lambda weight_net: jax.jvp(lambda net: lower_loss(net, weight_net, x, y)[0], (net,), (v,))[1]
    return summed(sum, jax.tree.map(jnp.negative, jax.grad(along_v)(weight_net)))


def dot(a, b):
    return sum(jnp.vdot(p, q) for p, q in zip(a, b))


def iterate(x, r, p, hp):
    """Conjugate gradients: a step towards the solution x, given the product of p."""
    add = lambda a, s, b: [p + s * q for p, q in zip(a, b)]
    rr, hp = dot(r, r), add(hp, args.damping, p)
    alpha = rr / dot(p, hp)
    x, r = add(x, alpha, p), add(r, -alpha, hp)
    return x, r, add(r, dot(r, r) / rr, p)


def apply(optimizer, params, state, gradient):
    update, state = optimizer.update(gradient, state, params)
    return optax.apply_updates(params, update), state


# ---- the driver's questions ----


def rows(name):
    x = jnp.asarray(data.read(args.folder, f"{name}_x", (-1, 32, 32, 3)))
    return x, jnp.asarray(data.read(args.folder, f"{name}_y").astype(np.int32))


def network_params(flat):
    """In libbetty's order, with its order of axes."""
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


def zeros(params):
    return [jnp.zeros_like(p) for p in params]


def compiled(f, *inputs, donated=(0,)):
    return jax.jit(f, donate_argnums=donated).lower(*inputs).compile()


batch = train[0][: args.batch], train[1][: args.batch]
calls = dict(
    lower=compiled(lower_gradient, net, moments, net, weight_net, *batch, donated=(0, 1)),
    upper=compiled(upper_gradient, net, net, *batch),
    mixed=compiled(mixed_product, weight_net, net, weight_net, net, *batch),
)
if args.cg:
    calls["hessian"] = compiled(hessian_product, net, net, weight_net, net, *batch)
iterate = jax.jit(iterate, donate_argnums=(0, 1, 2, 3))
apply = jax.jit(apply, static_argnums=0, donate_argnums=(1, 2))
del batch


def draw(rows, order):
    places = [next(order) for _ in range(args.micro)]
    return [(rows[0][place], rows[1][place]) for place in places]


def total(name, like, batches, *inputs):
    sum = zeros(like)
    for batch in batches:
        sum = calls[name](sum, *inputs, *batch)
    return sum


def solved(v, batches):
    x, r, p = zeros(v), v, [jnp.copy(a) for a in v]
    for _ in range(args.cg):
        x, r, p = iterate(x, r, p, total("hessian", v, batches, net, weight_net, p))
    return x


def step():
    global net, weight_net, moments, sgd_state, adam_state
    batches, gradient = draw(train, lower_order), zeros(net)
    for batch in batches:
        gradient, moments = calls["lower"](gradient, moments, net, weight_net, *batch)
    net, sgd_state = apply(sgd, net, sgd_state, gradient)
    del gradient
    v = total("upper", net, draw(meta, upper_order), net)
    if args.cg:
        v = solved(v, batches)
    weight_net, adam_state = apply(adam, weight_net, adam_state, total("mixed", weight_net, batches, net, weight_net, v))


def steps(n):
    for _ in range(n):
        step()
    jax.block_until_ready((net, weight_net))


@jax.jit
def meta_loss(net, moments):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(network(net, meta[0], moments)[0], meta[1]))


def answer():
    return meta_loss(net, moments), np.concatenate([np.ravel(p) for p in weight_net])


def tensor_bytes():
    """Persistent tensors, the batches, and the most that a call needs including the vectors of net's size that are live
    then: a sum; for the products also v, or x, r and p."""
    each = lambda a: sum(p.nbytes for p in jax.tree.leaves(a))
    stays = each((net, weight_net, moments, sgd_state, adam_state))
    batches = args.micro * args.batch * train[0][0].nbytes
    vectors = dict(lower=1, upper=1, hessian=4, mixed=1)
    needs = [call.memory_analysis().temp_size_in_bytes + vectors[name] * each(net) for name, call in calls.items()]
    return stays + batches + max(needs)


peer.serve(program, steps, answer, tensor_bytes)
