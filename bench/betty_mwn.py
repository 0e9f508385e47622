"""Meta-Weight-Net in Betty, as its users write it."""
import data
import peer

args = peer.arguments()
import torch
import torch.nn.functional as F
from betty.configs import Config, EngineConfig
from betty.engine import Engine
from betty.problems import ImplicitProblem

torch.set_num_threads(args.threads)


def mlp(widths, flat, *last):
    """Linear layers with ReLU between them, with the given values."""
    params = iter(data.mlp_params(flat, widths))
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layer = torch.nn.Linear(inputs, outputs)
        layer.weight.data = torch.from_numpy(next(params))
        layer.bias.data = torch.from_numpy(next(params))
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1], *last)


class Batches:
    """The rows of each batch are gathered when it is asked for, as by a loader whose data fits into memory."""

    def __init__(self, x, y, order):
        self.x, self.y, self.order = x, y, order

    def __iter__(self):
        for rows in self.order:
            rows = torch.from_numpy(rows)
            yield self.x[rows], self.y[rows]


class Weigher(ImplicitProblem):
    def training_step(self, batch):
        x, y = batch
        return F.cross_entropy(self.classifier(x), y)


class Classifier(ImplicitProblem):
    def training_step(self, batch):
        x, y = batch
        loss = F.cross_entropy(self.module(x), y, reduction="none").reshape(-1, 1)
        weight = self.weigher(loss.detach())
        return torch.mean(weight * loss)


def rows(name):
    x = torch.from_numpy(data.read(args.folder, f"{name}_x", (-1, data.PIXELS)))
    return x, torch.from_numpy(data.read(args.folder, f"{name}_y"))


lower_order, upper_order = peer.orders(args.folder)
meta_x, meta_y = rows("meta")
net = mlp([data.PIXELS, args.hidden, data.CLASSES], data.read(args.folder, "lower"))
weight_net = mlp([1, 100, 1], data.read(args.folder, "upper"), torch.nn.Sigmoid())
weigher = Weigher(
    name="weigher",
    module=weight_net,
    optimizer=torch.optim.Adam(weight_net.parameters(), lr=args.lr),
    train_data_loader=Batches(meta_x, meta_y, upper_order),
    config=Config(),
)
classifier = Classifier(
    name="classifier",
    module=net,
    optimizer=torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
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
    loss = F.cross_entropy(net(meta_x), meta_y)
    return loss, torch.cat([p.flatten() for p in weight_net.parameters()])


peer.serve(f"Betty 0.2.1, PyTorch {torch.__version__}", steps, state)
