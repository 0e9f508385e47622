"""MAML in PyTorch: by hand, one task after the other (--tasks=loop); with torch.func, the same (func), or all tasks of
a step at once (vmap). Adam is PyTorch's fused kernel."""
import data
import peer

args = peer.arguments()
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

program = peer.use_torch(args)


def perceptron(params, x):
    for k in (0, 2):
        x = F.relu(F.linear(x, params[k], params[k + 1]))
    return F.linear(x, params[4], params[5])


def block(x, w, bias, scale, shift):
    """A 3 x 3 convolution, batch statistics, ReLU and pooling."""
    x = F.conv2d(x, w, bias, padding=1)
    return F.max_pool2d(F.relu(F.batch_norm(x, None, None, scale, shift, training=True)), 2)


def remade(f, *inputs):
    """Uses torch.utils.checkpoint with --checkpoint=block."""
    again = args.checkpoint == "block"
    return checkpoint(f, *inputs, use_reentrant=False, preserve_rng_state=False) if again else f(*inputs)


def convnet(params, x):
    """Takes the parameters in libbetty's order."""
    x = x.reshape(-1, 1, 28, 28)
    for k in range(0, 4 * args.blocks, 4):
        x = remade(block, x, *params[k : k + 4])
    return F.linear(x.flatten(1), params[-2], params[-1])


network = convnet if args.blocks else perceptron


def loss(params, x, y):
    return F.cross_entropy(network(params, x), y)


def adapted(params, x):
    for _ in range(data.INNER_STEPS):
        gradient = torch.autograd.grad(loss(params, x, support_y), params, create_graph=True)
        params = [p - data.INNER_LR * g for p, g in zip(params, gradient)]
    return params


def by_hand(xs, queries):
    """The sums of the tasks' gradients; a task's graph is freed before the next one is made."""
    total = None
    for x, query in zip(xs, queries):
        gradient = torch.autograd.grad(loss(adapted(params, x), query, query_y), params)
        if total is None:
            total = gradient
        else:
            torch._foreach_add_(total, gradient)
    return total


def task_loss(params, x, query):
    for _ in range(data.INNER_STEPS):
        gradient = torch.func.grad(loss)(params, x, support_y)
        params = [p - data.INNER_LR * g for p, g in zip(params, gradient)]
    return loss(params, query, query_y)


task_gradient = torch.func.grad(task_loss)
mapped = torch.func.vmap(task_gradient, in_dims=(None, 0, 0))


def by_func(xs, queries):
    total = None
    for x, query in zip(xs, queries):
        gradient = task_gradient(params, x, query)
        if total is None:
            total = gradient
        else:
            torch._foreach_add_(total, gradient)
    return total


def by_vmap(xs, queries):
    return [g.sum(0) for g in mapped(params, xs, queries)]


gradient_sum = {"loop": by_hand, "func": by_func, "vmap": by_vmap}[args.tasks]


def step(k):
    gradient = gradient_sum(support_x[k % len(support_x)], query_x[k % len(query_x)])
    with torch.no_grad():
        torch._foreach_mul_(gradient, 1 / data.META_BATCH)
        if args.double:
            torch._foreach_sub_(params, gradient)
            return
        torch._foreach_add_(adam_steps, 1)
        torch._fused_adam_(params, gradient, adam_m, adam_v, [], adam_steps, lr=data.META_LR, beta1=0.9, beta2=0.999,
                           weight_decay=0.0, eps=args.eps, amsgrad=False, maximize=False)  # fmt: skip


support_x, query_x, support_y, query_y = map(peer.tensor, peer.few_shot_tasks(args.folder, args.ways))
flat = data.read(args.folder, "upper")
flat = data.convnet_params(flat, args.blocks, 64, args.ways) if args.blocks else data.mlp_params(
    flat, [data.PIXELS, 64, 64, args.ways])  # fmt: skip
params = [peer.tensor(p).requires_grad_(args.tasks == "loop") for p in flat]
adam_m, adam_v = ([torch.zeros_like(p) for p in params] for _ in range(2))
adam_steps = [torch.zeros(()) for _ in params]
done = 0


def steps(n):
    global done
    for _ in range(n):
        step(done)
        done += 1


def state():
    with torch.no_grad():
        losses = [loss(params, query, query_y).item() for query in query_x.flatten(0, 1)[: data.STATE_TASKS]]
    turned = [p.detach().permute(2, 3, 1, 0) if p.dim() == 4 else p.detach() for p in params]  # libbetty's order of axes
    return sum(losses) / len(losses), torch.cat([p.flatten() for p in turned])


def tensor_bytes():
    """Persistent tensors, plus the peak of a step."""
    return peer.torch_peak_bytes(lambda: steps(1)) + sum(t.nbytes for t in params + adam_m + adam_v)


peer.serve(program, steps, state, tensor_bytes)
