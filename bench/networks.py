"""Networks in PyTorch with libbetty's initial values, shared by the PyTorch and Betty sides. Parameters come in
libbetty's order from one vector; images are rows of [size, size, 3]."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import peer

MOMENTUM, DECAY = 0.9, 5e-4  # of SGD


def conv(inputs, outputs, window, stride=1, dilation=1, groups=1, bias=False):
    return nn.Conv2d(inputs, outputs, window, stride, dilation * (window // 2), dilation, groups, bias)


def fill(module, flat):
    """Sets its parameters from the vector; libbetty's windows are [window, window, in, out]."""
    at = 0
    for p in module.parameters():
        values = peer.tensor(flat[at : at + p.numel()].copy())
        if p.dim() == 4:
            o, i, h, w = p.shape
            values = values.reshape(h, w, i, o).permute(3, 2, 0, 1)
        p.data = values.reshape(p.shape).contiguous()
        at += p.numel()
    assert at == len(flat)
    return module


def images(rows, channels_last=False):
    """[n, 3, size, size]; channels_last: the layout in memory."""
    size = math.isqrt(rows.shape[1] // 3)
    x = peer.tensor(rows.reshape(-1, size, size, 3)).permute(0, 3, 1, 2)
    return x if channels_last else x.contiguous()


# ---- residual networks ----


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3, 1 if inputs == outputs else 2), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        pad = (y.shape[1] - x.shape[1]) // 2
        return F.relu(y + (F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, pad, pad)) if pad else x))


class ResNet(nn.Module):
    def __init__(self, depth):  # 6k + 2
        super().__init__()
        self.conv1, self.bn1 = conv(3, 16, 3), nn.BatchNorm2d(16)
        widths = [16] + [16 << stage for stage in range(3) for _ in range((depth - 2) // 6)]
        self.blocks = nn.Sequential(*(Block(i, o) for i, o in zip(widths, widths[1:])))
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.linear(x.mean((2, 3)))


class Again(nn.Module):
    """A block that is recomputed in the backward pass: torch.utils.checkpoint by hand. That would also update the
    norms' running statistics again, unless Norms has frozen them by then."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False, preserve_rng_state=False)


class WideBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), conv(inputs, outputs, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outputs), conv(outputs, outputs, 3)
        self.shortcut = conv(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else None

    def forward(self, x):
        y = F.relu(self.bn1(x))
        shortcut = self.shortcut(y) if self.shortcut else x
        return self.conv2(F.relu(self.bn2(self.conv1(y)))) + shortcut


class WideResNet(nn.Module):
    def __init__(self, depth, widen):  # 6k + 4
        super().__init__()
        self.conv1, inputs, blocks = conv(3, 16, 3), 16, []
        for stage in range(3):
            for k in range((depth - 4) // 6):
                blocks.append(WideBlock(inputs, widen * 16 << stage, 2 if stage and k == 0 else 1))
                inputs = widen * 16 << stage
        self.blocks, self.bn1, self.fc = nn.Sequential(*blocks), nn.BatchNorm2d(inputs), nn.Linear(inputs, 10)

    def forward(self, x):
        return self.fc(F.relu(self.bn1(self.blocks(self.conv1(x)))).mean((2, 3)))


# ---- U-Net: a class for each pixel ----


def twice(inputs, outputs):
    layers = []
    for width in (inputs, outputs):
        layers += [conv(width, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, filters):
        super().__init__()
        f = filters
        self.wide, self.small, self.least = twice(3, f), twice(f, 2 * f), twice(2 * f, 4 * f)
        self.up, self.top, self.head = twice(6 * f, 2 * f), twice(3 * f, f), conv(f, 10, 1, bias=True)

    def forward(self, x):
        larger = lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        wide = self.wide(x)
        small = self.small(F.max_pool2d(wide, 2))
        up = self.up(torch.cat((larger(self.least(F.max_pool2d(small, 2))), small), 1))
        return self.head(self.top(torch.cat((larger(up), wide), 1)))


# ---- many layers ----


class Deep(nn.Module):
    """masks: for layers that must drop the same elements again; None: new masks."""

    def __init__(self, layers, hidden, dropout):
        super().__init__()
        self.hidden, self.dropout, self.masks = hidden, dropout, None
        self.layers = nn.ModuleList()
        for k in range(layers):
            self.layers.append(nn.Linear(hidden if k else 784, hidden))
            self.layers.append(nn.LayerNorm(hidden))
        self.head = nn.Linear(hidden, 10)

    def draw(self, rows):
        """Draws masks for that many rows."""
        keep = 1 - self.dropout
        count = len(self.layers) // 2 if self.dropout else 0
        return [torch.empty(rows, self.hidden).bernoulli_(keep).div_(keep) for _ in range(count)]

    def forward(self, x):
        for k in range(0, len(self.layers), 2):
            x = F.gelu(self.layers[k + 1](self.layers[k](x)))
            if self.dropout and self.training:
                x = x * self.masks[k // 2] if self.masks else F.dropout(x, self.dropout)
        return self.head(x)


# ---- DARTS ----


def norm(channels):
    return nn.BatchNorm2d(channels, affine=False)


def relu_conv_norm(inputs, outputs):
    return nn.Sequential(nn.ReLU(), conv(inputs, outputs, 1), norm(outputs))


def separable(channels, window, stride, dilation=1):
    return nn.Sequential(nn.ReLU(), conv(channels, channels, window, stride, dilation, channels),
                         conv(channels, channels, 1), norm(channels))  # fmt: skip


class Halve(nn.Module):
    """Halves the map, from two grids that are one pixel apart."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.even, self.odd = conv(inputs, outputs - outputs // 2, 1, 2), conv(inputs, outputs // 2, 1, 2)
        self.norm = norm(outputs)

    def forward(self, x):
        x = F.relu(x)
        return self.norm(torch.cat((self.even(x), self.odd(F.pad(x[:, :, 1:, 1:], (0, 1, 0, 1)))), 1))


class Edge(nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        pools = nn.MaxPool2d(3, stride, 1), nn.AvgPool2d(3, stride, 1, count_include_pad=False)
        self.candidates = nn.ModuleList([nn.Sequential(pool, norm(channels)) for pool in pools])
        self.candidates.append(nn.Identity() if stride == 1 else Halve(channels, channels))
        for window in (3, 5):
            both = separable(channels, window, stride), separable(channels, window, 1)
            self.candidates.append(nn.Sequential(*both))
        self.candidates += [separable(channels, window, stride, 2) for window in (3, 5)]

    def forward(self, x, weight):
        """The first candidate is "none", which adds nothing."""
        return sum(weight[k + 1] * candidate(x) for k, candidate in enumerate(self.candidates))


class Cell(nn.Module):
    def __init__(self, before, now, filters, nodes, after_reduction, reduces):
        super().__init__()
        self.nodes = nodes
        self.before = Halve(before, filters) if after_reduction else relu_conv_norm(before, filters)
        self.now = relu_conv_norm(now, filters)
        inputs = [j for node in range(nodes) for j in range(node + 2)]
        self.edges = nn.ModuleList(Edge(filters, 2 if reduces and j < 2 else 1) for j in inputs)

    def forward(self, before, now, weights):
        states, edges = [self.before(before), self.now(now)], iter(zip(self.edges, weights))
        for _ in range(self.nodes):
            states.append(sum(edge(x, weight) for x, (edge, weight) in zip(list(states), edges)))
        return torch.cat(states[2:], 1)


class Darts(nn.Module):
    def __init__(self, filters, cells, nodes):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 3 * filters, 3), nn.BatchNorm2d(3 * filters))
        self.reductions, self.cells = (cells // 3, 2 * cells // 3), nn.ModuleList()
        before = now = 3 * filters
        after = False
        for k in range(cells):
            reduces = k in self.reductions
            filters *= 2 if reduces else 1
            self.cells.append(Cell(before, now, filters, nodes, after, reduces))
            before, now, after = now, nodes * filters, reduces
        self.head = nn.Linear(now, 10)

    def forward(self, x, normal, reduce):
        before = now = self.stem(x)
        for k, cell in enumerate(self.cells):
            before, now = now, cell(before, now, reduce if k in self.reductions else normal)
        return self.head(now.mean((2, 3)))


# ---- shared by the programs ----


def made(args, flat):
    """The network that the arguments name."""
    if args.network == "deep":
        return fill(Deep(args.layers, args.hidden, args.dropout), flat)
    return fill({"wrn": lambda: WideResNet(16, 4), "unet": lambda: UNet(32), "resnet": lambda: ResNet(args.depth)}[
        args.network](), flat)  # fmt: skip


def sgd_step(args, params, gradient, momentum):
    """With PyTorch's fused kernel."""
    torch._fused_sgd_(params, gradient, momentum, weight_decay=args.decay, momentum=MOMENTUM, lr=args.rate,
                      dampening=0.0, nesterov=False, maximize=False, is_first_step=False)  # fmt: skip


def on_both_sides(params, v, f):
    """f() with the parameters moved along v and against it, as in Betty's difference; and the distance between the two.
    """
    with torch.no_grad():
        before = [p.clone() for p in params]
        epsilon = 0.01 / torch.linalg.vector_norm(torch.stack(torch._foreach_norm(v)))
        shift = torch._foreach_mul(v, epsilon)
        torch._foreach_add_(params, shift)
    plus = f()
    with torch.no_grad():
        torch._foreach_copy_(params, before)
        torch._foreach_sub_(params, shift)
    minus = f()
    with torch.no_grad():
        torch._foreach_copy_(params, before)
    return plus, minus, 2 * epsilon


class Norms:
    """The batch norms of a network: only the network's own step updates their statistics, on all sides."""

    def __init__(self, network):
        self.all = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]

    def move(self, move):
        for each in self.all:
            each.momentum = 0.1 if move else 0.0


def serve(program, steps, net, norms, losses, meta, weigh, momentum):
    """Answers for a network and its weight net: the loss on `meta`, the weight net's parameters, the bytes of tensors.
    """

    @torch.no_grad()
    def state():
        net.eval()
        loss = losses(*meta).mean()
        net.train()
        return loss, weigh.vector()

    def tensor_bytes():
        stays = [*net.parameters(), *momentum, *net.buffers(), *weigh.params, *weigh.m, *weigh.v]
        return peer.torch_peak_bytes(lambda: steps(1)) + sum(t.nbytes for t in stays)

    norms.move(False)
    peer.serve(program, steps, state, tensor_bytes)
