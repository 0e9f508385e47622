"""What is measured: the workloads, and the programs that run each of them."""
import os
import sys
from dataclasses import dataclass, field

import data

HERE = os.path.dirname(os.path.abspath(__file__))
EXACT, FINITE = "exact", "finite"  # the second-order product: programs with the same one must agree closely


@dataclass
class Side:
    name: str
    product: str
    command: list
    column: str = ""  # of the table, which shows the fastest of a column; as the name, where it is not given


@dataclass
class Workload:
    name: str
    title: str
    folder: str  # where its data is
    make: object  # makes the data: make(folder)
    batches: int = 0  # how many batches of libbetty's order the others need
    sides: list = field(default_factory=list)
    block: int = 1  # lower steps in the largest call of any side: measurements are multiples of it
    check: int = 50  # steps after which all sides must stand at the same place
    loss_tolerance: float = 1e-4  # relative, of the loss there; of the upper one, where there are two levels


def python(program, folder, threads, *options):
    return [sys.executable, os.path.join(HERE, program), folder, f"--threads={threads}", *options]


def libbetty(build, kind, folder, threads, **settings):
    pairs = [f"{key.replace('__', '.')}={value}" for key, value in settings.items()]
    return [os.path.join(build, "bench-libbetty"), kind, folder, f"engine.threads={threads}", *pairs]


def meta_weight_net(build, folder, threads, hidden):
    settings = dict(lower__hidden=hidden, lower__batch_size=100, lower__lr=0.1, lower__momentum=0.9,
                    upper__optimizer="adam", upper__lr=1e-4, upper__batch_size=100)  # fmt: skip
    ours = libbetty(build, "mwn", folder, threads, **settings)
    options = [f"--hidden={hidden}", "--lr=1e-4"]
    sides = [
        Side("libbetty", EXACT, ours),
        Side("libbetty-finite", FINITE, ours + ["lower.product=finite", "lower.detach=follow"]),
        Side("betty", FINITE, python("betty_mwn.py", folder, threads, *options)),
        Side("torch", EXACT, python("torch_mwn.py", folder, threads, *options)),
        Side("jax", EXACT, python("jax_mwn.py", folder, threads, *options)),
        Side("jax-scan", EXACT, python("jax_mwn.py", folder, threads, *options, "--scan=10")),
    ]
    title = f"Meta-Weight-Net, MLP 784-{hidden}-10"
    return Workload(f"mwn-{hidden}", title, folder, data.make_mwn, batches=20000, sides=sides, block=10)


def resnet(build, folder, threads, depth):
    settings = dict(lower__depth=depth, lower__batch_size=100, lower__lr=0.1, lower__momentum=0.9,
                    lower__weight_decay=5e-4, lower__prefetch="false", upper__optimizer="adam",
                    upper__lr=1e-5, upper__batch_size=100, upper__prefetch="false")  # fmt: skip
    ours = libbetty(build, "resnet", folder, threads, **settings)
    options = [f"--depth={depth}", "--lr=1e-5"]
    sides = [
        Side("libbetty", EXACT, ours),
        Side("libbetty-finite", FINITE, ours + ["lower.product=finite", "lower.detach=follow"]),
        Side("betty", FINITE, python("betty_mwn.py", folder, threads, *options)),
        Side("torch", FINITE, python("torch_resnet.py", folder, threads, *options), "torch-first"),
        Side("torch-last", FINITE, python("torch_resnet.py", folder, threads, *options, "--layout=last"), "torch"),
    ]
    title = f"Meta-Weight-Net, ResNet-{depth}, batches of 100"
    return Workload(f"resnet-{depth}", title, folder, data.make_images, batches=2000, sides=sides, check=1)


def logistic(build, folder, threads, method, unroll):
    settings = dict(lower__type=method, lower__unroll_steps=unroll, lower__batch_size="all", lower__lr=0.1,
                    upper__batch_size="all", upper__lr=1, upper__momentum=0.9)  # fmt: skip
    if method == "cg":
        settings["lower__cg_iterations"] = 5
    options = [f"--method={method}", f"--unroll={unroll}"]
    scan = 100 // unroll
    sides = [
        Side("libbetty", EXACT, libbetty(build, "logistic", folder, threads, **settings)),
        Side("betty", EXACT, python("betty_logistic.py", folder, threads, *options)),
        Side("torch", EXACT, python("torch_logistic.py", folder, threads, *options)),
        Side("jax", EXACT, python("jax_logistic.py", folder, threads, *options)),
        Side("jax-scan", EXACT, python("jax_logistic.py", folder, threads, *options, f"--scan={scan}")),
    ]
    title = f"logistic regression, {method}, one upper step to {unroll}"
    check = 100 if unroll == 1 else 500
    return Workload(f"logistic-{method}-{unroll}", title, folder, data.make_logistic, sides=sides, block=100,
                    check=check)  # fmt: skip


def mlp(build, folder, threads, hidden, batch):
    settings = dict(lower__hidden=hidden, lower__batch_size=batch, lower__lr=0.1, lower__shuffle="false")
    options = [f"--hidden={hidden}", f"--batch={batch}"]
    sides = [
        Side("libbetty", EXACT, libbetty(build, "mlp", folder, threads, **settings)),
        Side("torch", EXACT, python("torch_mlp.py", folder, threads, *options)),
        Side("jax", EXACT, python("jax_mlp.py", folder, threads, *options)),
        Side("jax-scan", EXACT, python("jax_mlp.py", folder, threads, *options, "--scan=40")),
    ]
    make = lambda folder: data.make_mlp(folder, hidden, batch)
    title = f"SGD, MLP {hidden}-{hidden}-{hidden}-10, batches of {batch}"
    return Workload(f"mlp-{hidden}", title, folder, make, sides=sides, block=40, check=80)


def maml(build, folder, threads, ways):
    settings = dict(upper__ways=ways, upper__meta_batch=data.META_BATCH, upper__optimizer="adam",
                    upper__lr=data.META_LR, lower__type="itd", lower__unroll_steps=data.INNER_STEPS,
                    lower__lr=data.INNER_LR)  # fmt: skip
    program = lambda name, *options: python(name, folder, threads, f"--ways={ways}", *options)
    sides = [Side("libbetty", EXACT, libbetty(build, "maml", folder, threads, **settings))]
    sides += [Side(f"torch-{how}", EXACT, program("torch_maml.py", f"--tasks={how}"), "torch")
              for how in ("loop", "func", "vmap")]  # fmt: skip
    sides += [Side(f"jax-{how}", EXACT, program("jax_maml.py", f"--tasks={how}"), "jax")
              for how in ("loop", "vmap", "map")]  # fmt: skip
    sides += [Side(f"jax-scan-{how}", EXACT, program("jax_maml.py", f"--tasks={how}", "--scan=4"), "jax-scan")
              for how in ("loop", "vmap")]  # fmt: skip
    title = f"MAML, MLP 784-64-64-{ways}, an upper step"
    count = 320 // ways  # tasks: libbetty draws others once they are used up, the rest take them again
    return Workload(f"maml-{ways}", title, folder, data.make_tasks, batches=count, sides=sides, block=4, check=4)


def convnet(build, folder, threads, ways):
    eps = 1e-2  # a bias before a normalisation has no gradient but rounding errors: Adam is not to make steps of them
    settings = dict(upper__ways=ways, upper__meta_batch=data.META_BATCH, upper__optimizer="adam", upper__blocks=4,
                    upper__lr=data.META_LR, upper__eps=eps, lower__type="itd", lower__unroll_steps=data.INNER_STEPS,
                    lower__lr=data.INNER_LR)  # fmt: skip
    program = lambda name: python(name, folder, threads, f"--ways={ways}", "--blocks=4", f"--eps={eps}")
    # PyTorch's channels-last pooling takes another one of equal pixels, so it is not the same function
    sides = [Side("libbetty", EXACT, libbetty(build, "maml", folder, threads, **settings)),
             Side("torch", EXACT, program("torch_maml.py")), Side("jax", EXACT, program("jax_maml.py"))]
    # The adapted loss jumps where a relu or a largest pixel changes sides: the parameters tell, to 1e-5.
    title = f"MAML, ConvNet of 4 x 64 filters, {ways}-way, an upper step"
    return Workload(f"convnet-{ways}", title, folder, data.make_tasks, batches=320 // ways, sides=sides, check=1,
                    loss_tolerance=1e-2)  # fmt: skip


def all_workloads(build, folder, threads):
    """folder: where the data of all of them is, or is to be."""
    mwn = [meta_weight_net(build, os.path.join(folder, "mwn"), threads, hidden) for hidden in (32, 100, 500)]
    both = [(method, unroll) for unroll in (100, 1) for method in ("darts", "cg")]
    regressions = [logistic(build, os.path.join(folder, "logistic"), threads, *each) for each in both]
    sizes = [(16, 8), (64, 32), (256, 64), (512, 128)]
    mlps = [mlp(build, os.path.join(folder, f"mlp-{each[0]}"), threads, *each) for each in sizes]
    few_shot = [maml(build, os.path.join(folder, f"maml-{ways}"), threads, ways) for ways in (5, 20)]
    images = [resnet(build, os.path.join(folder, "resnet"), threads, 32),
              convnet(build, os.path.join(folder, "convnet-5"), threads, 5)]  # fmt: skip
    return mwn + regressions + mlps + few_shot + images
