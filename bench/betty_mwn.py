"""Meta-Weight-Net in Betty, as its users would write it: with an MLP, or with --depth a residual network."""
import itertools

import data
import peer

args = peer.arguments()
import torch
import torch.nn.functional as F
from betty.configs import Config, EngineConfig
from betty.engine import Engine
from betty.problems import ImplicitProblem

import networks

version, vectors = peer.use_torch(args)


def mlp(widths, flat, *last):
    """Linear layers with ReLU in between, with the given values."""
    params = iter(data.mlp_params(flat, widths))
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layer = torch.nn.Linear(inputs, outputs)
        layer.weight.data = torch.from_numpy(next(params))
        layer.bias.data = torch.from_numpy(next(params))
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1], *last)


class Batches:
    """Gathers the rows of each batch on request, like a loader whose data fits into memory."""

    def __init__(self, x, y, order):
        self.x, self.y, self.order = x, y, order

    def __iter__(self):
        for rows in self.order:
            rows = torch.from_numpy(rows)
            yield self.x[rows], self.y[rows]


class Weigher(ImplicitProblem):
    def training_step(self, batch):
        x, y = batch
        norms.move(False)
        return F.cross_entropy(self.classifier(x), y)


class Classifier(ImplicitProblem):
    """Only its own step updates the running statistics, as on all sides; otherwise the two passes of the difference
    would, too."""

    own = itertools.cycle((True, False, False))

    def training_step(self, batch):
        x, y = batch
        norms.move(next(self.own))
        loss = F.cross_entropy(self.module(x), y, reduction="none").reshape(-1, 1)
        weight = self.weigher(loss.detach())
        return torch.mean(weight * loss)


def rows(name):
    x = data.read(args.folder, f"{name}_x", (-1, 3072 if args.depth else data.PIXELS))
    return networks.images(x) if args.depth else torch.from_numpy(x), torch.from_numpy(data.read(args.folder, f"{name}_y"))


lower_order, upper_order = peer.orders(args)
meta_x, meta_y = rows("meta")
flat = data.read(args.folder, "lower")
net = networks.made(args, flat) if args.depth else mlp(data.mlp_widths(args), flat)
norms = networks.Norms(net)
weight_net = mlp([1, 100, 1], data.read(args.folder, "upper"), torch.nn.Sigmoid())
weigher = Weigher(
    name="weigher",
    module=weight_net,
    optimizer=torch.optim.SGD(weight_net.parameters(), lr=1.0) if args.double else torch.optim.Adam(
        weight_net.parameters(), lr=args.lr),
    train_data_loader=Batches(meta_x, meta_y, upper_order),
    config=Config(),
)
classifier = Classifier(
    name="classifier",
    module=net,
    optimizer=torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=args.decay),
    train_data_loader=Batches(*rows("train"), lower_order),
    config=Config(type=args.method, unroll_steps=args.unroll),
)
engine = Engine(
    config=EngineConfig(train_iters=1),
    problems=[weigher, classifier],
    dependencies={"u2l": {weigher: [classifier]}, "l2u": {classifier: [weigher]}},
)


def steps(n):
    engine.train_iters = n
    engine.run()


@torch.no_grad()
def state():
    loss = F.cross_entropy(net.eval()(meta_x), meta_y)
    net.train()
    return loss, torch.cat([p.flatten() for p in weight_net.parameters()])


def tensor_bytes():
    """Persistent tensors, with a momentum as large as the parameters, plus the peak of a step; for residual networks
    only."""
    stays = sum(t.nbytes for t in [*net.parameters(), *net.parameters(), *net.buffers(), *weight_net.parameters()])
    return peer.torch_peak_bytes(lambda: steps(1)) + stays if args.depth else None


peer.serve((f"Betty 0.2.1, {version}", vectors), steps, state, tensor_bytes)
