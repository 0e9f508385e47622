"""DARTS in PyTorch, by hand. --product=finite: the difference of two gradients of the mixture, as in its authors' code;
exact: the product by differentiating twice. --layout=last: channels last."""
import data
import networks
import peer

args = peer.arguments()
import torch
import torch.nn.functional as F

import weight_net

program = peer.use_torch(args)
last = args.layout == "last"
NODES, EDGES, CANDIDATES, UPPER_LR = 4, 14, 8, 3e-4


def loss(x, y, mixture):
    return F.cross_entropy(net(x, *(F.softmax(part, -1) for part in mixture)), y)


def lower_step(x, y):
    norms.move(True)
    gradient = torch.autograd.grad(loss(x, y, [part.detach() for part in mixture]), theta)
    with torch.no_grad():
        networks.sgd_step(args, theta, gradient, momentum)
    norms.move(False)


def product_finite(v, x, y):
    gradient = lambda: torch.autograd.grad(loss(x, y, mixture), mixture)
    plus, minus, width = networks.on_both_sides(theta, v, gradient)
    return [(a - b) / width for a, b in zip(plus, minus)]


def product_exact(v, x, y):
    gradient = torch.autograd.grad(loss(x, y, mixture), theta, create_graph=True)
    return torch.autograd.grad(gradient, mixture, v)


def upper_step(x, y, upper_x, upper_y):
    both = torch.autograd.grad(loss(upper_x, upper_y, mixture), theta + mixture)
    v, direct = both[: len(theta)], both[len(theta) :]
    product = product_exact(v, x, y) if args.product == "exact" else product_finite(v, x, y)
    gradient = [d - p for d, p in zip(direct, product)]
    with torch.no_grad():
        if args.double:
            torch._foreach_sub_(mixture, gradient)
            return
        torch._foreach_add_(adam_steps, 1)
        torch._fused_adam_(mixture, gradient, adam_m, adam_v, [], adam_steps, lr=UPPER_LR, beta1=0.9, beta2=0.999,
                           weight_decay=0.0, eps=args.eps, amsgrad=False, maximize=False)  # fmt: skip


def rows(name):
    x = networks.images(data.read(args.folder, f"{name}_x", (-1, 3072)), last)
    return x, torch.from_numpy(data.read(args.folder, f"{name}_y"))


train, meta = rows("train"), rows("meta")
net = networks.fill(networks.Darts(16, 5, NODES), data.read(args.folder, "lower"))
if last:
    net = net.to(memory_format=torch.channels_last)
norms = networks.Norms(net)
theta = list(net.parameters())
momentum = [torch.zeros_like(p) for p in theta]
mixture = [torch.from_numpy(part.copy()).requires_grad_() for part in
           data.read(args.folder, "upper", (2, EDGES, CANDIDATES))]  # fmt: skip
adam_m, adam_v = ([torch.zeros_like(p) for p in mixture] for _ in range(2))
adam_steps = [torch.zeros(()) for _ in mixture]
steps = weight_net.stepper(args, train, meta, lower_step, upper_step)


@torch.no_grad()
def state():
    net.eval()
    value = loss(*meta, mixture)
    net.train()
    return value, torch.cat([part.flatten() for part in mixture])


def tensor_bytes():
    stays = sum(t.nbytes for t in [*theta, *momentum, *net.buffers(), *mixture, *adam_m, *adam_v])
    return peer.torch_peak_bytes(lambda: steps(1)) + stays


norms.move(False)
peer.serve(program, steps, state, tensor_bytes)
