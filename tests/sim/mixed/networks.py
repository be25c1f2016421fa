"""Networks with operators that stay on the host, and the two ways in which they are run."""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.partition import partition
from tq_hw.isa.config import load_config
from tq_hw.model.cut import compact
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model

RNG = np.random.default_rng(11)


def conv(b, image, channels, scale=0.15):
    depth = b.tensors[image].shape[-1]
    weights = b.constant(RNG.integers(-99, 99, (channels, 3, 3, depth)).astype(np.int8), scale=[0.01] * channels)
    bias = b.bias(image, weights, RNG.integers(-99, 99, channels))
    return b.add("CONV_2D", [image, weights, bias], scale=scale, zero_point=-3, padding="SAME")


def float_middle(op="SOFTMAX"):
    """CONV_2D, a float32 softmax over an axis, CONV_2D, and a connection that bypasses the softmax."""
    b = ModelBuilder("middle")
    image = b.input((1, 5, 4, 3), scale=0.1, zero_point=2, name="image")
    first = conv(b, image, 6)
    real = b.add("DEQUANTIZE", [first])
    soft = b.add(op, [real], dtype="float32")
    back = b.add("QUANTIZE", [soft], scale=0.004, zero_point=-128)
    second = conv(b, back, 4)
    around = conv(b, first, 4)
    return b.model(b.add("ADD", [second, around], scale=0.3, zero_point=1))


def topk_head():
    """A dense layer whose five largest outputs are found on the host; the model has both outputs of TOPK_V2."""
    b = ModelBuilder("head")
    image = b.input((1, 5, 4, 3), scale=0.1, zero_point=2, name="image")
    features = b.add("RESHAPE", [conv(b, image, 2), b.constant([1, 40])])
    weights = b.constant(RNG.integers(-99, 99, (9, 40)).astype(np.int8), scale=[0.02])
    bias = b.bias(features, weights, RNG.integers(-99, 99, 9))
    dense = b.add("FULLY_CONNECTED", [features, weights, bias], scale=1.0)
    real = b.add("DEQUANTIZE", [dense])
    best = b.add_many("TOPK_V2", [real, b.constant(np.array(5, np.int32))], 2, shapes=[(1, 5), (1, 5)])
    model = b.model(*best)
    tensors = list(model.main.tensors)
    tensors[best[1]] = replace(tensors[best[1]], dtype="int32")
    return Model("head", (replace(model.main, tensors=tuple(tensors)),))


def two_towers():
    """Two inputs; one tower ends on the host, whose last two operators share a state."""
    b = ModelBuilder("towers")
    left = b.input((1, 4, 4, 2), scale=0.1, name="left")
    right = b.input((1, 4, 4, 2), scale=0.1, zero_point=5, name="right")
    b.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    options = {"container": "", "shared_name": "v"}
    handle = b.add("VAR_HANDLE", [], shape=(), options=options)
    held = b.add("READ_VARIABLE", [handle], shape=(1, 4, 4, 3), dtype="float32")
    real = b.add("DEQUANTIZE", [conv(b, right, 3)])
    sums = b.add("CUMSUM", [real, b.constant(np.array(1, np.int32))], shape=(1, 4, 4, 3), dtype="float32")
    total = b.add("ADD", [sums, held], dtype="float32")
    b.operator("ASSIGN_VARIABLE", [handle, total], [])
    code = b.add("QUANTIZE", [total], scale=0.2, zero_point=3)
    both = b.add("CONCATENATION", [conv(b, left, 3, 0.2), code], scale=0.2, zero_point=3, axis=3, shape=(1, 4, 4, 6))
    tensors = [*b.tensors]
    first_of_both = tensors[b.operators[-1].inputs[0]]
    assert first_of_both.quantization is not None
    tensors[first_of_both.index] = replace(first_of_both, quantization=replace(first_of_both.quantization,
                                                                               zero_point=(3,)))
    first = ModelBuilder("init")
    handle = first.add("VAR_HANDLE", [], shape=(), options=options)
    first.operator("ASSIGN_VARIABLE", [handle, first.constant(np.full((1, 4, 4, 3), 1.5, np.float32))], [])
    main = replace(b.model(both).main, tensors=tuple(tensors))
    return Model("towers", (main, first.model().main))


def of_two(op):
    """A subgraph that computes `op` of two float32 numbers."""
    b = ModelBuilder(op.lower())
    return b.model(b.add(op, [b.input((), "float32"), b.input((), "float32")], shape=(), dtype="float32")).main


def windows():
    """Operators with options in the schema's second union, two of which call a subgraph, such as a pad that crops."""
    b = ModelBuilder("windows")
    real = b.add("DEQUANTIZE", [conv(b, b.input((1, 5, 4, 3), scale=0.1, zero_point=2, name="image"), 6)])
    padded = b.add("STABLEHLO_PAD", [real, b.constant(np.array(0.5, np.float32))], shape=(1, 6, 5, 6), options={
        "edge_padding_low": (0, 2, -1, 0), "edge_padding_high": (0, -1, 2, 0), "interior_padding": (0, 0, 0, 0)})
    pooled = b.add("STABLEHLO_REDUCE_WINDOW", [padded, b.constant(np.array(-np.inf, np.float32))], shape=(1, 4, 3, 6),
                   options={"window_dimensions": (1, 2, 2, 1), "window_strides": (1,) * 4, "base_dilations": (1,) * 4,
                            "window_dilations": (1, 2, 2, 1), "padding": (0,) * 8, "body_subgraph_index": 1})
    rows = b.add("STABLEHLO_GATHER", [pooled, b.constant(np.array([[3], [0], [1], [3], [2]], np.int32))],
                 shape=(1, 5, 3, 6), options={
                     "offset_dims": (0, 2, 3), "collapsed_slice_dims": (1,), "start_index_map": (1,),
                     "index_vector_dim": 1, "slice_sizes": (1, 1, 3, 6)})
    sums = b.add("STABLEHLO_SCATTER", [
        b.constant(np.full((1, 4, 3, 6), 0.25, np.float32)), b.constant(np.array([[1], [2], [1], [0], [2]], np.int32)),
        rows], shape=(1, 4, 3, 6), options={
            "update_window_dims": (0, 2, 3), "inserted_window_dims": (1,), "scatter_dims_to_operand_dims": (1,),
            "index_vector_dim": 1, "update_computation_subgraph_index": 2})
    main = b.model(conv(b, b.add("QUANTIZE", [sums], scale=0.3, zero_point=-7), 4)).main
    return Model("windows", (main, of_two("MAXIMUM"), of_two("STABLEHLO_ADD")))


NETWORKS = {"middle": float_middle, "head": topk_head, "towers": two_towers, "windows": windows}


def draw(model, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(-128, 128, model.main.tensors[index].shape).astype(np.int8)
                 for index in model.main.inputs)


def parts_of(data, config="tiny"):
    """Return the partition of a file's contents, and the mixed model as read back from its own file."""
    made = partition(parse_model(data, "m.tflite", rules=False), load_config(config))
    return made, parse_model(write_model(compact(made.model)), "m_tq.tflite", rules=False)


def names(model: Model) -> list[str]:
    return [op.op for op in model.main.operators]

