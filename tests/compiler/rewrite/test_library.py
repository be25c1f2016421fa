"""Each pattern is applied where it should be, not where it must not be, and does not change the results."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import check_rewrite, rewrite
from tq_hw.isa.config import Config, load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

CONFIGS = [load_config("n16"), Config("odd", 4, 12, 4, 16 << 10)]
Rng = np.random.Generator
Build = Callable[[ModelBuilder, Rng], int]


def point(rng: Rng) -> int:
    return int(rng.choice([-128, 127, int(rng.integers(-128, 128))]))


def image(b: ModelBuilder, rng: Rng, *shape: int) -> int:
    return b.input(shape or (1, 9, 11, 5), scale=0.04, zero_point=point(rng))


def conv(b: ModelBuilder, rng: Rng, x: int, op: str = "CONV_2D", kernel: int = 3, **options: int | str) -> int:
    channels = b.tensors[x].shape[3]
    dims, axis = ((1, kernel, kernel, channels), 3) if op == "DEPTHWISE_CONV_2D" else ((7, kernel, kernel, channels), 0)
    weights = b.constant(rng.integers(-127, 128, dims).astype(np.int8), dimension=axis,
                         scale=rng.uniform(0.002, 0.01, dims[axis]).tolist())
    bias = b.bias(x, weights, rng.integers(-3000, 3000, dims[axis]))
    return b.add(op, [x, weights, bias], scale=0.07, zero_point=point(rng), options=options)


def scalar(b: ModelBuilder, rng: Rng, x: int, op: str) -> int:
    shape = (1,) if op != "PRELU" else (1, 1, 1)
    other = b.constant(rng.integers(-128, 128, shape).astype(np.int8), scale=0.03, zero_point=point(rng))
    return b.add(op, [x, other], scale=0.09, zero_point=point(rng))


def check(build: Build, ops: Sequence[str], seeds: int = 4) -> None:
    """Assert that the operators become `ops`, and that results of golden model and executor do not change."""
    for seed in range(seeds):
        rng, b = np.random.default_rng(seed), ModelBuilder("pattern")
        model = parse_model(b.build(build(b, rng)), "pattern")
        subgraph = rewrite(model.main, LIBRARY)
        assert [op.op for op in subgraph.operators] == list(ops)
        check_rewrite(model, subgraph)
        programs = [compile_model(model, config).program for config in CONFIGS]
        for kind in ("random", "mix"):
            inputs = random_inputs(model, seed, kind)
            expected = run(model, inputs).outputs
            for program in programs:
                found = execute(program, inputs, check_races=True).outputs
                for want, got in zip(expected, found, strict=True):
                    np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("relu", ["RELU", "RELU6", "RELU_N1_TO_1"])
def test_activation_into_its_producer(relu: str) -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        return b.add(relu, [conv(b, rng, image(b, rng))])
    check(build, ["CONV_2D"])


def test_activation_of_another_scale_stays() -> None:
    check(lambda b, rng: b.add("RELU", [conv(b, rng, image(b, rng))], scale=0.05, zero_point=3), ["CONV_2D", "RELU"])


def test_activation_of_what_others_need_is_not_fused() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = conv(b, rng, image(b, rng))
        return b.add("ADD", [x, b.add("RELU_N1_TO_1", [x])], scale=0.1)
    check(build, ["CONV_2D", "TABLE"])


def scaled(b: ModelBuilder, rng: Rng, op: str, *inputs: int, **options: str) -> int:
    return b.add(op, inputs, scale=0.05, zero_point=point(rng), options=options)


def test_a_product_with_its_own_sigmoid_is_a_table() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = conv(b, rng, image(b, rng))
        return scaled(b, rng, "MUL", *rng.permutation([x, b.add("LOGISTIC", [x])]).tolist())
    check(build, ["CONV_2D", "TABLE"])


def test_a_hard_swish_in_parts_is_a_table() -> None:
    """As `x * relu6(x + 3) * (1 / 6)`; x is read twice, and what comes of it, too."""
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = conv(b, rng, image(b, rng))
        three = b.constant(np.array([100], np.int8), scale=0.03, zero_point=0)
        gate = scalar(b, rng, scaled(b, rng, "ADD", x, three, fused_activation_function="RELU6"), "MUL")
        return scaled(b, rng, "SUB", scaled(b, rng, "MUL", x, gate), gate)
    check(build, ["CONV_2D", "TABLE"])


def test_a_square_is_a_table() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = image(b, rng)
        return scaled(b, rng, "MUL", x, x)
    check(build, ["TABLE"])


def test_a_function_of_two_tensors_stays() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        return scaled(b, rng, "MUL", image(b, rng), b.add("LOGISTIC", [image(b, rng)]))
    check(build, ["LOGISTIC", "MUL"])


def test_a_sigmoid_that_others_need_stays() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = image(b, rng)
        gate = b.add("LOGISTIC", [x])
        return b.add("CONCATENATION", [gate, b.add("MUL", [x, gate], scale=1 / 256, zero_point=-128)], scale=1 / 256,
                     zero_point=-128, options={"axis": 3})
    check(build, ["LOGISTIC", "MUL", "CONCATENATION"])


def test_a_gate_of_each_channel_stays() -> None:
    """As in squeeze and excitation: the product's other factor has another shape."""
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = image(b, rng)
        gate = b.add("LOGISTIC", [b.input((1, 1, 1, 5), scale=0.04, zero_point=3)])
        return scaled(b, rng, "MUL", x, gate)
    check(build, ["LOGISTIC", "MUL"])


def test_chain_of_functions_is_a_table() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = scalar(b, rng, scalar(b, rng, image(b, rng), "ADD"), "MUL")
        return b.add("HARD_SWISH", [b.add("QUANTIZE", [x], scale=0.05, zero_point=-7)], scale=0.06, zero_point=5)
    check(build, ["TABLE"])


@pytest.mark.parametrize("op", ["SUB", "MAXIMUM", "MINIMUM", "PRELU"])
def test_constants_of_one_value(op: str) -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = image(b, rng)
        if op in ("MAXIMUM", "MINIMUM"):
            like = {"scale": b.tensors[x].scale, "zero_point": b.tensors[x].zero_point}
            return b.add("TANH", [b.add(op, [x, b.constant(np.array([[3]], np.int8), **like)])])
        return b.add("TANH", [scalar(b, rng, x, op)])
    check(build, ["TABLE"])


@pytest.mark.parametrize("dtype", ["int16", "uint8", "int8"])
def test_quantize_chain(dtype: str) -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        middle = b.add("QUANTIZE", [image(b, rng)], dtype=dtype, scale=0.03, zero_point=100 if dtype == "uint8" else 0)
        return b.add("QUANTIZE", [middle], scale=0.05, zero_point=point(rng))
    check(build, ["TABLE"])


def test_uint8_at_the_edges() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = b.input((1, 5, 6, 3), "uint8", scale=0.04, zero_point=int(rng.choice([0, 128, 255, 77])))
        x = b.add("LOGISTIC", [b.add("QUANTIZE", [x], scale=0.05, zero_point=point(rng))])
        return b.add("QUANTIZE", [x], dtype="uint8", scale=0.004, zero_point=int(rng.integers(256)))
    check(build, ["TABLE"])


def test_by_way_of_float() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        return b.add("QUANTIZE", [b.add("DEQUANTIZE", [image(b, rng)])], scale=0.05, zero_point=point(rng))
    check(build, ["TABLE"])


def test_what_changes_nothing_goes() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = image(b, rng)
        same = b.add("QUANTIZE", [x], scale=b.tensors[x].scale, zero_point=b.tensors[x].zero_point)
        return conv(b, rng, same)
    check(build, ["CONV_2D"])


def test_constants_of_several_values_stay() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        other = b.constant(np.arange(5, dtype=np.int8), scale=0.03)
        return b.add("TANH", [b.add("MUL", [image(b, rng), other], scale=0.09)])
    check(build, ["MUL", "TANH"])


@pytest.mark.parametrize("op", ["ADD", "MUL", "MAXIMUM"])
def test_constants_that_change_nothing_go(op: str) -> None:
    """A factor of 1 and a term of 0 for each channel after a convolution; a maximum with numbers below every code."""
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = conv(b, rng, image(b, rng))
        scale, zero_point = b.tensors[x].scale, b.tensors[x].zero_point
        value, unit, code = {"ADD": (7, scale, 7), "MUL": (64, 1 / 64, 0), "MAXIMUM": (-128, scale, zero_point)}[op]
        other = b.constant(np.full((1, 1, 1, 7), value, np.int8), scale=unit, zero_point=code)
        pair = [x, other] if rng.random() < 0.5 else [other, x]
        y = b.add(op, pair, scale=scale, zero_point=zero_point)
        return b.add("MAX_POOL_2D", [y], filter_height=2, filter_width=2, padding="SAME")
    check(build, ["CONV_2D", "MAX_POOL_2D"])


def test_factors_of_channels_stay() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = conv(b, rng, image(b, rng))
        factors = b.constant(np.array([64, 64, 63, 64, 64, 64, 64], np.int8), scale=1 / 64)
        return b.add("TANH", [b.add("MUL", [x, factors], scale=b.tensors[x].scale, zero_point=b.tensors[x].zero_point)])
    check(build, ["CONV_2D", "MUL", "TANH"], 1)


def atrous(op: str, block: tuple[int, int], between: Sequence[str], padding: str = "VALID", crop: int = 0) -> Build:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = image(b, rng)
        _, h, w, _ = b.tensors[x].shape
        low = [crop + int(n) for n in rng.integers(0, 3, 2)]
        reach = [2 * step if padding == "VALID" else 0 for step in block]
        high = [max(r - at, 0) + 2 * crop for r, at in zip(reach, low, strict=True)]
        high = [n + -(size + at + n) % step for n, size, at, step in zip(high, (h, w), low, block, strict=True)]
        y = b.add("SPACE_TO_BATCH_ND", [x, b.constant(list(block)), b.constant([[low[0], high[0]], [low[1], high[1]]])])
        y = conv(b, rng, y, op, padding=padding)
        channels = b.tensors[y].shape[3]
        for name in between:
            if name in ("MUL", "ADD"):
                other = b.constant(rng.integers(-128, 128, (channels,)).astype(np.int8), scale=0.03,
                                   zero_point=point(rng))
                y = b.add(name, [y, other] if rng.random() < 0.5 else [other, y], scale=0.09, zero_point=point(rng))
            else:
                y = b.add(name, [y], scale=0.08, zero_point=point(rng))
        _, rows, cols, _ = b.tensors[y].shape
        crops = [[crop, max(size * step - at - crop, 0)] for size, step, at in zip((rows, cols), block, (h, w),
                                                                                   strict=True)]
        return b.add("BATCH_TO_SPACE_ND", [y, b.constant(list(block)), b.constant(crops)])
    return build


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_dilated_convolution(op: str, padding: str) -> None:
    check(atrous(op, (2, 3), (), padding), ["PAD", op])


def test_dilated_convolution_with_crops() -> None:
    check(atrous("DEPTHWISE_CONV_2D", (2, 2), (), crop=1), ["PAD", "DEPTHWISE_CONV_2D"])


def test_dilated_convolution_with_a_batch_norm() -> None:
    check(atrous("DEPTHWISE_CONV_2D", (2, 2), ("MUL", "ADD", "RELU")),
          ["PAD", "DEPTHWISE_CONV_2D", "MUL", "ADD", "RELU"])


def test_blocks_of_several_sizes_stay() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = image(b, rng, 1, 8, 12, 5)
        y = b.add("SPACE_TO_BATCH_ND", [x, b.constant([2, 3]), b.constant([[0, 0], [0, 0]])])
        y = conv(b, rng, y, padding="SAME")
        return b.add("BATCH_TO_SPACE_ND", [y, b.constant([3, 2]), b.constant([[0, 0], [0, 0]])])
    check(build, ["SPACE_TO_BATCH_ND", "CONV_2D", "BATCH_TO_SPACE_ND"])


def test_two_transposes_are_one() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = b.add("TRANSPOSE", [image(b, rng, 2, 3, 4, 5), b.constant([0, 3, 1, 2])])
        return b.add("TRANSPOSE", [x, b.constant([3, 0, 1, 2])])
    check(build, ["TRANSPOSE"])


def test_transposes_that_undo_each_other_and_of_axes_of_one_index() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = b.add("TRANSPOSE", [image(b, rng, 1, 3, 4, 5), b.constant([0, 3, 1, 2])])
        return b.add("TRANSPOSE", [x, b.constant([2, 3, 1, 0])])
    check(build, ["RESHAPE"])


@pytest.mark.parametrize("adjoint", [False, True])
def test_transposed_operand(adjoint: bool) -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        left = b.add("TRANSPOSE", [image(b, rng, 2, 3, 7), b.constant([0, 2, 1])])
        right = b.add("TRANSPOSE", [image(b, rng, 2, *((3, 4) if adjoint else (4, 3))), b.constant([0, 2, 1])])
        return b.add("BATCH_MATMUL", [left, right], adj_y=adjoint, scale=0.3, zero_point=point(rng))
    check(build, ["BATCH_MATMUL"])


def test_transposed_features() -> None:
    def build(b: ModelBuilder, rng: Rng) -> int:
        x = b.add("TRANSPOSE", [image(b, rng, 2, 3, 4, 5), b.constant([0, 3, 1, 2])])
        flat = b.add("RESHAPE", [x, b.constant([2, 60])])
        data = rng.integers(-127, 128, (6, 60)).astype(np.int8)
        weights = b.constant(data, scale=rng.uniform(0.002, 0.01, 6).tolist())
        bias = b.bias(flat, weights, rng.integers(-3000, 3000, 6))
        return b.add("FULLY_CONNECTED", [flat, weights, bias], scale=0.2, zero_point=point(rng))
    check(build, ["RESHAPE", "FULLY_CONNECTED"])
