"""A step of Adam of a causal language model in PyTorch. --checkpoint=block: torch.utils.checkpoint on each layer;
--chunks: computes the head and its loss in that many slices of the rows, each recomputed in the backward pass, so that
only the logits of one slice are live at a time."""
import numpy as np

import data
import peer

args = peer.arguments()
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

program = peer.use_torch(args)


def attention(q, k, v):
    heads = lambda a: a.unflatten(-1, (data.HEADS, -1)).transpose(1, 2)
    return F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True).transpose(1, 2).flatten(2)


def layer(x, p):
    norm = lambda x, scale, shift: F.layer_norm(x, x.shape[-1:], scale, shift)
    q, k, v = (F.linear(norm(x, *p[3 * i : 3 * i + 2]), p[3 * i + 2]) for i in range(3))
    x = x + F.linear(attention(q, k, v), p[9])
    return x + F.linear(F.relu(F.linear(norm(x, *p[10:12]), *p[12:14])), *p[14:16])


def head(x, y, weight, bias):
    return F.cross_entropy(F.linear(x, weight, bias), y, reduction="sum")


def again(f, *inputs, when):
    return checkpoint(f, *inputs, use_reentrant=False) if when else f(*inputs)


def loss(x, y):
    h = params[0][x] + params[1]
    for k in range(2, len(params) - 2, 16):
        h = again(layer, h, params[k : k + 16], when=args.checkpoint == "block")
    rows = h.flatten(0, 1).chunk(args.chunks), y.flatten().chunk(args.chunks)
    return sum(again(head, *part, *params[-2:], when=args.chunks > 1) for part in zip(*rows)) / y.numel()


xs, ys = (torch.from_numpy(part) for part in data.token_batches(args.folder, args.batch))
params = [torch.from_numpy(p).requires_grad_() for p in data.language_params(data.read(args.folder, "lower"), args.layers)]
optimizer = torch.optim.SGD(params, 1.0) if args.double else torch.optim.Adam(params, args.rate, foreach=True)


def steps(n):
    for k in range(n):
        optimizer.zero_grad()
        loss(xs[k % len(xs)], ys[k % len(xs)]).backward()
        optimizer.step()


def answer():
    with torch.no_grad():
        all = sum(loss(x, y) for x, y in zip(xs, ys)) / len(xs)
        return all, np.concatenate([p.numpy().ravel() for p in params])


def tensor_bytes():
    """Parameters, Adam's moments, and the peak during a step, including its gradients."""
    steps(1)
    optimizer.zero_grad()
    stays = sum(p.nbytes for p in params) * (1 if args.double else 3)
    return stays + peer.torch_peak_bytes(lambda: steps(1))


peer.serve(program, steps, answer, tensor_bytes)
