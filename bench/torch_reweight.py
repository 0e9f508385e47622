"""Meta-Weight-Net over a ResNet in PyTorch, written by hand to save memory: --checkpoint=block uses
torch.utils.checkpoint; --autocast computes the network in bf16; --micro sets the micro-batches per step;
--along=forward computes derivatives along a direction without a graph; with --cg, --graphs=anew builds a new graph for
each product. A product is with the Hessian of the weighted losses, whose weights are constants."""
import data
import networks
import peer

args = peer.arguments()
import torch
import torch.autograd.forward_ad as fwAD
import torch.nn.functional as F

import weight_net

program = peer.use_torch(args)
assert args.checkpoint in ("none", "block")


def losses(x, y, params=None):
    with torch.autocast("cpu", torch.bfloat16, enabled=args.autocast and not args.double):
        logits = net(x) if params is None else torch.func.functional_call(net, dict(zip(names, params)), x)
    return F.cross_entropy(logits if args.double else logits.float(), y, reduction="none")


def weighted(loss):
    """The micro-batch's part of the lower loss; the loss that the weight net reads is constant."""
    return (weigh(loss.detach()) * loss).mean() / args.micro


def total(parts):
    """Sums lists of tensors, freeing each before the next one is made."""
    found = None
    for part in parts:
        if found is None:
            found = list(part)
        else:
            torch._foreach_add_(found, part)
        del part
    return found


def lower_step(batches):
    def gradient(x, y):
        norms.move(True)
        loss = weighted(losses(x, y))
        norms.move(False)  # before the backward pass, which may recompute them
        return torch.autograd.grad(loss, theta)

    gradients = total(gradient(*batch) for batch in batches)
    with torch.no_grad():
        networks.sgd_step(args, theta, gradients, momentum)


# ---- the product of Meta-Weight-Net: losses along a direction, differentiated by the weight net ----


def along_backward(v, x, y):
    """The derivative of J'u by u, times v."""
    loss = losses(x, y)
    u = torch.ones_like(loss, requires_grad=True)
    backward = torch.autograd.grad(loss, theta, u, create_graph=True)
    return loss.detach(), torch.autograd.grad(backward, u, v)[0]


def along_forward(v, x, y):
    with torch.no_grad(), fwAD.dual_level():
        return fwAD.unpack_dual(losses(x, y, [fwAD.make_dual(p, t) for p, t in zip(theta, v)]))


def product(v, x, y):
    loss, along = {"backward": along_backward, "forward": along_forward}[args.along](v, x, y)
    return torch.autograd.grad(weigh(loss), weigh.params, along / -(len(y) * args.micro))


def darts(v, batches):
    return total(product(v, *batch) for batch in batches)


# ---- conjugate gradients ----


def dot(a, b):
    return sum(torch.dot(p.flatten(), q.flatten()) for p, q in zip(a, b))


def conjugate_gradients(product, b):
    """Steps towards the solution x of product(x) = b, from 0."""
    x, r, p = [torch.zeros_like(t) for t in b], list(b), list(b)
    rr = dot(r, r)
    for _ in range(args.cg):
        hp = product(p)
        alpha = rr / dot(p, hp)
        torch._foreach_add_(x, torch._foreach_mul(p, alpha))
        r = torch._foreach_sub(r, torch._foreach_mul(hp, alpha))
        rr, before = dot(r, r), rr
        p = torch._foreach_add(r, torch._foreach_mul(p, rr / before))
    return x


def solved(v, batches):
    graph = lambda x, y: torch.autograd.grad(weighted(losses(x, y)), theta, create_graph=True)
    held = [graph(*batch) for batch in batches] if args.graphs == "held" else None
    graphs = lambda: held or (graph(*batch) for batch in batches)
    along = lambda by, v: total(torch.autograd.grad(g, by, v, retain_graph=bool(held)) for g in graphs())
    x = conjugate_gradients(lambda p: torch._foreach_add(along(theta, p), torch._foreach_mul(p, args.damping)), v)
    return torch._foreach_neg(along(weigh.params, x))


def upper_step(batches, upper_batches):
    gradient = lambda x, y: torch.autograd.grad(losses(x, y).mean() / args.micro, theta)
    v = total(gradient(*batch) for batch in upper_batches)
    weigh.step((solved if args.cg else darts)(v, batches))


def rows(name):
    x = data.read(args.folder, f"{name}_x", (-1, 3072))
    return networks.images(x, True), torch.from_numpy(data.read(args.folder, f"{name}_y"))


train, meta = rows("train"), rows("meta")
net = networks.made(args, data.read(args.folder, "lower")).to(memory_format=torch.channels_last)
if args.checkpoint == "block":
    for k, block in enumerate(net.blocks):
        net.blocks[k] = networks.Again(block)
norms = networks.Norms(net)
names, theta = map(list, zip(*net.named_parameters()))
weigh = weight_net.WeightNet(args)
momentum = [torch.zeros_like(p) for p in theta]
lower_order, upper_order = peer.orders(args)


def draw(rows, order):
    places = [torch.from_numpy(next(order)) for _ in range(args.micro)]
    return [(rows[0][place], rows[1][place]) for place in places]


def steps(n):
    for _ in range(n):
        batches = draw(train, lower_order)
        lower_step(batches)
        upper_step(batches, draw(meta, upper_order))


networks.serve(program, steps, net, norms, losses, meta, weigh, momentum)
