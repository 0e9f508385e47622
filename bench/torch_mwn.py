"""Meta-Weight-Net in PyTorch, by hand: no optimiser objects, no graph where none is needed, updates by fused kernels.

The hypergradient is the exact product with the identity in the place of the inverse Hessian: the lower losses along
the upper gradient, weighted. The loss that the weight net reads is constant.
"""
import data
import peer

args = peer.arguments()
import torch
import torch.nn.functional as F

torch.set_num_threads(args.threads)


def mlp(params, x):
    return F.linear(F.relu(F.linear(x, params[0], params[1])), params[2], params[3])


def losses(net, x, y):
    return F.cross_entropy(mlp(net, x), y, reduction="none")


def weights(weight_net, loss):
    return torch.sigmoid(mlp(weight_net, loss[:, None]))[:, 0]


def lower_step(x, y):
    loss = losses(net, x, y)
    with torch.no_grad():
        share = weights(weight_net, loss) / len(y)
    gradient = torch.autograd.grad(loss, net, share)
    with torch.no_grad():
        torch._fused_sgd_(net, gradient, momentum, weight_decay=0.0, momentum=0.9, lr=0.1, dampening=0.0,
                          nesterov=False, maximize=False, is_first_step=False)  # fmt: skip


def losses_along(v, x, y):
    """The losses, and their derivative along v: that of J'u by u, times v (faster here than forward differentiation)."""
    loss = losses(net, x, y)
    u = torch.ones_like(loss, requires_grad=True)
    backward = torch.autograd.grad(loss, net, u, create_graph=True)
    return loss.detach(), torch.autograd.grad(backward, u, v)[0]


def upper_step(x, y, upper_x, upper_y):
    v = torch.autograd.grad(losses(net, upper_x, upper_y).mean(), net)
    loss, along = losses_along(v, x, y)
    gradient = torch.autograd.grad(weights(weight_net, loss), weight_net, along / -len(y))
    with torch.no_grad():
        torch._foreach_add_(adam_steps, 1)
        torch._fused_adam_(weight_net, gradient, adam_m, adam_v, [], adam_steps, lr=args.lr, beta1=0.9, beta2=0.999,
                           weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)  # fmt: skip


def rows(name):
    x = torch.from_numpy(data.read(args.folder, f"{name}_x", (-1, data.PIXELS)))
    return x, torch.from_numpy(data.read(args.folder, f"{name}_y"))


def params(name, widths):
    return [torch.from_numpy(p).requires_grad_() for p in data.mlp_params(data.read(args.folder, name), widths)]


train, meta = rows("train"), rows("meta")
net, weight_net = params("lower", [data.PIXELS, args.hidden, data.CLASSES]), params("upper", [1, 100, 1])
momentum = [torch.zeros_like(p) for p in net]
adam_m, adam_v = ([torch.zeros_like(p) for p in weight_net] for _ in range(2))
adam_steps = [torch.zeros(()) for _ in weight_net]
lower_order, upper_order = peer.orders(args.folder)


def draw(rows, order):
    places = torch.from_numpy(next(order))
    return rows[0][places], rows[1][places]


def steps(n):
    for _ in range(n):
        batch = draw(train, lower_order)
        lower_step(*batch)
        upper_step(*batch, *draw(meta, upper_order))


@torch.no_grad()
def state():
    return losses(net, *meta).mean(), torch.cat([p.flatten() for p in weight_net])


peer.serve(f"PyTorch {torch.__version__}", steps, state)
