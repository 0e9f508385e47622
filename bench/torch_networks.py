"""Meta-Weight-Net with larger networks in PyTorch, by hand. --product=finite: Betty's finite difference, whose two
passes keep no graph; exact: the losses along the upper gradient. Only the classifier's own step updates the running
statistics. --layout=last: channels last, as PyTorch advises for CPUs."""
import data
import networks
import peer

args = peer.arguments()
import torch
import torch.nn.functional as F

import weight_net

program = peer.use_torch(args)
last = args.layout == "last"
flat_rows = args.network == "deep"


def losses(x, y):
    logits = net(x)
    if logits.dim() == 2:
        return F.cross_entropy(logits, y, reduction="none")
    return F.cross_entropy(logits, y.reshape(-1, *logits.shape[2:]), reduction="none").mean((1, 2))


def lower_step(x, y):
    norms.move(True)
    if args.dropout:
        net.masks = net.draw(len(x))  # the product uses them, too
    loss = losses(x, y)
    with torch.no_grad():
        share = weigh(loss) / len(y)
    gradient = torch.autograd.grad(loss, theta, share)
    with torch.no_grad():
        networks.sgd_step(args, theta, gradient, momentum)
    norms.move(False)


def along_finite(v, x, y):
    with torch.no_grad():
        plus, minus, width = networks.on_both_sides(theta, v, lambda: losses(x, y))
    return ((weigh(minus) * minus).mean() - (weigh(plus) * plus).mean()) / width


def along_exactly(v, x, y):
    """The loss that the weight net reads is constant; the derivative along v is that of J'u by u, times v."""
    loss = losses(x, y)
    u = torch.ones_like(loss, requires_grad=True)
    backward = torch.autograd.grad(loss, theta, u, create_graph=True)
    (along,) = torch.autograd.grad(backward, u, v)
    return -(weigh(loss.detach()) * along).mean()


def upper_step(x, y, upper_x, upper_y):
    if args.dropout:
        masks, net.masks = net.masks, None
    v = torch.autograd.grad(losses(upper_x, upper_y).mean(), theta)
    if args.dropout:
        net.masks = masks
    along = along_exactly(v, x, y) if args.product == "exact" else along_finite(v, x, y)
    weigh.step(torch.autograd.grad(along, weigh.params))


def rows(name):
    x = data.read(args.folder, f"{name}_x", (-1, {"deep": data.PIXELS, "unet": 64 * 64 * 3}.get(args.network, 3072)))
    y = peer.tensor(data.read(args.folder, f"{name}_y"))
    if flat_rows:
        return peer.tensor(x), y
    return networks.images(x, last), y.reshape(len(x), -1) if args.network == "unet" else y


train, meta = rows("train"), rows("meta")
net = networks.made(args, data.read(args.folder, "lower"))
if last:
    net = net.to(memory_format=torch.channels_last)
norms = networks.Norms(net)
theta = list(net.parameters())
weigh = weight_net.WeightNet(args)
momentum = [torch.zeros_like(p) for p in theta]
steps = weight_net.stepper(args, train, meta, lower_step, upper_step)


networks.serve(program, steps, net, norms, losses, meta, weigh, momentum)
