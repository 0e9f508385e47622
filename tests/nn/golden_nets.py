"""Prints tests/nn/golden_nets.h: what PyTorch computes for the ready networks, with values made by a formula.

Parameter or buffer number t, in the order of PyTorch's named_parameters, then of its buffers, has at place e of
libbetty's layout the value s = sin(0.7 t + 1.3 e + 0.1), scaled: weights of more than one axis s / sqrt(fan), weights of
a normalisation 1 + 0.1 s, biases and means 0.1 s, variances 1 + 0.5 s^2. Pixel e of the images is cos(0.37 e).
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.set_default_dtype(torch.float64)


def fill(net):
    items = list(net.named_parameters()) + [b for b in net.named_buffers() if "tracked" not in b[0]]
    with torch.no_grad():
        for t, (name, p) in enumerate(items):
            s = torch.sin(0.7 * t + 1.3 * torch.arange(p.numel()) + 0.1)
            if p.dim() == 4:
                o, i, h, w = p.shape
                p.copy_((s / math.sqrt(i * h * w)).reshape(h, w, i, o).permute(3, 2, 0, 1))
            elif p.dim() == 2:
                p.copy_((s / math.sqrt(p.shape[1])).reshape(p.shape))
            elif name.endswith("running_var"):
                p.copy_(1 + 0.5 * s * s)
            elif name.endswith("weight"):
                p.copy_(1 + 0.1 * s)
            else:
                p.copy_(0.1 * s)
    return net


def images(n, h, w, c):
    return torch.cos(0.37 * torch.arange(n * h * w * c)).reshape(n, h, w, c).permute(0, 3, 1, 2)


def conv(i, o, window, stride=1, padding=None, dilation=1, groups=1, bias=False):
    padding = dilation * (window // 2) if padding is None else padding
    return nn.Conv2d(i, o, window, stride, padding, dilation, groups, bias)


class Basic(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(i, o, 3, stride), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = conv(o, o, 3), nn.BatchNorm2d(o)

    def shortcut(self, x, channels):
        pad = (channels - x.shape[1]) // 2
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, pad, pad)) if pad else x

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x, y.shape[1]))


class Projected(Basic):
    def __init__(self, i, o, stride):
        super().__init__(i, o, stride)
        self.downsample = nn.Sequential(conv(i, o, 1, stride), nn.BatchNorm2d(o)) if i != o or stride != 1 else nn.Identity()

    def shortcut(self, x, channels):
        return self.downsample(x)


class Bottleneck(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        inner = o // 4
        self.conv1, self.bn1 = conv(i, inner, 1), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = conv(inner, inner, 3, stride), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = conv(inner, o, 1), nn.BatchNorm2d(o)
        self.downsample = nn.Sequential(conv(i, o, 1, stride), nn.BatchNorm2d(o)) if i != o or stride != 1 else nn.Identity()

    def forward(self, x):
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


def layer(block, count, i, o, stride):
    return nn.Sequential(*(block(i if k == 0 else o, o, stride if k == 0 else 1) for k in range(count)))


class ResNetCifar(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.conv1, self.bn1 = conv(3, 16, 3), nn.BatchNorm2d(16)
        self.layer1, self.layer2 = layer(Basic, blocks, 16, 16, 1), layer(Basic, blocks, 16, 32, 2)
        self.layer3, self.linear = layer(Basic, blocks, 32, 64, 2), nn.Linear(64, 10)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.linear(x.mean((2, 3)))


class ResNet(nn.Module):
    def __init__(self, block, counts, expansion):
        super().__init__()
        self.conv1, self.bn1, i = conv(3, 64, 7, 2), nn.BatchNorm2d(64), 64
        self.layers = nn.ModuleList()
        for stage, count in enumerate(counts):
            o = (64 << stage) * expansion
            self.layers.append(layer(block, count, i, o, 2 if stage else 1))
            i = o
        self.fc = nn.Linear(i, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for each in self.layers:
            x = each(x)
        return self.fc(x.mean((2, 3)))


class Wide(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(i), conv(i, o, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(o), conv(o, o, 3)
        self.convShortcut = conv(i, o, 1, stride) if i != o or stride != 1 else None

    def forward(self, x):
        a = F.relu(self.bn1(x))
        y = self.conv2(F.relu(self.bn2(self.conv1(a))))
        return y + (self.convShortcut(a) if self.convShortcut else x)


class WideResNet(nn.Module):
    def __init__(self, blocks, widen):
        super().__init__()
        self.conv1, i = conv(3, 16, 3), 16
        self.blocks = nn.ModuleList()
        for stage in range(3):
            o = 16 * widen << stage
            self.blocks.append(layer(Wide, blocks, i, o, 2 if stage else 1))
            i = o
        self.bn1, self.fc = nn.BatchNorm2d(i), nn.Linear(i, 10)

    def forward(self, x):
        x = self.conv1(x)
        for each in self.blocks:
            x = each(x)
        return self.fc(F.relu(self.bn1(x)).mean((2, 3)))


class ConvNet(nn.Module):
    def __init__(self, filters, blocks, features, classes, strided=False):
        super().__init__()
        self.blocks, self.strided = nn.ModuleList(), strided
        for k in range(blocks):
            block = nn.Module()
            block.conv = conv(filters if k else 1, filters, 3, 2 if strided else 1, bias=True)
            block.norm = nn.BatchNorm2d(filters, track_running_stats=False)
            self.blocks.append(block)
        self.head = nn.Linear(features, classes)

    def forward(self, x):
        for block in self.blocks:
            x = F.relu(block.norm(block.conv(x)))
            x = F.max_pool2d(x, 2) if x.shape[2] > 1 and not self.strided else x
        return self.head(x.mean((2, 3)) if self.strided else x.permute(0, 2, 3, 1).flatten(1))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = conv(1, 6, 5, bias=True), conv(6, 16, 5, padding=0, bias=True)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.permute(0, 2, 3, 1).flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


def norm(c):
    return nn.BatchNorm2d(c, affine=False)


def separable(c, window, stride, dilation):
    return nn.Sequential(nn.ReLU(), conv(c, c, window, stride, None, dilation, c), conv(c, c, 1), norm(c))


class Halve(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.even, self.odd, self.norm = conv(i, o - o // 2, 1, 2), conv(i, o // 2, 1, 2), norm(o)

    def forward(self, x):
        x = F.relu(x)
        moved = F.pad(x[:, :, 1:, 1:], (0, 1, 0, 1))
        return self.norm(torch.cat([self.even(x), self.odd(moved)], 1))


class Edge(nn.Module):
    def __init__(self, c, stride):
        super().__init__()
        self.candidates = nn.ModuleList([
            nn.Sequential(nn.MaxPool2d(3, stride, 1), norm(c)),
            nn.Sequential(nn.AvgPool2d(3, stride, 1, count_include_pad=False), norm(c)),
            nn.Identity() if stride == 1 else Halve(c, c),
            nn.Sequential(separable(c, 3, stride, 1), separable(c, 3, 1, 1)),
            nn.Sequential(separable(c, 5, stride, 1), separable(c, 5, 1, 1)),
            separable(c, 3, stride, 2),
            separable(c, 5, stride, 2),
        ])  # fmt: skip

    def forward(self, x, weight):
        return sum(w * each(x) for w, each in zip(weight[1:], self.candidates))


def relu_conv_norm(i, o):
    return nn.Sequential(nn.ReLU(), conv(i, o, 1), norm(o))


class Cell(nn.Module):
    def __init__(self, before, now, c, nodes, after, reduces):
        super().__init__()
        self.before = Halve(before, c) if after else relu_conv_norm(before, c)
        self.now, self.nodes, self.edges = relu_conv_norm(now, c), nodes, nn.ModuleList()
        for i in range(2, 2 + nodes):
            for j in range(i):
                self.edges.append(Edge(c, 2 if reduces and j < 2 else 1))

    def forward(self, before, now, weights):
        states, e = [self.before(before), self.now(now)], 0
        for i in range(2, 2 + self.nodes):
            states.append(sum(self.edges[e + j](states[j], weights[e + j]) for j in range(i)))
            e += i
        return torch.cat(states[2:], 1)


class Darts(nn.Module):
    def __init__(self, filters, cells, nodes):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 3 * filters, 3), nn.BatchNorm2d(3 * filters))
        before = now = 3 * filters
        self.cells, self.kinds, after = nn.ModuleList(), [], False
        for k in range(cells):
            reduces = k in (cells // 3, 2 * cells // 3)
            filters *= 2 if reduces else 1
            self.cells.append(Cell(before, now, filters, nodes, after, reduces))
            self.kinds.append(reduces)
            after, before, now = reduces, now, nodes * filters
        self.head = nn.Linear(now, 10)

    def forward(self, x):
        weights = [torch.cos(0.3 * torch.arange(40) + kind).reshape(5, 8) for kind in (0, 1)]
        before = now = self.stem(x)
        for cell, reduces in zip(self.cells, self.kinds):
            before, now = now, cell(before, now, weights[reduces])
        return self.head(now.mean((2, 3)))


nets = {  # name: the network, its images, whether in training mode
    "resnet_8": (ResNetCifar(1), images(2, 8, 8, 3), True),
    "resnet_8_eval": (ResNetCifar(1), images(2, 8, 8, 3), False),
    "resnet_18": (ResNet(Projected, (2, 2, 2, 2), 1), images(1, 32, 32, 3), False),
    "resnet_50": (ResNet(Bottleneck, (3, 4, 6, 3), 4), images(1, 32, 32, 3), False),
    "wide_10_2": (WideResNet(1, 2), images(2, 8, 8, 3), True),
    "convnet": (ConvNet(8, 5, 8, 5), images(3, 28, 28, 1), True),
    "convnet_strided": (ConvNet(8, 4, 8, 5, True), images(3, 28, 28, 1), True),
    "lenet": (LeNet(), images(2, 28, 28, 1), True),
    "darts": (Darts(4, 3, 2), images(2, 8, 8, 3), True),
}

print("/* tests/nn/golden_nets.h: printed by golden_nets.py with PyTorch " + torch.__version__ + ", in double precision. */")
for name, (net, x, train) in nets.items():
    y = fill(net).train(train)(x).detach().flatten().tolist()
    print(f"static const double golden_{name}[{len(y)}] = {{")
    print("".join(f"    {v:.15g},\n" for v in y) + "};")
