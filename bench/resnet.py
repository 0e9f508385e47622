"""ResNet for small images in PyTorch, with the values that libbetty begins with: what the PyTorch and Betty sides share."""
import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inputs, outputs, 3, 1 if inputs == outputs else 2, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(outputs)
        self.conv2 = torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(outputs)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        pad = (y.shape[1] - x.shape[1]) // 2
        return F.relu(y + (F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, pad, pad)) if pad else x))


class ResNet(torch.nn.Module):
    """depth = 6k + 2; parameters in libbetty's order, from one vector; images come as rows of [32, 32, 3]."""

    def __init__(self, depth, flat):
        super().__init__()
        self.conv1, self.bn1 = torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False), torch.nn.BatchNorm2d(16)
        widths = [16] + [16 << stage for stage in range(3) for _ in range((depth - 2) // 6)]
        self.blocks = torch.nn.Sequential(*(Block(i, o) for i, o in zip(widths, widths[1:])))
        self.linear = torch.nn.Linear(64, 10)
        at = 0
        for p in self.parameters():
            values = torch.from_numpy(flat[at : at + p.numel()].copy())
            if p.dim() == 4:  # libbetty has [window, window, in, out]
                o, i, h, w = p.shape
                values = values.reshape(h, w, i, o).permute(3, 2, 0, 1)
            p.data = values.reshape(p.shape).contiguous()
            at += p.numel()
        assert at == len(flat)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.linear(x.mean((2, 3)))


def images(rows, channels_last=False):
    """[n, 3, 32, 32] from rows of [32, 32, 3]; channels_last: as they lie in memory."""
    x = torch.from_numpy(rows.reshape(-1, 32, 32, 3)).permute(0, 3, 1, 2)
    return x if channels_last else x.contiguous()


LR, MOMENTUM, DECAY = 0.1, 0.9, 5e-4

