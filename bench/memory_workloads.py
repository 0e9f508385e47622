"""The workloads of `./dev bench memory`, with a side for each setting. A side is called "PROGRAM, SETTING"; the others
of a program are compared with its first one."""
import os

import data
from workloads import EPS, EXACT, Side, Workload, checked_side, libbetty, libbetty_side, python

SETTINGS = ("none", "cheap", "cost:5%", "every:1", "sqrt", "cost:20%", "cost:40%")
FOR_MEMORY = "--scheduler=memory"
JAX = [  # for reweighting; XLA orders programs for time by default
    ("none", []),
    ("none, ordered for memory", [FOR_MEMORY]),
    ("blocks, ordered for memory", [FOR_MEMORY, "--checkpoint=block"]),
    ("blocks but for convolutions, ordered for memory", [FOR_MEMORY, "--checkpoint=convolutions"]),
]


def program(side):
    return side.name.split(", ", 1)[0]


def setting(side):
    return side.name.split(", ", 1)[1]


def own(side):
    return side.name.startswith("libbetty")


def ours(settings, make, budgets=(), ways=SETTINGS):
    """With each of the settings, and with only a budget, for everything that is planned."""
    return [make(f"libbetty, {name}", {**settings, "lower__checkpointing": name}) for name in ways] + [
        make(f"libbetty, memory_budget = {bytes}", {**settings, "engine__memory_budget": bytes}) for bytes in budgets]


def reweighting(build, folder, name, title, torch, budgets, jax=JAX, ways=SETTINGS, batch=100, loss=1e-4, path=5e-3, **more):
    """Meta-Weight-Net over ResNet-32 (in double precision over ResNet-14)."""
    settings = dict(lower__depth=32, lower__batch_size=batch, lower__lr=0.1, lower__momentum=0.9,
                    lower__weight_decay=5e-4, lower__prefetch="false", upper__optimizer="adam", upper__lr=1e-5,
                    upper__batch_size=batch, upper__prefetch="false")  # fmt: skip
    options = ["--depth=32", "--decay=5e-4", f"--batch={batch}", "--lr=1e-5"]
    if "lower__cg_iterations" in more:
        options += [f"--cg={more['lower__cg_iterations']}", f"--damping={more['lower__cg_damping']}"]
    if "lower__gradient_accumulation" in more:
        options += [f"--micro={more['lower__gradient_accumulation']}"]
    small = dict(lower__depth=14, lower__batch_size=8, upper__batch_size=8)
    if "lower__precision" in more:
        small["lower__precision"] = "fp64"
    make = lambda name, all: libbetty_side(name, EXACT, build, "resnet", folder, 1, all, **small)
    sides = ours({**settings, **more}, make, budgets, ways)
    for name_of, file, rows in (("PyTorch", "torch_reweight.py", torch), ("JAX", "jax_reweight.py", jax)):
        sides += [checked_side(f"{name_of}, {row}", EXACT, python(file, folder, 1, *options, *extra), "", "--depth=14", "--batch=8")
                  for row, extra in rows]  # fmt: skip
    return Workload(name, f"Meta-Weight-Net, ResNet-32, {title}", folder, data.make_images, batches=400, sides=sides, check=1,
                    loss=loss, path=path, double=1)  # fmt: skip


def unrolled(build, folder):
    settings = dict(upper__ways=5, upper__meta_batch=data.META_BATCH, upper__optimizer="adam", upper__blocks=4,
                    upper__lr=data.META_LR, upper__eps=EPS, lower__type="itd", lower__unroll_steps=data.INNER_STEPS,
                    lower__lr=data.INNER_LR)  # fmt: skip
    make = lambda name, all: libbetty_side(name, EXACT, build, "maml", folder, 1, all)
    theirs = lambda name, file, *options: checked_side(
        name, EXACT, python(file, folder, 1, "--ways=5", "--blocks=4", f"--eps={EPS}", *options))  # fmt: skip
    sides = ours(settings, make) + [
        make("libbetty, none, itd_spacing = 0", {**settings, "lower__itd_spacing": 0}),
        theirs("PyTorch, none", "torch_maml.py"),
        theirs("PyTorch, blocks", "torch_maml.py", "--checkpoint=block"),
        theirs("JAX, none", "jax_maml.py"),
        theirs("JAX, none, ordered for memory", "jax_maml.py", FOR_MEMORY),
        theirs("JAX, blocks, ordered for memory", "jax_maml.py", FOR_MEMORY, "--checkpoint=block"),
        theirs("JAX, steps, ordered for memory", "jax_maml.py", FOR_MEMORY, "--checkpoint=step"),
        theirs("JAX, none, inner loop scanned", "jax_maml.py", "--inner=scan"),
        theirs("JAX, steps, inner loop scanned", "jax_maml.py", "--inner=scan", "--checkpoint=step"),
    ]
    return Workload("itd", "MAML by itd, ConvNet of 4 x 64 filters, 5-way, an upper step", folder, data.make_tasks,
                    batches=64, sides=sides, check=1, double=1)  # fmt: skip


def language_side(build, folder, name, layers, batch, product=EXACT, **more):
    settings = dict(lower__layers=layers, lower__batch_size=batch, lower__optimizer="adam", lower__lr=1e-3, lower__shuffle="false",
                    lower__prefetch="false", **more)  # fmt: skip
    descent = dict(engine__precision="fp64", lower__optimizer="sgd", lower__lr=1)
    run = lambda settings: libbetty(build, "language", folder, 1, **settings)
    return Side(name, product, run(settings), double=run({**settings, **descent}))


def language(build, folder, layers, batch=256):
    make = lambda name, **more: language_side(build, folder, name, layers, batch, **more)
    theirs = lambda name, file, *options: checked_side(
        name, EXACT, python(file, folder, 1, f"--layers={layers}", f"--batch={batch}", "--rate=1e-3", *options))  # fmt: skip
    chunks, again = "--chunks=16", "--checkpoint=block"
    sides = [make("libbetty, none"), make("libbetty, chunks", lower__chunks=16),
             make("libbetty, chunks, sqrt", lower__chunks=16, lower__checkpointing="sqrt"),
             theirs("PyTorch, none", "torch_language.py"), theirs("PyTorch, chunks", "torch_language.py", chunks),
             theirs("PyTorch, chunks, layers", "torch_language.py", chunks, again),
             theirs("JAX, none, ordered for memory", "jax_language.py", FOR_MEMORY),
             theirs("JAX, chunks, ordered for memory", "jax_language.py", FOR_MEMORY, chunks),
             theirs("JAX, chunks, layers, ordered for memory", "jax_language.py", FOR_MEMORY, chunks, again)]  # fmt: skip
    return Workload(f"language-{layers}", f"Adam, causal language model of {plural(layers)}, batches of {batch}", folder,
                    lambda folder: data.make_tokens(folder, batch), batches=0, sides=sides, check=1, double=1)  # fmt: skip


def plural(layers):
    return "1 layer" if layers == 1 else f"{layers} layers"


LAYERS = (1, 2, 4, 8)


def language_layers(build, folder, batch=256):
    """For libbetty only: its layers with and without recomputation, for every number of layers."""
    ways = [("none", {}), ("sqrt", dict(lower__checkpointing="sqrt"))]
    ways += [("chunks", dict(lower__chunks=16)), ("chunks, sqrt", dict(lower__chunks=16, lower__checkpointing="sqrt"))]
    sides = [language_side(build, folder, f"libbetty of {plural(layers)}, {way}", layers, batch, plural(layers), **more)
             for layers in LAYERS for way, more in ways]  # fmt: skip
    return Workload("layers", f"Adam, causal language models of 1 to 8 layers, batches of {batch}", folder,
                    lambda folder: data.make_tokens(folder, batch), batches=0, sides=sides, check=1, double=1)  # fmt: skip


# The rows of a quick run for each workload; a program's name stands for all of its rows.
AGAIN = "JAX, blocks, ordered for memory"
QUICK = {
    "darts": ("libbetty", "PyTorch", "JAX, none, ordered for memory", AGAIN),
    "cg": ("libbetty, none", "libbetty, cheap", "libbetty, cost:20%", "PyTorch, none", "JAX, none, ordered for memory", AGAIN),
    "cg-micro": ("libbetty, none", "libbetty, cheap", "libbetty, cost:20%", "PyTorch, none", "PyTorch, none, graphs anew",
                 AGAIN),
    "itd": ("libbetty, none", "libbetty, cheap", "libbetty, cost:5%", "libbetty, cost:20%", "PyTorch",
            "JAX, none, ordered for memory", "JAX, steps, ordered for memory"),
    "darts-bf16": ("libbetty", "PyTorch"),
    "language-1": ("libbetty", "PyTorch", "JAX, none, ordered for memory", "JAX, chunks, ordered for memory"),
    "layers": tuple(f"libbetty of {plural(layers)}" for layers in LAYERS),
}  # fmt: skip


def memory_workloads(build, folder, quick):
    images = os.path.join(folder, "images")
    backward, blocks, anew = ["--along=backward"], ["--checkpoint=block"], ["--graphs=anew"]
    products = [("none", []), ("blocks", blocks), ("none, products backward", backward),
                ("blocks, products backward", blocks + backward)]  # fmt: skip
    solves = [("none", []), ("blocks", blocks), ("none, graphs anew", anew), ("blocks, graphs anew", blocks + anew)]
    cast = ["--autocast"]
    cg = dict(lower__type="cg", lower__cg_iterations=3, lower__cg_damping=1)
    micro = dict(lower__gradient_accumulation=4, upper__gradient_accumulation=4, lower__product_batches="all")
    found = [
        reweighting(build, images, "darts", "batches of 100", products, ["63MB", "50MB"]),
        reweighting(build, images + "-bf16", "darts-bf16", "bf16, batches of 100", [(row, cast + extra) for row, extra in products[:2]],
                    ["31.1MB"], [], ["none", "cheap", "sqrt", "cost:40%", "cost:70%"], loss=0.01, path=0.1, lower__precision="bf16"),
        reweighting(build, images + "-cg", "cg", "3 iterations of cg, batches of 100", solves, ["370MB", "300MB"], **cg),
        reweighting(build, images + "-micro", "cg-micro", "3 iterations of cg, 4 micro-batches of 25", solves, ["190MB"], batch=25,
                    **cg, **micro),
        unrolled(build, os.path.join(folder, "tasks")),
        *[language(build, os.path.join(folder, "tokens"), layers) for layers in LAYERS],
        language_layers(build, os.path.join(folder, "tokens")),
    ]  # fmt: skip
    if not quick:
        return found
    found = [workload for workload in found if workload.name in QUICK]
    for workload in found:
        rows = QUICK[workload.name]
        workload.rounds = 1 if workload.name.startswith("cg") else 2
        workload.sides = [side for side in workload.sides if side.name in rows or program(side) in rows]
    return found
