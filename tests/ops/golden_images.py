"""Writes golden_images.h: what PyTorch computes in float64 for the cases of test_images.c.

python3 tests/ops/golden_images.py | clang-format-14 --assume-filename=tests/ops/golden_images.h > tests/ops/golden_images.h
"""
import torch

torch.set_default_dtype(torch.float64)


def numbers(shape, factor, phase):
    count = 1
    for size in shape:
        count *= size
    return torch.sin(factor * torch.arange(count, dtype=torch.float64) + phase).reshape(shape)


def first(x):  # channels first
    return x.permute(0, 3, 1, 2)


def last(x):
    return x.permute(0, 2, 3, 1)


def write(name, tensors):
    values = torch.cat([t.reshape(-1) for t in tensors]).tolist()
    print(f"static const double golden_{name}[] = {{")
    for i in range(0, len(values), 5):
        print("    " + " ".join(f"{v!r}," for v in values[i:i + 5]))
    print("};\n")


def case(name, function, shapes, hessian, low=None):
    """y; the gradient of sum(u y^2) in each input; and, where asked for, its second derivative along v."""
    x = [numbers(s, 1.3, 0.5 + i) + (1.5 if i == 1 else 0) for i, s in enumerate(shapes)]
    if low:
        x[0] = torch.floor(low * x[0])  # ties
    x = [t.requires_grad_() for t in x]
    v = [numbers(s, 1.1, 0.3 + i) for i, s in enumerate(shapes)]
    y = function(*x)
    loss = (numbers(y.shape, 0.7, 0.2) * y ** 2).sum()
    gradient = torch.autograd.grad(loss, x, create_graph=True)
    results = [y.detach(), *[g.detach() for g in gradient]]
    if hessian:
        results += torch.autograd.grad(sum((g * w).sum() for g, w in zip(gradient, v)), x)
    write(name, results)


F = torch.nn.functional
print(f"/* tests/ops/golden_images.h: written by golden_images.py with PyTorch {torch.__version__}, float64. */\n")
case("batch_norm", lambda x, s, b: last(F.batch_norm(first(x), None, None, s, b, True, 0, 1e-3)),
     [(2, 3, 2, 3), (3,), (3,)], True)
case("batch_norm_of_groups", lambda x, s, b: torch.cat([last(F.batch_norm(first(g), None, None, s, b, True, 0, 1e-3)) for g in x.chunk(2)]),
     [(4, 1, 2, 3), (3,), (3,)], True)
case("group_norm", lambda x, s, b: last(F.group_norm(first(x), 2, s, b, 1e-3)), [(2, 2, 2, 4), (4,), (4,)], True)
case("instance_norm", lambda x, s, b: last(F.instance_norm(first(x), weight=s, bias=b, eps=1e-3)),
     [(2, 3, 2, 2), (2,), (2,)], False)
case("max_pool", lambda x: last(F.max_pool2d(first(x), 3, 2, 1)), [(1, 5, 4, 2)], True, low=2)
case("avg_pool", lambda x: last(F.avg_pool2d(first(x), 3, 2, 1, count_include_pad=False)), [(1, 5, 4, 2)], False)
case("adaptive_avg_pool", lambda x: last(F.adaptive_avg_pool2d(first(x), (3, 2))), [(1, 5, 3, 2)], False)
case("adaptive_max_pool", lambda x: last(F.adaptive_max_pool2d(first(x), (3, 2))), [(1, 5, 3, 2)], False)
case("nearest", lambda x: last(F.interpolate(first(x), (5, 3), mode="nearest")), [(1, 3, 2, 2)], False)
case("bilinear", lambda x: last(F.interpolate(first(x), (5, 3), mode="bilinear")), [(1, 3, 2, 2)], False)
case("bilinear_smaller", lambda x: last(F.interpolate(first(x), (2, 3), mode="bilinear")), [(1, 5, 4, 1)], False)
