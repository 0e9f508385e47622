# PyTorch's modules load our safetensors files with load_state_dict, every name and shape, and agree to 1e-5. Names and
# layouts follow the table in docs/export.md.
# PyPI: numpy==2.4.6 safetensors==0.8.0 torch==2.15.0 torchvision==0.29.2
import os
import subprocess

import numpy
import torch
import torch.nn.functional as F
import torchvision
from safetensors.torch import load_file
from torch import nn

source, build = os.environ["BT_SOURCE_DIR"], os.environ["BT_BUILD_DIR"]


class Named(nn.Module):
    """A module of these children, and what it computes of them."""

    def __init__(self, forward, **children):
        super().__init__()
        self.computes = forward
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, *inputs):
        return self.computes(self, *inputs)


def numbered(forward, *children):
    net = Named(forward)
    for i, child in enumerate(children):
        net.add_module(str(i), child)
    return net


def images(net):
    """Takes and gives [n, height, width, channels]; what is no image stays."""

    def forward(self, x):
        y = net(x.permute(0, 3, 1, 2))
        return y.permute(0, 2, 3, 1) if y.dim() == 4 else y

    shown = Named(forward)
    shown.load_state_dict = net.load_state_dict
    shown.net = net
    return shown


def last(x):
    """Flattens images as they lie here: channels last."""
    return x.permute(0, 2, 3, 1).flatten(1)


def mlp(act, *widths):
    layers = [nn.Linear(i, o) for i, o in zip(widths, widths[1:])]

    def forward(self, x):
        x = x.flatten(1)
        for layer in layers[:-1]:
            x = act(layer(x))
        return layers[-1](x)

    return numbered(forward, *layers)


# ---- networks of images ----

def conv(i, o, window, stride=1, bias=False):
    return nn.Conv2d(i, o, window, stride, window // 2, bias=bias)


def basic(i, o, stride):
    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        pad = (o - i) // 2
        return F.relu(y + (F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, pad, pad)) if pad else x))

    return Named(forward, conv1=conv(i, o, 3, stride), bn1=nn.BatchNorm2d(o), conv2=conv(o, o, 3), bn2=nn.BatchNorm2d(o))


def resnet_cifar(blocks):
    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.linear(x.mean((2, 3)))

    def stage(i, o):
        return nn.Sequential(*[basic(i if k == 0 else o, o, 2 if k == 0 and i != o else 1) for k in range(blocks)])

    return Named(forward, conv1=conv(3, 16, 3), bn1=nn.BatchNorm2d(16), layer1=stage(16, 16), layer2=stage(16, 32),
                 layer3=stage(32, 64), linear=nn.Linear(64, 10))


def wide_block(i, o, stride):
    def forward(self, x):
        a = F.relu(self.bn1(x))
        return self.conv2(F.relu(self.bn2(self.conv1(a)))) + self.convShortcut(a)

    return Named(forward, bn1=nn.BatchNorm2d(i), conv1=conv(i, o, 3, stride), bn2=nn.BatchNorm2d(o), conv2=conv(o, o, 3),
                 convShortcut=conv(i, o, 1, stride))


def wide_resnet():
    def block(i, o, stride):
        return Named(lambda self, x: self.layer(x), layer=nn.Sequential(wide_block(i, o, stride)))

    def forward(self, x):
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        return self.fc(F.relu(self.bn1(x)).mean((2, 3)))

    return Named(forward, conv1=conv(3, 16, 3), block1=block(16, 32, 1), block2=block(32, 64, 2), block3=block(64, 128, 2),
                 bn1=nn.BatchNorm2d(128), fc=nn.Linear(128, 10))


def few_shot(strided, head):
    def block(i):
        return Named(None, conv=conv(i, 8, 3, 2 if strided else 1, bias=True),
                     norm=nn.BatchNorm2d(8, track_running_stats=False))

    blocks = [block(1), block(8), block(8)]

    def forward(self, x):
        for each in blocks:
            x = F.relu(each.norm(each.conv(x)))
            x = F.max_pool2d(x, 2) if x.shape[2] > 1 and not strided else x
        return self.head(x.mean((2, 3)) if strided else last(x))

    net = numbered(forward, *blocks)
    net.head = nn.Linear(head, 5)
    return net


def lenet():
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(last(x))))))

    return Named(forward, conv1=nn.Conv2d(1, 6, 5, padding=2), conv2=nn.Conv2d(6, 16, 5), fc1=nn.Linear(400, 120),
                 fc2=nn.Linear(120, 84), fc3=nn.Linear(84, 10))


def u_net():
    def forward(self, x):
        top = F.relu(self.down(x))
        low = F.relu(self.low(F.max_pool2d(top, 2)))
        up = F.interpolate(low, top.shape[2:], mode="bilinear", align_corners=False)
        return self.up(torch.cat([up, top], 1))

    return Named(forward, down=nn.Conv2d(2, 4, 3, padding=1), low=nn.Conv2d(4, 6, 3, padding=1),
                 up=nn.Conv2d(10, 2, 3, padding=1))


# ---- networks of sequences ----

def causal(tokens):
    return nn.Transformer.generate_square_subsequent_mask(tokens)


def attention():
    net = nn.MultiheadAttention(8, 2, batch_first=True)
    return net, lambda x: net(x, x, x, need_weights=False)[0]


def encoder_layer(act, pre_norm):
    return nn.TransformerEncoderLayer(8, 2, 32, 0.0, act, batch_first=True, norm_first=pre_norm)


def transformer():
    net = Named(None, wte=nn.Embedding(7, 8), wpe=nn.Embedding(9, 8),
                layers=nn.ModuleList([encoder_layer(F.gelu, True) for _ in range(2)]), norm=nn.LayerNorm(8))

    def forward(token):
        x = net.wte(token) + net.wpe.weight[:token.shape[1]]
        for layer in net.layers:
            x = layer(x, src_mask=causal(x.shape[1]))
        return net.norm(x) @ net.wte.weight.T

    return net, forward


def bert():
    net = Named(None, wte=nn.Embedding(7, 8, padding_idx=0), wpe=nn.Embedding(9, 8), token_type_embeddings=nn.Embedding(7, 8),
                embedding_norm=nn.LayerNorm(8), layers=nn.ModuleList([encoder_layer(F.gelu, False) for _ in range(2)]))

    def forward(token, kind, mask):
        x = net.wte(token) + net.wpe.weight[:token.shape[1]] + net.token_type_embeddings(kind)
        x = net.embedding_norm(x)
        for layer in net.layers:
            x = layer(x, src_key_padding_mask=mask == 0)
        return x

    return net, forward


def sinusoidal(tokens, width):
    angle = torch.arange(tokens)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], 2).reshape(tokens, width)


def with_norm(layer):
    return Named(None, layers=nn.ModuleList([layer]), norm=nn.LayerNorm(8))


def plain():
    net = with_norm(encoder_layer(F.relu, True))
    return net, lambda x: net.norm(net.layers[0](x + sinusoidal(6, 8), src_mask=causal(6)))


def cross():
    net = with_norm(nn.TransformerDecoderLayer(8, 2, 32, 0.0, F.relu, batch_first=True, norm_first=True))
    return net, lambda x, source, mask: net.norm(net.layers[0](
        x + sinusoidal(6, 8), source, tgt_mask=causal(6), memory_key_padding_mask=mask == 0))


def recurrent(kind):
    """The steps that a sequence has; what comes after is not compared."""
    net = kind(4, 5, 2, batch_first=True, bidirectional=True)

    def forward(x, lengths):
        y = torch.full((x.shape[0], 7, 10), torch.nan)
        for i, length in enumerate(lengths):
            if length:
                y[i, :length] = net(x[i:i + 1, :length])[0]
        return y

    return net, forward


def lstm_cell():
    net = nn.LSTMCell(4, 5)
    return net, lambda x, state: torch.cat(net(x, (state[:, :5], state[:, 5:])), 1)


def lora():
    net = Named(None, base_layer=nn.Linear(6, 4), lora_A=nn.Linear(6, 2, bias=False), lora_B=nn.Linear(2, 4, bias=False))
    return net, lambda x: net.base_layer(x) + 2 * net.lora_B(net.lora_A(x))


def first(net):
    return net, lambda *inputs: net(*inputs)[0]


def value():
    net = Named(None)
    net.value = nn.Parameter(torch.zeros(3, 2))
    return net, lambda: net.value


equals = {  # a module with our inputs; or a module, and a function that calls it with them
    "mlp": mlp(F.relu, 16, 12, 12, 3),
    "mlp_gelu": mlp(F.gelu, 16, 12, 3),
    "linear": nn.Linear(5, 3),
    "linear_no_bias": nn.Linear(5, 3, bias=False),
    "sequential": nn.Sequential(nn.Linear(5, 6), nn.GELU("tanh"), nn.Dropout(0.4), nn.Linear(6, 2)),
    "layer_norm": nn.LayerNorm(6),
    "parameter": value(),
    "lora": lora(),
    "conv": images(nn.Conv2d(4, 6, 3)),
    "conv_groups": images(nn.Conv2d(4, 6, 3, 2, 2, 2, 2, False)),
    "batch_norm": images(nn.BatchNorm2d(3)),
    "batch_norm_rows": nn.BatchNorm1d(5),
    "batch_norm_batch": images(nn.BatchNorm2d(3, track_running_stats=False)),
    "group_norm": images(nn.GroupNorm(2, 4)),
    "instance_norm": images(nn.InstanceNorm2d(4, affine=True)),
    "lenet": images(lenet()),
    "convnet": images(few_shot(False, 8)),
    "convnet_strided": images(few_shot(True, 8)),
    "resnet_cifar": images(resnet_cifar(3)),
    "resnet18": images(torchvision.models.resnet18(num_classes=10)),
    "resnet50": images(torchvision.models.resnet50(num_classes=10)),
    "wide_resnet": images(wide_resnet()),
    "u_net": images(u_net()),
    "embedding": nn.Embedding(7, 4),
    "embedding_padding": nn.Embedding(7, 4, padding_idx=2),
    "attention": attention(),
    "transformer": transformer(),
    "transformer_bert": bert(),
    "transformer_plain": plain(),
    "transformer_cross": cross(),
    "transformer_layer": encoder_layer(F.relu, False),
    "lstm": first(nn.LSTM(4, 5, batch_first=True)),
    "gru": first(nn.GRU(4, 5, batch_first=True)),
    "lstm_deep": recurrent(nn.LSTM),
    "gru_deep": recurrent(nn.GRU),
    "lstm_cell": lstm_cell(),
    "gru_cell": nn.GRUCell(4, 5),
}
none = {  # without an equivalent in PyTorch: rotary positions, heads of another width, statistics without a scale; DARTS
    "batch_norm_plain", "darts", "attention_causal", "attention_source", "attention_blocks", "transformer_rotary"}


def try_case(line):
    name, examples, inputs, *words = line.split()
    given = []
    for _ in range(int(inputs)):
        field, dtype, rank = words[0], words[1], int(words[2])
        x = numpy.fromfile(f"{name}.{examples}.{field}.bin", dtype).reshape([int(size) for size in words[3:3 + rank]])
        given.append(torch.from_numpy(x).long() if dtype == "int32" else torch.from_numpy(x))
        words = words[3 + rank:]
    net = equals[name]
    net, call = net if isinstance(net, tuple) else (net, net)
    net.load_state_dict(load_file(name + ".safetensors"))
    net.eval()
    if call is net and hasattr(net, "net"):
        net.net.eval()
    with torch.no_grad():
        found = call(*given).numpy()
    expected = numpy.fromfile(f"{name}.{examples}.output.bin", "float32").reshape([int(size) for size in words[1:]])
    assert found.shape == expected.shape, (name, found.shape, expected.shape)
    compared = ~numpy.isnan(found)
    assert compared.any(), name
    apart = abs(found - expected)[compared].max() / max(1, abs(expected).max())
    assert apart < 1e-5, (name, apart, found, expected)
    return name, apart


subprocess.run(["cc", "-std=c11", "-O1", "-I", source + "/libbetty/include", source + "/tests/readers/onnx_modules.c", "-o",
                "modules", "-L", build, "-lbetty", "-Wl,-rpath," + build], check=True)
subprocess.run(["./modules"], check=True)
with open("cases.txt") as file:
    lines = [line for line in file if os.path.exists(line.split()[0] + ".safetensors")]
missing = {line.split()[0] for line in lines} - set(equals) - none
assert not missing, f"nothing is said of {missing}"
found = [try_case(line) for line in lines if line.split()[0] in equals]
assert {name for name, _ in found} == set(equals)
print(f"{len(equals)} modules of PyTorch: {max(apart for _, apart in found):.1e} apart at most")
