"""Writes golden_onnx.h: two small graphs, made by the Python package onnx (1.23) and serialised by it, as bytes.

    python3 tests/export/golden_onnx.py > tests/export/golden_onnx.h
"""
import numpy
import onnx
from onnx import helper, numpy_helper


def held(name, values, shape):
    return numpy_helper.from_array(numpy.array(values, "float32").reshape(shape), name)


def value(name, *shape):
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)


def node(name, ins, **attributes):
    op = "Identity" if name == "output" else name.split("/")[-1].split("_")[0]
    return helper.make_node(op, ins, [name], name, **attributes)


def wholes(*values):
    return numpy_helper.from_array(numpy.array(values, "int64"), "_".join(["i64", *map(str, values)]))


def graph_of(nodes, inputs, outputs, parameters):
    return helper.make_graph(nodes, "network", inputs, outputs, sorted(parameters, key=lambda one: one.name))


def mlp():
    nodes = [node("0/Gemm_1", ["x", "0.weight", "0.bias"], transB=1), node("0/Relu_2", ["0/Gemm_1"]),
             node("1/Gemm_3", ["0/Relu_2", "1.weight", "1.bias"], transB=1), node("output", ["1/Gemm_3"])]
    parameters = [held("0.weight", [1, -2, 0.5, 0.25, 3, -1], (3, 2)), held("0.bias", [0.5, -0.5, 1], (3,)),
                  held("1.weight", [1, 2, 3], (1, 3)), held("1.bias", [-4], (1,))]
    return graph_of(nodes, [value("x", "batch", 2)], [value("output", "batch", 1)], parameters)


def images():
    nodes = [node("0/Transpose_1", ["x"], perm=[0, 3, 1, 2]), node("0/Transpose_2", ["0.weight"], perm=[3, 2, 0, 1]),
             node("0/Conv_3", ["0/Transpose_1", "0/Transpose_2", "0.bias"], dilations=[1, 1], group=1,
                  pads=[1, 1, 1, 1], strides=[2, 2]),
             node("0/Transpose_4", ["0/Conv_3"], perm=[0, 2, 3, 1]),
             node("1/LayerNormalization_5", ["0/Transpose_4", "1.weight", "1.bias"], epsilon=0.25),
             node("2/Reshape_6", ["1/LayerNormalization_5", "i64_-1_8"]), node("output", ["2/Reshape_6"])]
    parameters = [held("0.weight", [1, -1, 2, -2, 3, -3, 4, -4], (2, 2, 1, 2)), held("0.bias", [0.5, 1], (2,)),
                  held("1.weight", [2, 3], (2,)), held("1.bias", [-1, 1], (2,)), wholes(-1, 8)]
    return graph_of(nodes, [value("x", "batch", 3, 3, 1)], [value("output", "batch", 8)], parameters)


def norm():
    nodes = [node("BatchNormalization_1", ["x", "weight", "bias", "running_mean", "running_var"], epsilon=0.5),
             node("output", ["BatchNormalization_1"])]
    parameters = [held("weight", [2, 3], (2,)), held("bias", [-1, 1], (2,)), held("running_mean", [0.5, 0.25], (2,)),
                  held("running_var", [4, 9], (2,))]
    return graph_of(nodes, [value("x", "batch", 2)], [value("output", "batch", 2)], parameters)


print("/* Written by golden_onnx.py. */")
for name, graph in ("mlp", mlp()), ("images", images()), ("norm", norm()):
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    data = graph.SerializeToString()
    print(f"static const unsigned char golden_{name}[] = {{")
    for at in range(0, len(data), 16):
        print("    " + " ".join(f"0x{byte:02x}," for byte in data[at:at + 16]))
    print("};")
