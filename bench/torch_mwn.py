"""Meta-Weight-Net in PyTorch, by hand: no optimiser objects, no graph unless it is needed, updates by fused kernels.

The hypergradient is the exact product with the identity in place of the inverse Hessian: the lower losses along the
upper gradient, weighted. The loss that the weight net reads is constant.
"""
import data
import peer

args = peer.arguments()
import torch
import torch.nn.functional as F

import weight_net

program = peer.use_torch(args)


def mlp(params, x):
    for k in range(0, len(params) - 2, 2):
        x = F.relu(F.linear(x, params[k], params[k + 1]))
    return F.linear(x, params[-2], params[-1])


def losses(net, x, y):
    return F.cross_entropy(mlp(net, x), y, reduction="none")


def lower_step(x, y):
    loss = losses(net, x, y)
    with torch.no_grad():
        share = weigh(loss) / len(y)
    gradient = torch.autograd.grad(loss, net, share)
    with torch.no_grad():
        torch._fused_sgd_(net, gradient, momentum, weight_decay=0.0, momentum=0.9, lr=0.1, dampening=0.0,
                          nesterov=False, maximize=False, is_first_step=False)  # fmt: skip


def losses_along(v, x, y):
    """The losses, and their derivative along v: that of J'u by u, times v (faster here than forward differentiation).
    """
    loss = losses(net, x, y)
    u = torch.ones_like(loss, requires_grad=True)
    backward = torch.autograd.grad(loss, net, u, create_graph=True)
    return loss.detach(), torch.autograd.grad(backward, u, v)[0]


def upper_step(x, y, upper_x, upper_y):
    v = torch.autograd.grad(losses(net, upper_x, upper_y).mean(), net)
    loss, along = losses_along(v, x, y)
    weigh.step(torch.autograd.grad(weigh(loss), weigh.params, along / -len(y)))


def rows(name):
    x = peer.tensor(data.read(args.folder, f"{name}_x", (-1, data.PIXELS)))
    return x, peer.tensor(data.read(args.folder, f"{name}_y"))


train, meta = rows("train"), rows("meta")
flat = data.mlp_params(data.read(args.folder, "lower"), data.mlp_widths(args))
net, weigh = [peer.tensor(p).requires_grad_() for p in flat], weight_net.WeightNet(args)
momentum = [torch.zeros_like(p) for p in net]
steps = weight_net.stepper(args, train, meta, lower_step, upper_step)


@torch.no_grad()
def state():
    return losses(net, *meta).mean(), weigh.vector()


peer.serve(program, steps, state)
