"""Derived parameters that the compiler shares, and messages about invalid ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tq_hw.model.errors import ModelError, OptionError, TqError, UnsupportedError
from tq_hw.model.graph import Model, Operator
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.sim.golden import activation, conv, elementwise, pooling, reduce, resize, run, softmax
from tq_hw.sim.golden.slicing import strided_slice_ranges


def conv_model(weight_point: int = 0) -> Model:
    b = ModelBuilder("conv")
    x = b.input((1, 8, 6, 3), scale=0.5, zero_point=-3)
    w = b.constant(np.ones((2, 3, 3, 3), np.int8), scale=[0.25, 0.5], zero_point=weight_point)
    y = b.add("CONV_2D", [x, w, b.bias(x, w, [5, -7])], scale=0.25, zero_point=4, padding="SAME", stride_h=2,
              stride_w=2, fused_activation_function="RELU")
    return b.model(y)


def test_convolution() -> None:
    model = conv_model()
    p = conv.params(model.main.operators[0], model.main)
    assert p.multiplier.tolist() == [1 << 30, 1 << 30] and p.shift.tolist() == [0, 1]
    assert (p.pad_top, p.pad_left, p.pad_bottom, p.pad_right) == (0, 0, 1, 1)
    assert (p.out_height, p.out_width, p.groups) == (4, 3, 1)
    assert (p.input_zero_point, p.output_zero_point, p.act_min, p.act_max) == (-3, 4, 4, 127)


def test_addition_uses_a_common_scale() -> None:
    b = ModelBuilder()
    x, y = b.input((2,), scale=0.5, zero_point=1), b.input((2,), scale=0.25, zero_point=2)
    model = b.model(b.add("ADD", [x, y], scale=0.5, zero_point=3))
    p = elementwise.add_params(model.main.operators[0], model.main)
    assert (p.multiplier_1, p.shift_1, p.multiplier_2, p.shift_2) == (1 << 30, 0, 1 << 30, -1)
    assert (p.output_multiplier, p.output_shift, p.left_shift) == (1 << 30, -18, 20)


def test_mean_divides_within_the_multiplier() -> None:
    b = ModelBuilder()
    model = b.model(b.add("MEAN", [b.input((2, 3, 5), scale=0.5), b.constant([1, -1])], scale=0.5))
    p = reduce.mean_params(model.main.operators[0], model.main)
    assert (p.axes, p.count) == ((1, 2), 15)
    assert (p.multiplier, p.shift) == ((1 << 30 + 3) // 15, 1 - 3)


def test_softmax_differences_below_the_minimum_count_as_nothing() -> None:
    b = ModelBuilder()
    model = b.model(b.add("SOFTMAX", [b.input((1, 4), scale=0.5)]))
    p = softmax.params(model.main.operators[0], model.main)
    assert (p.multiplier, p.left_shift, p.diff_min) == (1 << 30, 26, -31)
    table = softmax.exp_table(p)
    assert table[0] == (1 << 31) - 1 and (table[32:] == 0).all() and (np.diff(table) <= 0).all()


def test_tables_cover_every_input_in_order() -> None:
    logistic, tanh = activation.logistic_lut(0.0625, 0), activation.tanh_lut(0.0625, 0)
    assert logistic.dtype == tanh.dtype == np.int8 and logistic.shape == tanh.shape == (256,)
    assert logistic[128] == 0 and tanh[128] == 0
    assert (np.diff(logistic.astype(int)) >= 0).all()
    bounded = np.clip(tanh[1:].astype(int), -127, 127)
    assert (bounded == -bounded[::-1]).all()


def test_bilinear_taps_at_the_border() -> None:
    taps = resize.bilinear_taps(4, 8, align_corners=False, half_pixel_centers=True)
    assert taps.low.tolist() == [0, 0, 0, 1, 1, 2, 2, 3] and taps.high.tolist() == [0, 1, 1, 2, 2, 3, 3, 3]
    assert taps.fraction.tolist() == [-256, 256, 768, 256, 768, 256, 768, 256]


def test_shrunk_axis_with_begin_mask_takes_index_0() -> None:
    masks = {"begin_mask": 1, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 1,
             "offset": False}
    op = Operator(0, "STRIDED_SLICE", (0, 1, 2, 3), (4,), masks)
    assert strided_slice_ranges(op, (5, 4), [3], [0], [1]) == [(range(0, 1), True), (range(4), False)]


def one(op: str, output: float | None = None, **options: Any) -> Model:
    b = ModelBuilder()
    return b.model(b.add(op, [b.input((1, 4), scale=0.5)], scale=output, **options))


def add_model(output: float) -> Model:
    b = ModelBuilder()
    x = b.input((2,), scale=1.0)
    return b.model(b.add("ADD", [x, x], scale=output))


def compare_model() -> Model:
    b = ModelBuilder()
    x = b.input((2,), scale=1.5)
    return b.model(b.add("LESS", [x, x]))


def pool_model() -> Model:
    b = ModelBuilder()
    x = b.input((1, 4, 4, 1), scale=0.5)
    return b.model(b.add("MAX_POOL_2D", [x], scale=0.25, zero_point=0, filter_height=2, filter_width=2))


def lstm_model() -> Model:
    b = ModelBuilder()
    x = b.input((1, 2, 3), scale=0.5)
    inputs = [x, -1] + [b.constant(np.ones((4, 3), np.int8), scale=0.5) for _ in range(17)]
    inputs[9:12] = inputs[16:18] = [-1] * 3
    inputs = inputs[:18] + [-1] * (18 - len(inputs[:18]))
    inputs += [b.tensor((1, 4), scale=0.5, is_variable=True), b.tensor((1, 4), "int16", scale=0.5, is_variable=True)]
    y = b.tensor((1, 2, 4), scale=0.5)
    b.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y])
    return b.model(y)


REFUSED: list[tuple[Callable[[], Model], type[TqError], str]] = [
    (lambda: conv_model(weight_point=3), UnsupportedError, r"CONV_2D\): weights \(tensor 1\) must have zero point 0"),
    (lambda: add_model(1e-7), UnsupportedError, r"ADD\): output scale 1.*e-07 must be above 1.9"),
    (compare_model, UnsupportedError, r"LESS\): input scales must be below 1, tensor 0 has 1.5"),
    (pool_model, UnsupportedError, r"MAX_POOL_2D\): inputs and output must share scale and zero point; input 0 has "
                                   r"0.5, 0, the output 0.25, 0; insert QUANTIZE"),
    (lambda: one("SOFTMAX", beta=1e-9), UnsupportedError, r"SOFTMAX\): beta \* input scale must be above 2\^-26"),
    (lambda: one("LOGISTIC", output=0.5), UnsupportedError, r"LOGISTIC\): output must have scale 1/256 and zero "
                                                             r"point -128, found 0.5, 0"),
    (lstm_model, UnsupportedError, r"LSTM\): an LSTM with coupled input and forget gates is not supported"),
]


@pytest.mark.parametrize(("build", "error", "message"), REFUSED)
def test_refusals_name_operator_and_reason(build: Callable[[], Model], error: type[TqError], message: str) -> None:
    model = build()
    inputs = [np.zeros(model.main.tensors[index].shape, np.int8) for index in model.main.inputs]
    with pytest.raises(error, match=r"^operator 0 \(\w*" + message):
        run(model, inputs)


def test_softmax_refuses_what_the_engines_abort_on() -> None:
    b = ModelBuilder()
    model = b.model(b.add("SOFTMAX", [b.input((1, 512), scale=0.5)]))
    with pytest.raises(UnsupportedError, match=r"^operator 0 \(SOFTMAX\): a row's exponentials sum to more than"):
        run(model, [np.zeros((1, 512), np.int8)])
    almost = np.zeros((1, 512), np.int8)
    almost[0, 0] = -128
    assert run(model, [almost]).outputs[0].shape == (1, 512)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e9])
def test_floats_that_do_not_fit_are_refused(bad: float) -> None:
    b = ModelBuilder()
    model = b.model(b.add("QUANTIZE", [b.input((2,), "float32")], scale=1.0))
    with pytest.raises(OptionError, match=r"^operator 0 \(QUANTIZE\): a float input must be finite and below "):
        run(model, [np.array([0.0, bad], np.float32)])


def test_indices_beyond_the_table_are_refused() -> None:
    b = ModelBuilder()
    table = b.constant(np.zeros((4, 2), np.int8), scale=0.5)
    model = b.model(b.add("EMBEDDING_LOOKUP", [b.input((2,), "int32"), table]))
    with pytest.raises(OptionError, match=r"indices run from 1 to 4, expected 0 to 3"):
        run(model, [np.array([4, 1], np.int32)])


def test_pooling_window_must_fit() -> None:
    b = ModelBuilder()
    x = b.input((1, 2, 2, 1), scale=0.5)
    model = b.model(b.add("MAX_POOL_2D", [x], shape=(1, 1, 1, 1), filter_height=3, filter_width=1, padding="VALID"))
    with pytest.raises(UnsupportedError, match="the filter 3x1 does not fit the input 2x2"):
        pooling.params(model.main.operators[0], model.main)


def test_mean_without_constant_axes_needs_their_values() -> None:
    b = ModelBuilder()
    x, axes = b.input((2, 2), scale=0.5), b.input((1,), "int32")
    model = b.model(b.add("MEAN", [x, axes], shape=(2,)))
    with pytest.raises(ModelError, match=r"the axes \(input 1\) must be constant"):
        reduce.mean_params(model.main.operators[0], model.main)
    assert reduce.mean_params(model.main.operators[0], model.main, np.array([0])).count == 2
