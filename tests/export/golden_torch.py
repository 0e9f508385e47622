"""Writes golden_torch.h: names, dtypes and shapes of the state of some of PyTorch's modules.

    python3 tests/export/golden_torch.py > tests/export/golden_torch.h
"""
import torch
from torch import nn

net = nn.ModuleDict({
    "linear": nn.Linear(3, 2), "conv": nn.Conv2d(4, 6, (3, 3), groups=2), "batch": nn.BatchNorm2d(6),
    "frozen": nn.BatchNorm2d(6, affine=False), "few": nn.BatchNorm2d(6, track_running_stats=False),
    "layer": nn.LayerNorm(5), "group": nn.GroupNorm(2, 6), "table": nn.Embedding(7, 4), "attention": nn.MultiheadAttention(8, 2),
    "cross": nn.MultiheadAttention(8, 2, kdim=3, vdim=3), "lstm": nn.LSTM(4, 5, 2, bidirectional=True),
    "cell": nn.GRUCell(4, 5), "decoder": nn.TransformerDecoderLayer(8, 2, 32)})
print(f"/* Written by golden_torch.py with PyTorch {torch.__version__.split('+')[0]}. */")
print("/* clang-format off */")
for name, value in sorted(net.state_dict().items()):
    dtype = {torch.float32: "BT_F32", torch.int64: "BT_I64"}[value.dtype]
    print(f'{{"{name}", {{.dtype = {dtype}, .rank = {value.dim()}, .dims = {{{", ".join(map(str, value.shape)) or 0}}}}}}},')
