"""A step of SGD of an MLP in PyTorch, by hand."""
import numpy as np

import data
import peer

args = peer.arguments()
import torch
import torch.nn.functional as F

program = peer.use_torch(args)


def loss(params, x, y):
    for k in (0, 2):
        x = F.relu(F.linear(x, params[k], params[k + 1]))
    return F.cross_entropy(F.linear(x, params[4], params[5]), y)


xs = peer.tensor(data.read(args.folder, "train_x", (8, args.batch, args.hidden)))
ys = peer.tensor(data.read(args.folder, "train_y", (8, args.batch)))
batches = list(zip(xs, ys))
widths = [args.hidden, args.hidden, args.hidden, data.CLASSES]
flat = data.mlp_params(data.read(args.folder, "lower"), widths)
params = [peer.tensor(p).requires_grad_() for p in flat]


def steps(n):
    for k in range(n):
        gradient = torch.autograd.grad(loss(params, *batches[k % 8]), params)
        with torch.no_grad():
            torch._foreach_add_(params, gradient, alpha=-0.1)


def answer():
    with torch.no_grad():
        return loss(params, xs.reshape(-1, args.hidden), ys.reshape(-1)), np.concatenate(
            [p.cpu().numpy().ravel() for p in params])


peer.serve(program, steps, answer)
