"""One process of plain training of a residual network in PyTorch, as in problems/ranks.c: alone, or one of several
ranks with DistributedDataParallel or fully_shard (FSDP2), over gloo. All ranks are asked the same question at once:
`steps N` takes N steps; the answer is the milliseconds and the loss of each, over the rank's own rows."""
import argparse
import json
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F

import networks
import peer

IMAGES, SIZE, RATE, MOMENTUM = 1280, 32, 0.01, 0.9


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", help="a vector of float32, in libbetty's order")
    parser.add_argument("--kind", default="plain", choices=("plain", "ddp", "fsdp"))
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--meet", help="a file that is not there yet, where ranks find each other")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--batch", type=int, default=128, help="of all ranks together")
    parser.add_argument("--layout", default="first", choices=("first", "last"))
    return parser.parse_args()


def noise(count):
    """The same bytes as in problems/ranks.c."""
    i = np.arange(count, dtype=np.uint32)
    for _ in range(2):
        i = (i ^ i >> np.uint32(16)) * np.uint32(0x45D9F3B)
    return (i >> np.uint32(24)).astype(np.uint8)


def rows_of(args):
    """This rank's rows of each batch, as [batches, rows, ...]."""
    pixels = torch.from_numpy(noise(IMAGES * SIZE * SIZE * 3).reshape(-1, args.ranks, args.batch // args.ranks, SIZE, SIZE, 3))
    labels = (torch.arange(IMAGES) % 10).reshape(-1, args.ranks, args.batch // args.ranks)
    return pixels[:, args.rank].clone(), labels[:, args.rank].clone()


def spread(args, net):
    if args.kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(net, forward_sync_buffers=False, gradient_as_bucket_view=True)
    if args.kind == "fsdp":
        from torch.distributed.fsdp import fully_shard

        mesh = dist.device_mesh.init_device_mesh("cpu", (args.ranks,))
        for block in net.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(net, mesh=mesh)
    return net


def stepper(args):
    """A function that takes a step on the batch with a given number and returns the loss; all it needs is made now."""
    last = torch.channels_last if args.layout == "last" else torch.contiguous_format
    net = networks.fill(networks.ResNet(args.depth), np.fromfile(args.weights, np.float32))
    if args.kind != "fsdp":  # FSDP's parameters keep the layout that they first had
        net = net.to(memory_format=last)
    net = spread(args, net)
    optimizer = torch.optim.SGD(net.parameters(), RATE, MOMENTUM, foreach=True)
    pixels, labels = rows_of(args)

    def step(number):
        x = (pixels[number % len(pixels)].permute(0, 3, 1, 2).float() / 255).contiguous(memory_format=last)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), labels[number % len(labels)])
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def say(answer):
    print(json.dumps(answer), file=peer.answers, flush=True)


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    if args.ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{args.meet}", rank=args.rank, world_size=args.ranks)
    say({"ready": f"PyTorch {torch.__version__}", "isa": torch.backends.cpu.get_cpu_capability()})
    step, number = None, 0
    for line in sys.stdin:
        times, losses = [], []
        step = step or stepper(args)
        for _ in range(int(line.split()[1])):
            begin = time.perf_counter()
            losses.append(step(number))
            times.append(1e3 * (time.perf_counter() - begin))
            number += 1
        say({"ms": times, "losses": losses})
    if args.ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
