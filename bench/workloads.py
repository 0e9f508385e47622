"""The workloads, and the programs that run each of them."""
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
    column: str = ""  # in the table, which shows the fastest side of a column; default: the name
    double: list = None  # the command for the check in double precision; None: does not take part


@dataclass
class Workload:
    name: str
    title: str
    folder: str  # of its data
    make: object  # makes the data: make(folder)
    batches: int = 0  # number of batches of libbetty's order that the others need
    sides: list = field(default_factory=list)
    block: int = 1  # steps in the largest call of any side: measurements are multiples of it
    check: int = 50  # steps after which all sides must agree; 0: no check
    loss: float = 1e-4  # maximum relative difference of the losses
    path: float = 5e-3  # maximum difference of the parameters, relative to the distance from the start
    double: int = 0  # steps after which they must agree to nine digits in double precision; 0: no check
    rounds: int = 1000  # at most
    one_thread: bool = False  # not measured with more threads


def python(program, folder, threads, *options):
    return [sys.executable, os.path.join(HERE, program), folder, f"--threads={threads}", *options]


def libbetty(build, kind, folder, threads, **settings):
    pairs = [f"{key.replace('__', '.')}={value}" for key, value in settings.items()]
    return [os.path.join(build, "bench-libbetty"), kind, folder, f"engine.threads={threads}", *pairs]


def libbetty_side(name, product, build, kind, folder, threads, settings, **double):
    """With its command for the check in double precision, for which settings may differ: the upper level takes a step
    of plain gradient descent, so that its parameters change by its gradient."""
    checked = {key: value for key, value in settings.items() if key != "upper__eps"}
    checked.update(engine__precision="fp64", upper__optimizer="sgd", upper__lr=1, **double)
    return Side(name, product, libbetty(build, kind, folder, threads, **settings),
                double=libbetty(build, kind, folder, threads, **checked))  # fmt: skip


def checked_side(name, product, command, column="", *options):
    """The same for another program."""
    return Side(name, product, command, column, [*command, "--double", *options])


BETTYS = dict(lower__product="finite", lower__detach="follow")  # Betty's second-order product


def meta_weight_net(build, folder, threads, hidden, batch=100, layers=1):
    settings = dict(lower__hidden=hidden, lower__layers=layers, lower__batch_size=batch, lower__lr=0.1,
                    lower__momentum=0.9, upper__optimizer="adam", upper__lr=1e-4, upper__batch_size=batch)  # fmt: skip
    ours = lambda name, product, **more: libbetty_side(name, product, build, "mwn", folder, threads,
                                                       {**settings, **more})  # fmt: skip
    options = [f"--hidden={hidden}", f"--layers={layers}", f"--batch={batch}", "--lr=1e-4"]
    sides = [
        ours("libbetty", EXACT),
        ours("libbetty-finite", FINITE, **BETTYS),
        checked_side("betty", FINITE, python("betty_mwn.py", folder, threads, *options)),
        checked_side("torch", EXACT, python("torch_mwn.py", folder, threads, *options)),
        checked_side("jax", EXACT, python("jax_mwn.py", folder, threads, *options)),
        Side("jax-scan", EXACT, python("jax_mwn.py", folder, threads, *options, "--scan=10")),
    ]
    name = "-".join(["mwn"] + [str(hidden)] * layers + (["b50"] if batch == 50 else []))
    title = f"Meta-Weight-Net, MLP 784-{f'{hidden}-' * layers}10" + (", batches of 50" if batch == 50 else "")
    workload = Workload(name, title, folder, data.make_mwn, batches=20000, sides=sides, block=10,
                        one_thread=layers > 1 or batch != 100)  # fmt: skip
    if layers > 1:  # before rounding makes one of many ReLUs switch; double precision decides
        workload.check, workload.double = 10, 2
    return workload


def image_network(build, folder, threads, name, title, make, batch, double_batch, betty=False, **their):
    """Meta-Weight-Net over a larger network: exact and with Betty's difference. PyTorch by hand does both, in both
    layouts of the images; the fastest counts."""
    settings = dict(lower__batch_size=batch, lower__lr=their.get("rate", 0.1), lower__momentum=0.9,
                    lower__weight_decay=their.get("decay", 0), lower__prefetch="false", upper__optimizer="adam",
                    upper__lr=1e-5, upper__batch_size=batch, upper__prefetch="false")  # fmt: skip
    settings.update({f"lower__{key}": their[key] for key in ("depth", "layers", "hidden", "dropout") if key in their})
    kind, fewer = their["network"], dict(lower__batch_size=double_batch, upper__batch_size=double_batch)
    double_options = [f"--batch={double_batch}"]
    if "dropout" in their:  # because the sides' masks differ
        fewer["lower__dropout"] = 0
        double_options.append("--dropout=0")
    ours = lambda name, product, **more: libbetty_side(name, product, build, kind, folder, threads,
                                                       {**settings, **more}, **fewer)  # fmt: skip
    options = [f"--{key}={value}" for key, value in their.items()] + [f"--batch={batch}", "--lr=1e-5"]
    program = lambda *more: python("torch_networks.py", folder, threads, *options, *more)
    sides = [ours("libbetty", EXACT), ours("libbetty-finite", FINITE, **BETTYS)]
    if betty:
        sides.append(Side("betty", FINITE, python("betty_mwn.py", folder, threads, *options)))
    sides.append(checked_side("torch-finite", FINITE, program(), "torch", *double_options))
    exact = ["--product=exact"]
    if kind != "deep":
        sides.append(Side("torch-last", FINITE, program("--layout=last"), "torch"))
        exact.append("--layout=last")
    sides.append(checked_side("torch-exact", EXACT, program(*exact), "torch", *double_options))
    return Workload(name, title, folder, make, batches=2000, sides=sides, check=0 if "dropout" in their else 1,
                    double=1, rounds=3, one_thread=True)  # fmt: skip


EPS = 1e-2  # of Adam: gradients may be rounding errors, which must not become full steps


def few_images(folder):
    data.make_images(folder, 96)  # so that batches of 32 and of 16 fill whole epochs


def architecture_search(build, folder, threads):
    settings = dict(lower__batch_size=16, lower__lr=0.025, lower__momentum=0.9, lower__weight_decay=3e-4,
                    lower__prefetch="false", upper__optimizer="adam", upper__lr=3e-4, upper__eps=EPS, upper__batch_size=16,
                    upper__prefetch="false")  # fmt: skip
    ours = lambda name, product, **more: libbetty_side(name, product, build, "darts", folder, threads,
                                                       {**settings, **more}, lower__batch_size=4, upper__batch_size=4)
    options = ["--rate=0.025", "--decay=3e-4", "--batch=16", f"--eps={EPS}"]
    program = lambda *more: python("torch_darts.py", folder, threads, *options, *more)
    sides = [
        ours("libbetty", EXACT),
        ours("libbetty-finite", FINITE, lower__product="finite"),
        checked_side("torch-finite", FINITE, program(), "torch", "--batch=4"),
        Side("torch-last", FINITE, program("--layout=last"), "torch"),
        checked_side("torch-exact", EXACT, program("--product=exact", "--layout=last"), "torch", "--batch=4"),
    ]
    title = "DARTS, 5 cells of 16 filters, 16 images of 32x32"
    # In float32 the mixture's gradient is hardly larger than rounding errors, so the check in double precision decides.
    return Workload("darts", title, folder, few_images, batches=2000, sides=sides, check=1, path=1, double=1,
                    rounds=3, one_thread=True)  # fmt: skip


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
    sides = [libbetty_side("libbetty", EXACT, build, "maml", folder, threads, settings)]
    for peer, ways_of in (("torch", ("loop", "func", "vmap")), ("jax", ("loop", "vmap", "map"))):
        for how in ways_of:
            make = checked_side if how == "loop" else Side
            sides.append(make(f"{peer}-{how}", EXACT, program(f"{peer}_maml.py", f"--tasks={how}"), peer))
    sides += [Side(f"jax-scan-{how}", EXACT, program("jax_maml.py", f"--tasks={how}", "--scan=4"), "jax-scan")
              for how in ("loop", "vmap")]  # fmt: skip
    title = f"MAML, MLP 784-64-64-{ways}, an upper step"
    count = 320 // ways  # tasks; then libbetty draws new ones, but the others repeat these
    return Workload(f"maml-{ways}", title, folder, data.make_tasks, batches=count, sides=sides, block=4, check=4,
                    double=1)  # fmt: skip


def convnet(build, folder, threads, ways):
    settings = dict(upper__ways=ways, upper__meta_batch=data.META_BATCH, upper__optimizer="adam", upper__blocks=4,
                    upper__lr=data.META_LR, upper__eps=EPS, lower__type="itd", lower__unroll_steps=data.INNER_STEPS,
                    lower__lr=data.INNER_LR)  # fmt: skip
    program = lambda name: python(name, folder, threads, f"--ways={ways}", "--blocks=4", f"--eps={EPS}")
    sides = [libbetty_side("libbetty", EXACT, build, "maml", folder, threads, settings),
             checked_side("torch", EXACT, program("torch_maml.py")),
             checked_side("jax", EXACT, program("jax_maml.py"))]  # fmt: skip
    title = f"MAML, ConvNet of 4 x 64 filters, {ways}-way, an upper step"
    return Workload(f"convnet-{ways}", title, folder, data.make_tasks, batches=320 // ways, sides=sides, check=1,
                    double=1, rounds=3, one_thread=True)  # fmt: skip


def all_workloads(build, folder, threads):
    """folder: for the data of all workloads."""
    place = lambda name: os.path.join(folder, name)
    mwn = [meta_weight_net(build, place("mwn"), threads, *each) for each in
           ((32,), (100,), (500,), (32, 50), (100, 50), (32, 100, 2), (128, 100, 2))]  # fmt: skip
    both = [(method, unroll) for unroll in (100, 1) for method in ("darts", "cg")]
    regressions = [logistic(build, place("logistic"), threads, *each) for each in both]
    sizes = [(16, 8), (64, 32), (256, 64), (512, 128)]
    mlps = [mlp(build, place(f"mlp-{each[0]}"), threads, *each) for each in sizes]
    few_shot = [maml(build, place(f"maml-{ways}"), threads, ways) for ways in (5, 20)]
    few_shot.append(convnet(build, place("convnet-5"), threads, 5))
    network = lambda name, title, data_folder, make, *sizes, **options: image_network(
        build, place(data_folder), threads, name, f"Meta-Weight-Net, {title}", make, *sizes, **options)  # fmt: skip
    deep = dict(network="deep", layers=60, hidden=256, rate=1e-3)
    larger = [
        network("resnet-32", "ResNet-32, batches of 100", "images", data.make_images, 100, 8, True, network="resnet",
                depth=32, decay=5e-4),
        network("wrn-16-4", "WRN-16-4, batches of 32", "images-32", few_images, 32, 4, network="wrn", decay=5e-4),
        network("unet", "U-Net of 32, 64 and 128 filters, 12 images of 64x64", "maps", data.make_maps, 12, 2,
                network="unet", decay=5e-4),
        network("deep-60", "60 layers of 256 with layer norm", "mwn", data.make_mwn, 100, 10, **deep),
        network("deep-60-dropout", "the same with dropout 0.2", "mwn", data.make_mwn, 100, 10, dropout=0.2, **deep),
    ]  # fmt: skip
    return mwn + regressions + mlps + few_shot + larger + [architecture_search(build, place("images-32"), threads)]
