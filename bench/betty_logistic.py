"""Logistic regression with a penalty per feature in Betty, as its users would write it."""
import inspect

import data
import peer

args = peer.arguments()
import torch
import torch.nn.functional as F
from betty.configs import Config, EngineConfig
from betty.engine import Engine
from betty.hypergradient import cg, jvp_fn_mapping
from betty.problems import ImplicitProblem

version, vectors = peer.use_torch(args)


def mend_conjugate_gradients():
    """Betty 0.2.1 computes the next direction from the residual before the step; fixed here so that all sides agree."""
    before, after = "zip(r, p)", "zip(r_new, p)"
    source = inspect.getsource(cg)
    assert source.count(before) == 1
    names = dict(vars(inspect.getmodule(cg)))
    exec(source.replace(before, after), names)
    jvp_fn_mapping["cg"] = names["cg"]


class Vector(torch.nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = torch.nn.Parameter(torch.full((data.FEATURES,), value))

    def forward(self):
        return self.value


class Penalty(ImplicitProblem):
    def training_step(self, batch):
        x, y = batch
        return F.binary_cross_entropy_with_logits(x @ self.model(), y)

    def param_callback(self):
        for p in self.trainable_parameters():
            p.data.clamp_(min=1e-8)


class Model(ImplicitProblem):
    def training_step(self, batch):
        x, y = batch
        w = self.module()
        return F.binary_cross_entropy_with_logits(x @ w, y) + 0.5 * torch.sum(self.penalty() * w**2)


def rows(name):
    x = torch.from_numpy(data.read(args.folder, f"{name}_x", (-1, data.FEATURES)))
    return x, torch.from_numpy(data.read(args.folder, f"{name}_y"))


mend_conjugate_gradients()
train, meta = rows("train"), rows("meta")
penalties, weights = Vector(1.0), Vector(0.0)
penalty = Penalty(
    name="penalty",
    module=penalties,
    optimizer=torch.optim.SGD(penalties.parameters(), lr=1, momentum=0.9),
    train_data_loader=[meta],
    config=Config(),
)
model = Model(
    name="model",
    module=weights,
    optimizer=torch.optim.SGD(weights.parameters(), lr=0.1),
    train_data_loader=[train],
    config=Config(type=args.method, unroll_steps=args.unroll, cg_iterations=5),
)
engine = Engine(
    config=EngineConfig(train_iters=1),
    problems=[penalty, model],
    dependencies={"u2l": {penalty: [model]}, "l2u": {model: [penalty]}},
)


def steps(n):
    engine.train_iters = n
    engine.run()


@torch.no_grad()
def state():
    return F.binary_cross_entropy_with_logits(meta[0] @ weights(), meta[1]), penalties()


peer.serve((f"Betty 0.2.1, {version}", vectors), steps, state)
