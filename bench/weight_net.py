"""The weight net of Meta-Weight-Net in PyTorch, with Adam's fused kernel, and the batches: shared by the two programs
written by hand."""
import torch
import torch.nn.functional as F

import data
import peer


class WeightNet:
    def __init__(self, args):
        flat = data.read(args.folder, "upper")
        self.params = [peer.tensor(p).requires_grad_() for p in data.mlp_params(flat, [1, 100, 1])]
        self.m, self.v = ([torch.zeros_like(p) for p in self.params] for _ in range(2))
        self.steps, self.lr, self.plain = [torch.zeros(()) for _ in self.params], args.lr, args.double

    def __call__(self, loss):
        hidden = F.relu(F.linear(loss[:, None], self.params[0], self.params[1]))
        return torch.sigmoid(F.linear(hidden, self.params[2], self.params[3]))[:, 0]

    @torch.no_grad()
    def step(self, gradient):
        if self.plain:
            torch._foreach_sub_(self.params, gradient)
            return
        torch._foreach_add_(self.steps, 1)
        torch._fused_adam_(self.params, gradient, self.m, self.v, [], self.steps, lr=self.lr, beta1=0.9, beta2=0.999,
                           weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)  # fmt: skip

    def vector(self):
        return torch.cat([p.detach().flatten() for p in self.params])


def stepper(args, train, meta, lower_step, upper_step):
    """Returns steps(n), on libbetty's batches; train and meta are images and labels."""
    lower_order, upper_order = peer.orders(args)

    def draw(rows, order):
        places = peer.tensor(next(order))
        return rows[0][places], rows[1][places]

    def steps(n):
        for _ in range(n):
            batch = draw(train, lower_order)
            lower_step(*batch)
            upper_step(*batch, *draw(meta, upper_order))

    return steps
