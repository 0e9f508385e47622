"""Prints tests/optim/golden_optimizers.h: thirty steps of PyTorch's optimisers, of Adafactor as transformers has it, and
of Lion and LAMB by their papers' formulas, in double precision.

Parameters a [2, 3] and b [5], as one vector p of 11: p_i = cos(2.3 i) + 0.1 i. Gradient at step t, from 1:
(0.3 + 0.35 i) (p_i - sin(1.7 i + 0.4)) + 0.5 sin(0.9 t + 1.7 i).

    python3 tests/optim/golden_optimizers.py > tests/optim/golden_optimizers.h
"""
import warnings

import torch
import transformers

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)  # NAdam keeps its product in the default dtype
STEPS, SHOWN = 30, (1, 2, 6, 30)
index = torch.arange(11, dtype=torch.float64)


class Lion:
    """Chen et al., Symbolic discovery of optimization algorithms, NeurIPS 2023, Algorithm 2; decoupled decay."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        self.params, self.lr, self.betas, self.decay = params, lr, betas, weight_decay
        self.m = [torch.zeros_like(p) for p in params]

    def step(self):
        for p, m in zip(self.params, self.m):
            direction = torch.sign(self.betas[0] * m + (1 - self.betas[0]) * p.grad)
            p.data = p.data - self.lr * (direction + self.decay * p.data)
            m.copy_(self.betas[1] * m + (1 - self.betas[1]) * p.grad)


class Lamb:
    """You et al., Large batch optimization for deep learning, ICLR 2020, Algorithm 2, phi the identity."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        self.params, self.lr, self.betas, self.eps, self.decay, self.t = params, lr, betas, eps, weight_decay, 0
        self.m = [torch.zeros_like(p) for p in params]
        self.v = [torch.zeros_like(p) for p in params]

    def step(self):
        self.t += 1
        for p, m, v in zip(self.params, self.m, self.v):
            m.copy_(self.betas[0] * m + (1 - self.betas[0]) * p.grad)
            v.copy_(self.betas[1] * v + (1 - self.betas[1]) * p.grad**2)
            r = (m / (1 - self.betas[0] ** self.t)) / ((v / (1 - self.betas[1] ** self.t)).sqrt() + self.eps)
            u = r + self.decay * p.data
            ratio = p.data.norm() / u.norm() if p.data.norm() > 0 and u.norm() > 0 else 1.0
            p.data = p.data - self.lr * ratio * u


def betas(s):
    pair = s.pop("beta1", 0.9), s.pop("beta2", 0.999)
    return {**s, "betas": pair}


def torch_adafactor(params, eps1=None, eps2=1e-3, relative_step=0, **s):
    return torch.optim.Adafactor(params, eps=(eps1, eps2), **s)


def hugging_adafactor(params, eps1=1e-30, eps2=1e-3, d=1.0, beta2_decay=-0.8, **s):
    return transformers.Adafactor(params, lr=None, eps=(eps1, eps2), clip_threshold=d, decay_rate=beta2_decay, **s)


MAKERS = {
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "radam": lambda p, **s: torch.optim.RAdam(p, **betas(s)),
    "nadam": lambda p, **s: torch.optim.NAdam(p, **betas(s)),
    "adam": lambda p, **s: torch.optim.Adam(p, **betas(s)),
    "adamw": lambda p, **s: torch.optim.AdamW(p, **betas(s)),
    "lion": lambda p, **s: Lion(p, **betas({"beta2": 0.99, **s})),
    "lamb": lambda p, **s: Lamb(p, **betas(s)),
    "adafactor": lambda p, **s: (torch_adafactor if s.get("relative_step") == 0 else hugging_adafactor)(p, **s),
}

CASES = [
    ("rmsprop", {}),
    ("rmsprop", dict(lr=0.02, momentum=0.9)),
    ("rmsprop", dict(lr=0.02, centered=1)),
    ("rmsprop", dict(lr=0.02, alpha=0.9, momentum=0.5, centered=1, weight_decay=0.1, eps=1e-4)),
    ("adagrad", {}),
    ("adagrad", dict(lr=0.1, lr_decay=0.1, weight_decay=0.1, eps=1e-6)),
    ("adagrad", dict(lr=0.1, initial_accumulator_value=0.5)),
    ("radam", {}),
    ("radam", dict(lr=0.05, beta2=0.9, weight_decay=0.1)),
    ("radam", dict(lr=0.05, beta1=0.7, beta2=0.95, eps=1e-4, weight_decay=0.1, decoupled_weight_decay=1)),
    ("nadam", {}),
    ("nadam", dict(lr=0.05, weight_decay=0.1, momentum_decay=0.05)),
    ("nadam", dict(lr=0.05, beta1=0.7, beta2=0.9, eps=1e-4, weight_decay=0.1, decoupled_weight_decay=1)),
    ("adam", dict(lr=0.05, amsgrad=1)),
    ("adam", dict(lr=0.05, beta2=0.8, amsgrad=1, weight_decay=0.1, eps=1e-4)),
    ("adamw", dict(lr=0.05, beta2=0.8, amsgrad=1)),
    ("lion", {}),
    ("lion", dict(lr=0.01, beta1=0.8, beta2=0.95, weight_decay=0.1)),
    ("lamb", {}),
    ("lamb", dict(lr=0.02, beta1=0.8, beta2=0.95, eps=1e-4, weight_decay=0.1)),
    ("adafactor", {}),
    ("adafactor", dict(scale_parameter=0, weight_decay=0.1, d=0.7)),
    ("adafactor", dict(warmup_init=1, beta2_decay=-0.5, eps1=1e-4, eps2=0.1)),
    ("adafactor", dict(relative_step=0, lr=0.01)),
    ("adafactor", dict(relative_step=0, lr=0.3, weight_decay=0.1, d=1.1, beta2_decay=-0.6)),
    ("adafactor", dict(relative_step=0, lr=0.3, eps1=0.5, eps2=0.9)),
]


def run(name, settings):
    p = torch.cos(2.3 * index) + 0.1 * index
    params = [torch.nn.Parameter(p[:6].reshape(2, 3).clone()), torch.nn.Parameter(p[6:].clone())]
    optimizer, rows = MAKERS[name](params, **settings), []
    for t in range(1, STEPS + 1):
        p = torch.cat([q.data.flatten() for q in params])
        g = (0.3 + 0.35 * index) * (p - torch.sin(1.7 * index + 0.4)) + 0.5 * torch.sin(0.9 * t + 1.7 * index)
        params[0].grad, params[1].grad = g[:6].reshape(2, 3).clone(), g[6:].clone()
        optimizer.step()
        if t in SHOWN:
            rows.append(torch.cat([q.data.flatten() for q in params]).tolist())
    return rows


print(f"/* tests/optim/golden_optimizers.h: printed by golden_optimizers.py with PyTorch {torch.__version__} and transformers")
print(f" * {transformers.__version__}, in double precision: the parameters after so many steps. */")
print("enum { GOLDEN_STEPS = 30, GOLDEN_SHOWN = %d };" % len(SHOWN))
print("static const int golden_shown[GOLDEN_SHOWN] = {%s};" % ", ".join(map(str, SHOWN)))
print("static const struct {\n    const char *name, *settings;\n    double after[GOLDEN_SHOWN][11];\n} golden_optimizers[] = {")
for name, settings in CASES:
    text = " ".join(f"{k}={v}" for k, v in settings.items())
    print('    {"%s",\n     "%s",\n     {' % (name, text))
    for row in run(name, dict(settings)):
        print("         {" + ", ".join(f"{x:.15g}" for x in row) + "},")
    print("     }},")
print("};")
