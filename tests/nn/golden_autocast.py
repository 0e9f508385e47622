"""Prints tests/nn/golden_autocast.h: what PyTorch computes under torch.autocast on the CPU, in bf16 and fp16.

Networks, parameters and images are those of golden_nets.py (resnet_8, with running statistics), and a perceptron of 12, 16, 16 and
5 numbers with relu between its layers. Labels are 3 k + 1 modulo the classes; the loss is the mean cross entropy. After
the logits stand the gradients of the first and of the last weight, in libbetty's layout.
"""
import contextlib
import io

import torch
import torch.nn.functional as F
from torch import nn

with contextlib.redirect_stdout(io.StringIO()):
    import golden_nets as nets

torch.set_default_dtype(torch.float32)


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(12, 16), nn.Linear(16, 16), nn.Linear(16, 5)

    def forward(self, x):
        return self.c(F.relu(self.b(F.relu(self.a(x.permute(0, 2, 3, 1).flatten(1))))))


def values(net, x, classes, dtype):
    net = nets.fill(net.double()).float().eval()
    label = torch.tensor([(3 * k + 1) % classes for k in range(len(x))])
    with torch.autocast("cpu", dtype=dtype):
        y = net(x.float())
        loss = F.cross_entropy(y, label)
    loss.backward()
    weights = [p for p in net.parameters() if p.dim() > 1]
    out = [y.float().flatten()]
    for w in (weights[0], weights[-1]):
        out.append((w.grad.permute(2, 3, 1, 0) if w.dim() == 4 else w.grad).flatten())
    return torch.cat(out).tolist()


cases = {
    "perceptron": (Perceptron, nets.images(6, 2, 2, 3), 5),
    "resnet_8": (lambda: nets.ResNetCifar(1), nets.images(4, 8, 8, 3), 10),
}
print("/* tests/nn/golden_autocast.h: printed by golden_autocast.py with PyTorch " + torch.__version__ + ". */")
for name, (make, x, classes) in cases.items():
    for kind, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        v = values(make(), x, classes, dtype)
        print(f"static const double golden_{name}_{kind}[{len(v)}] = {{")
        print("".join(f"    {u:.7g},\n" for u in v) + "};")
