"""Meta-Weight-Net with ResNet-32 in Betty, as its users write it."""
import itertools

import data
import peer
import resnet

args = peer.arguments()
import torch
import torch.nn.functional as F
from betty.configs import Config, EngineConfig
from betty.engine import Engine
from betty.problems import ImplicitProblem

torch.set_num_threads(args.threads)


class Batches:
    def __init__(self, x, y, order):
        self.x, self.y, self.order = x, y, order

    def __iter__(self):
        for rows in self.order:
            rows = torch.from_numpy(rows)
            yield self.x[rows], self.y[rows]


def statistics(move):
    for norm in norms:
        norm.momentum = 0.1 if move else 0.0


class Weigher(ImplicitProblem):
    def training_step(self, batch):
        x, y = batch
        statistics(False)
        return F.cross_entropy(self.classifier(x), y)


class Classifier(ImplicitProblem):
    """Its own step moves the running statistics, as everywhere in the bench; the two passes of the difference would, too."""

    own = itertools.cycle((True, False, False))

    def training_step(self, batch):
        x, y = batch
        statistics(next(self.own))
        loss = F.cross_entropy(self.module(x), y, reduction="none").reshape(-1, 1)
        weight = self.weigher(loss.detach())
        return torch.mean(weight * loss)


def rows(name):
    return resnet.images(data.read(args.folder, f"{name}_x", (-1, 3072))), torch.from_numpy(data.read(args.folder, f"{name}_y"))


def weigher_net():
    layers = torch.nn.Linear(1, 100), torch.nn.Linear(100, 1)
    params = iter(data.mlp_params(data.read(args.folder, "upper"), [1, 100, 1]))
    for layer in layers:
        layer.weight.data, layer.bias.data = torch.from_numpy(next(params)), torch.from_numpy(next(params))
    return torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.Sigmoid())


lower_order, upper_order = peer.orders(args.folder)
meta_x, meta_y = rows("meta")
net, weight_net = resnet.ResNet(args.depth, data.read(args.folder, "lower")), weigher_net()
norms = [module for module in net.modules() if isinstance(module, torch.nn.BatchNorm2d)]
sgd = torch.optim.SGD(net.parameters(), lr=resnet.LR, momentum=resnet.MOMENTUM, weight_decay=resnet.DECAY)
weigher = Weigher(
    name="weigher",
    module=weight_net,
    optimizer=torch.optim.Adam(weight_net.parameters(), lr=args.lr),
    train_data_loader=Batches(meta_x, meta_y, upper_order),
    config=Config(),
)
classifier = Classifier(name="classifier", module=net, optimizer=sgd,
                        train_data_loader=Batches(*rows("train"), lower_order), config=Config(type="darts"))  # fmt: skip
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
    stays = sum(t.nbytes for t in [*net.parameters(), *net.parameters(), *net.buffers(), *weight_net.parameters()])
    return peer.torch_peak_bytes(lambda: steps(1)) + stays


peer.serve(f"Betty 0.2.1, PyTorch {torch.__version__}", steps, state, tensor_bytes)
