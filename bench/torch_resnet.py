"""Meta-Weight-Net with ResNet-32 in PyTorch, by hand: Betty's finite difference, whose two passes keep no graph; the
running statistics move in the classifier's own step only. --layout=last: channels last, as PyTorch advises for CPUs."""
import data
import peer
import resnet

args = peer.arguments()
import torch
import torch.nn.functional as F

import weight_net

torch.set_num_threads(args.threads)
last = args.layout == "last"


def losses(x, y):
    return F.cross_entropy(net(x), y, reduction="none")


def statistics(move):
    for norm in norms:
        norm.momentum = 0.1 if move else 0.0


def lower_step(x, y):
    statistics(True)
    loss = losses(x, y)
    with torch.no_grad():
        share = weigh(loss) / len(y)
    gradient = torch.autograd.grad(loss, theta, share)
    with torch.no_grad():
        torch._fused_sgd_(theta, gradient, momentum, weight_decay=resnet.DECAY, momentum=resnet.MOMENTUM, lr=resnet.LR,
                          dampening=0.0, nesterov=False, maximize=False, is_first_step=False)  # fmt: skip
    statistics(False)


def upper_step(x, y, upper_x, upper_y):
    v = torch.autograd.grad(losses(upper_x, upper_y).mean(), theta)
    with torch.no_grad():
        before = [p.clone() for p in theta]
        epsilon = 0.01 / torch.linalg.vector_norm(torch.stack(torch._foreach_norm(v)))
        shift = torch._foreach_mul(v, epsilon)
        torch._foreach_add_(theta, shift)
        plus = losses(x, y)
        torch._foreach_copy_(theta, before)
        torch._foreach_sub_(theta, shift)
        minus = losses(x, y)
        torch._foreach_copy_(theta, before)
    along = ((weigh(minus) * minus).mean() - (weigh(plus) * plus).mean()) / (2 * epsilon)
    weigh.step(torch.autograd.grad(along, weigh.params))


def rows(name):
    x = resnet.images(data.read(args.folder, f"{name}_x", (-1, 3072)), last)
    return x, torch.from_numpy(data.read(args.folder, f"{name}_y"))


train, meta = rows("train"), rows("meta")
net = resnet.ResNet(args.depth, data.read(args.folder, "lower"))
if last:
    net = net.to(memory_format=torch.channels_last)
norms = [module for module in net.modules() if isinstance(module, torch.nn.BatchNorm2d)]
theta = list(net.parameters())
weigh = weight_net.WeightNet(args.folder, args.lr)
momentum = [torch.zeros_like(p) for p in theta]
steps = weight_net.stepper(args.folder, train, meta, lower_step, upper_step)


@torch.no_grad()
def state():
    loss = F.cross_entropy(net.eval()(meta[0]), meta[1])
    net.train()
    return loss, weigh.vector()


def tensor_bytes():
    stays = sum(t.nbytes for t in [*theta, *momentum, *net.buffers(), *weigh.params, *weigh.m, *weigh.v])
    return peer.torch_peak_bytes(lambda: steps(1)) + stays


statistics(False)
peer.serve(f"PyTorch {torch.__version__}", steps, state, tensor_bytes)
