# onnxruntime runs models written by libbetty and agrees with libbetty to 1e-5: each op that has a rule, each module of
# betty/nn.h for two batch sizes, and trained runs. onnx's own checker accepts all of them, and the schema of Debian's
# libonnx-dev knows every field.
# Debian: protoc=protobuf-compiler libonnx-dev
# PyPI: numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0
import os
import re
import subprocess
import sys

import numpy
import onnx
import onnxruntime

source, build = os.environ["BT_SOURCE_DIR"], os.environ["BT_BUILD_DIR"]
include = ["-I", source + "/libbetty/include"]
inside = ["-D_GNU_SOURCE", "-I", source + "/libbetty", "-I", source + "/tests"]
with open(build + "/libbetty.pc") as description:
    libraries = re.search("^Libs.private: (.*)$", description.read(), re.MULTILINE)[1].split()
readers, betty = source + "/tests/readers/", os.environ["BETTY_RUN"]


def compile_and_run(name, *parts):
    subprocess.run(["cc", "-std=c11", "-O1", *include, *parts, "-o", name], check=True)
    subprocess.run(["./" + name], check=True, stderr=subprocess.DEVNULL)


def arrays(words, count):
    """count times NAME DTYPE RANK SIZES..., and what comes after them."""
    found = []
    for _ in range(count):
        name, dtype, rank = words[0], words[1], int(words[2])
        found.append((name, dtype, [int(size) for size in words[3:3 + rank]]))
        words = words[3 + rank:]
    return found, words


def read(path, dtype, shape):
    return numpy.fromfile(path, dtype=dtype).reshape(shape)


def session(path):
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def compare(what, model, inputs, expected):
    """Relative to the largest number, or absolute where that is below 1; what is not finite is equal."""
    found = model.run(None, inputs)[0]
    assert found.shape == expected.shape, (what, found.shape, expected.shape)
    found, expected = found.astype("float64"), expected.astype("float64")
    finite = numpy.isfinite(expected)
    assert numpy.array_equal(found[~finite], expected[~finite], equal_nan=True), (what, found, expected)
    scale = max(1, abs(expected[finite]).max(initial=0))
    apart = abs(found[finite] - expected[finite]).max(initial=0) / scale
    assert apart < 1e-5, (what, apart, found, expected)
    return apart


def try_ops():
    parts = [source + "/tests/export/op_models.c", source + "/tests/export/graph_hash.c"]
    compile_and_run("ops", *inside, readers + "onnx_ops.c", *parts, build + "/libbetty.a", *libraries)
    worst, golden = 0, []
    for line in open("ops.txt"):
        name, value, count, *words = line.split()
        inputs, words = arrays(words, int(count))
        shape = [int(size) for size in words[2:]]
        given = {field: read(f"{name}.{field}.bin", dtype, sizes) for field, dtype, sizes in inputs}
        expected = read(f"{name}.output.bin", "float64", shape)
        worst = max(worst, compare(name, session(name + ".onnx"), given, expected))
        golden.append(f'{{"{name}", UINT64_C(0x{value})}},\n')
    print(f"{len(golden)} samples of ops: {worst:.1e} apart at most")
    with open("golden_ops.h", "w") as file:
        file.write("/* Hashes of the graphs of models, each of which onnxruntime has computed to 1e-5 of what the op does:\n"
                   " * written by tests/readers/onnx.py. */\n/* clang-format off */\n" + "".join(golden))
    with open(source + "/tests/export/golden_ops.h") as file:
        if file.read() != open("golden_ops.h").read():
            sys.exit(f"tests/export/golden_ops.h says otherwise; what onnxruntime agrees with is {os.getcwd()}/golden_ops.h")


def try_modules():
    compile_and_run("modules", readers + "onnx_modules.c", "-L", build, "-lbetty", "-Wl,-rpath," + build)
    worst, count = 0, 0
    for line in open("cases.txt"):
        name, examples, inputs, *words = line.split()
        inputs, words = arrays(words, int(inputs))
        given = {field: read(f"{name}.{examples}.{field}.bin", dtype, sizes) for field, dtype, sizes in inputs}
        expected = read(f"{name}.{examples}.output.bin", "float32", [int(size) for size in words[1:]])
        worst = max(worst, compare((name, examples), session(name + ".onnx"), given, expected))
        count += 1
    print(f"{count} batches of modules: {worst:.1e} apart at most")


runs = [  # INI file, problem, input, settings
    ("reweight", "classifier", "image", ["engine.train_iters=60"]),
    ("reweight_cifar", "classifier", "image",
     ["engine.train_iters=6", "classifier.data=fashion-mnist", "classifier.colours=false"]),
    ("maml_omniglot", "learner", "query.image", ["engine.train_iters=4"]),
    ("darts_cell", "classifier", "image",
     ["engine.train_iters=6", "classifier.data=fashion-mnist", "classifier.valid_batches=1"]),
    ("language", "language", "token", ["engine.train_iters=20", "language.valid_batch_size=8"]),
    ("language", "language", "token",
     ["engine.train_iters=20", "language.valid_batch_size=8", "language.gpt2=true", "language.width=16"]),
    ("weak_labels", "classifier", "x", ["engine.train_iters=40"]),
]


def try_runs():
    """A trained run, on a batch of its validation data."""
    parts = ["-I", source, readers + "onnx_runs.c", build + "/libbetty.a", *libraries]
    subprocess.run(["cc", "-std=c11", "-O1", *include, *inside, *parts, "-o", "runs"], check=True)
    for number, (ini, problem, field, settings) in enumerate(runs):
        run = f"run{number}"
        options = [word for setting in ["engine.valid_step=0", *settings] for word in ("--set", setting)]
        subprocess.run([betty, f"{source}/examples/{ini}.ini", "--output", run, "--quiet", *options], check=True)
        subprocess.run([betty, "--export", run + ".onnx", "--problem", problem, run], check=True)
        subprocess.run(["./runs", run, problem, field], check=True)
        with open("run.txt") as file:
            found, _ = arrays(file.read().split(), 2)
        given, expected = [read(f"run.{name}.bin", dtype, shape) for name, dtype, shape in found]
        model = session(run + ".onnx")
        name = model.get_inputs()[0].name
        apart = compare(run, model, {name: given}, expected)
        print(f"{ini}, {problem}: {apart:.1e} apart")


def try_schema():
    """The schema of Debian's libonnx-dev reads it, without a field that it does not know."""
    with open("mlp.onnx", "rb") as file:
        text = subprocess.run(["protoc", "--decode=onnx.ModelProto", "-I", "/usr/include", "/usr/include/onnx/onnx.proto"],
                              stdin=file, capture_output=True, check=True, text=True).stdout
    assert 'op_type: "Gemm"' in text and 'dim_param: "batch"' in text
    assert not re.search(r"^ *\d+(:| \{)", text, re.M), "fields that the schema does not know"


try_ops()
try_modules()
try_runs()
try_schema()
