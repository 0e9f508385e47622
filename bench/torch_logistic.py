"""Logistic regression with a penalty per feature in PyTorch, by hand."""
import data
import peer

args = peer.arguments()
import torch
import torch.nn.functional as F

program = peer.use_torch(args)


def log_loss(w, x, y):
    return F.binary_cross_entropy_with_logits(x @ w, y)


def lower_loss(w, penalty, x, y):
    return log_loss(w, x, y) + 0.5 * torch.dot(penalty, w * w)


def conjugate_gradients(product, b):
    """Five steps towards the solution x of product(x) = b, from 0."""
    x, r, p = torch.zeros_like(b), b, b
    rr = torch.dot(r, r)
    for _ in range(5):
        hp = product(p)
        alpha = rr / torch.dot(p, hp)
        x, r = x + alpha * p, r - alpha * hp
        rr, before = torch.dot(r, r), rr
        p = r + rr / before * p
    return x


def lower_step():
    (gradient,) = torch.autograd.grad(lower_loss(w, penalty.detach(), *train), w)
    w.data.add_(gradient, alpha=-0.1)


def hypergradient(v):
    """Every product differentiates the same graph of the gradient."""
    (gradient,) = torch.autograd.grad(lower_loss(w, penalty, *train), w, create_graph=True)
    if args.method == "cg":
        v = conjugate_gradients(lambda u: torch.autograd.grad(gradient, w, u, retain_graph=True)[0], v)
    return torch.autograd.grad(gradient, penalty, v)[0].neg_()


def upper_step():
    (v,) = torch.autograd.grad(log_loss(w, *meta), w)
    momentum.mul_(0.9).add_(hypergradient(v))
    penalty.data.sub_(momentum).clamp_(min=1e-8)


def rows(name):
    x = peer.tensor(data.read(args.folder, f"{name}_x", (-1, data.FEATURES)))
    return x, peer.tensor(data.read(args.folder, f"{name}_y"))


train, meta = rows("train"), rows("meta")
w, penalty = torch.zeros(data.FEATURES, requires_grad=True), torch.ones(data.FEATURES, requires_grad=True)
momentum = torch.zeros(data.FEATURES)


def steps(n):
    for k in range(1, n + 1):
        lower_step()
        if k % args.unroll == 0:
            upper_step()


@torch.no_grad()
def state():
    return log_loss(w, *meta), penalty


peer.serve(program, steps, state)
