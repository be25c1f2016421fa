"""Float32 tensors that are only moved become int8, and every output equals LiteRT's."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.float_moves import MOVES
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.rules.signatures import FLOAT_MOVES
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

Build = Callable[[ModelBuilder], tuple[int, ...]]


def number(b: ModelBuilder, value: object) -> int:
    return b.constant(np.array(value, np.int32))


def image(b: ModelBuilder, channels: int = 8, scale: float = 0.05, point: int = 3) -> int:
    return b.add("DEQUANTIZE", [b.input((1, 4, 6, channels), scale=scale, zero_point=point)])


def transposed(b: ModelBuilder, x: int) -> int:
    return b.add("TRANSPOSE", [x, number(b, [0, 3, 1, 2])], shape=(1, 8, 4, 6))


def inside_an_island(b: ModelBuilder) -> tuple[int, ...]:
    x = b.add("RESHAPE", [transposed(b, image(b)), number(b, [8, 24])], shape=(8, 24))
    return (b.add("QUANTIZE", [b.add("SIN", [x])], scale=0.01),)


def of_two_scales(b: ModelBuilder) -> tuple[int, ...]:
    x = b.add("CONCATENATION", [image(b), image(b, 4, 0.02, -7), b.constant(np.full((1, 4, 6, 1), 0.7, np.float32))],
              shape=(1, 4, 6, 13), options={"axis": 3})
    x = b.add("PAD", [x, number(b, [[0, 0], [1, 1], [0, 2], [0, 0]])], shape=(1, 6, 8, 13))
    return (b.add("QUANTIZE", [x], scale=0.04, zero_point=-5),)


def before_a_float_output(b: ModelBuilder) -> tuple[int, ...]:
    begin, size = number(b, [0, 2, 0, 0]), number(b, [1, 4, 4, 6])
    return (b.add("SLICE", [transposed(b, image(b)), begin, size], shape=(1, 4, 4, 6)),)


def after_a_float_input(b: ModelBuilder) -> tuple[int, ...]:
    x = b.add("TRANSPOSE", [b.input((1, 8, 4, 6), dtype="float32"), number(b, [0, 2, 3, 1])], shape=(1, 4, 6, 8))
    return (b.add("RELU", [b.add("QUANTIZE", [x], scale=0.01, zero_point=4)], scale=0.01, zero_point=4),)


def of_a_sum(b: ModelBuilder) -> tuple[int, ...]:
    x = image(b)
    made = transposed(b, b.add("ADD", [x, image(b, 8, 0.0313, -20)], options={"fused_activation_function": "RELU"}))
    tiled = b.add("TILE", [x, number(b, [1, 2, 1, 1])], shape=(1, 8, 6, 8))
    return b.add("QUANTIZE", [made], scale=0.04), b.add("QUANTIZE", [tiled], scale=0.07, zero_point=-5)


def chosen(b: ModelBuilder) -> tuple[int, ...]:
    """Both operands of a choice, with one scale and with two, are quantized before it."""
    codes, others = (b.input((1, 4, 6, 8), scale=0.05, zero_point=3) for _ in range(2))
    condition = b.add("GREATER", [others, b.constant(np.array(9, np.int8), scale=0.05, zero_point=3)])
    x = b.add("DEQUANTIZE", [codes])
    made = b.add("SELECT_V2", [condition, x, b.constant(np.zeros((), np.float32))], shape=(1, 4, 6, 8))
    other = b.add("SELECT", [condition, image(b, 8, 0.02, -9), x], shape=(1, 4, 6, 8))
    return b.add("QUANTIZE", [made], scale=0.05, zero_point=3), b.add("QUANTIZE", [other], scale=0.03, zero_point=7)


def extremes(b: ModelBuilder) -> tuple[int, ...]:
    x = image(b)
    most = b.add("REDUCE_MAX", [x, number(b, [1, 2])], shape=(1, 8))
    least = b.add("REDUCE_MIN", [x, number(b, [3])], shape=(1, 4, 6, 1), options={"keep_dims": True})
    return b.add("QUANTIZE", [most], scale=0.06, zero_point=-1), least


def one_in_another(b: ModelBuilder) -> tuple[int, ...]:
    x = b.add("PADV2", [image(b), number(b, [[0, 0], [1, 1], [0, 2], [0, 0]]), b.constant(np.array(-1.7, np.float32))],
              shape=(1, 6, 8, 8))
    made = b.add("DYNAMIC_UPDATE_SLICE", [x, image(b, 8, 0.02, 0), number(b, [0, 1, 3, 0])], shape=(1, 6, 8, 8))
    return (b.add("QUANTIZE", [made], scale=0.04, zero_point=-5),)


def largest(b: ModelBuilder) -> tuple[int, ...]:
    """As ai-edge-quantizer leaves TOPK_V2: the outputs are numbers and indices, or codes."""
    x = b.add("RESHAPE", [image(b), number(b, [6, 32])], shape=(6, 32))
    most, places = b.add_many("TOPK_V2", [x, number(b, 5)], 2)
    other, _ = b.add_many("TOPK_V2", [x, number(b, 2)], 2)
    return most, places, b.add("QUANTIZE", [other], scale=0.07, zero_point=3)


def parts(b: ModelBuilder) -> tuple[int, ...]:
    """Parts of inputs, one of float32 and one of uint8, as in full integer exports."""
    sizes, axis = number(b, [3, 5]), number(b, 3)
    one, other = b.add_many("SPLIT_V", [b.input((1, 4, 6, 8), dtype="float32"), sizes, axis], 2)
    image = b.add("DEQUANTIZE", [b.input((1, 4, 6, 8), "uint8", scale=0.05, zero_point=127)])
    last, _ = b.add_many("SPLIT_V", [image, sizes, axis], 2)
    return (b.add("QUANTIZE", [one], scale=0.03, zero_point=9), b.add("QUANTIZE", [other], scale=0.03, zero_point=9),
            b.add("QUANTIZE", [last], scale=0.05, zero_point=-1))


def looked_up(b: ModelBuilder) -> tuple[int, ...]:
    """Rows of a float32 table, as in PyTorch; the words are indices of the largest numbers."""
    words = b.add("ARG_MAX", [b.input((6, 9), scale=0.1), b.constant(1)], output_type="int32")
    table = b.constant(np.random.default_rng(3).normal(size=(9, 5)).astype(np.float32))
    rows = b.add("EMBEDDING_LOOKUP", [words, table], shape=(6, 5), dtype="float32")
    one = b.add("QUANTIZE", [b.add("RESHAPE", [rows, b.constant([5, 6])], shape=(5, 6))], scale=0.02, zero_point=3)
    return one, b.add("QUANTIZE", [b.add("MEAN", [rows, b.constant([0])], shape=(5,))], scale=0.01, zero_point=-7)


@pytest.mark.parametrize(("build", "left"), [
    (looked_up, ["ARG_MAX", "EMBEDDING_LOOKUP", "RESHAPE", "EMBEDDING_LOOKUP", "MEAN", "QUANTIZE"]),
    (parts, ["QUANTIZE"] * 2 + ["TABLE"] + ["SPLIT_V"] * 3),
    (largest, ["RESHAPE", "TOPK_V2", "DEQUANTIZE", "TOPK_V2", "TABLE"]),
    (chosen, ["GREATER", "SELECT_V2", "TABLE", "TABLE", "SELECT"]),
    (extremes, ["REDUCE_MAX", "TABLE", "REDUCE_MIN", "DEQUANTIZE"]),
    (one_in_another, ["TABLE", "TABLE", "PADV2", "DYNAMIC_UPDATE_SLICE"]),
    (inside_an_island, ["TRANSPOSE", "RESHAPE", "TABLE"]), (of_two_scales, ["TABLE", "TABLE", "CONCATENATION", "PAD"]),
    (before_a_float_output, ["TRANSPOSE", "SLICE", "DEQUANTIZE"]),
    (after_a_float_input, ["QUANTIZE", "TRANSPOSE", "RELU"]), (of_a_sum, ["TILE", "PAIR", "TRANSPOSE", "TABLE"])])
def test_what_is_moved_is_int8(litert: Oracle, build: Build, left: list[str]) -> None:
    b = ModelBuilder("moves")
    data = b.build(*build(b))
    model = parse_model(data, "moves")
    found = [op.op for op in rewrite(model.main, LIBRARY).operators]
    assert sorted(found) == sorted(left)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=tensor.shape).astype(np.float32) if tensor.dtype == "float32" else
              rng.integers(-128, 128, tensor.shape).astype(np.int8).view(tensor.dtype)
              for tensor in (model.main.tensors[index] for index in model.main.inputs)]
    for ours, golden, theirs in zip(execute(compile_model(model, load_config("n8")).program, inputs).outputs,
                                    run(model, inputs).outputs, litert.run(data, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)
        np.testing.assert_array_equal(golden, theirs, strict=True)


def test_moves_are_those_of_the_rules() -> None:
    assert {*MOVES, "SCATTER_ND"} == set(FLOAT_MOVES)  # which becomes GATHER
