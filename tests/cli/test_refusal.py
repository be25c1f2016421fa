"""What the message about a refused model lists: true reasons, each once, and only what is not taken."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_hw.model.samples.build import ModelBuilder

Tq = Callable[..., Any]
ONLY = "computed only as a function of one int8 or int16 tensor, or of two int8 tensors"
COUNT = "{} of {} operators are not supported; `tq-hw ops` lists those that are:"


def lines(tq: Tq, b: ModelBuilder, *outputs: int) -> list[str]:
    Path("m.tflite").write_bytes(b.build(*outputs))
    result = tq("compile", "m.tflite", "--config", "tiny")
    assert result.code == 2
    found = result.err.splitlines()
    assert isinstance(found, list)
    return found


def real(b: ModelBuilder, scale: float = 0.1, dtype: str = "int8") -> int:
    """A float32 tensor from codes that an operator gives."""
    return b.add("DEQUANTIZE", [b.add("NEG", [b.input((4,), dtype, scale=scale)])])


def test_a_float32_input_that_float32_operators_read(tq: Tq) -> None:
    """A residual sum of a model whose input PyTorch's PT2E leaves in float32; the first operator is the one named."""
    b = ModelBuilder("residual")
    x = b.input((4,), "float32", name="x")
    codes = b.add("NEG", [b.add("QUANTIZE", [x], dtype="int8", scale=0.1)])
    total = b.add("ADD", [b.add("EXPAND_DIMS", [x, b.constant(0)], shape=(1, 4)), b.add("DEQUANTIZE", [codes])],
                  shape=(1, 4))
    assert lines(tq, b, b.add("TANH", [total])) == [
        "tq-hw: m.tflite: operator 4 (ADD): computes in float32 from the model's input, tensor 0 ('x'), which is not "
        "quantized; have the exporter quantize the input (ai-edge-quantizer does, PyTorch's PT2E does not); `tq-hw "
        "compile --partition` leaves what is in float32 to LiteRT on the host",
        COUNT.format(3, 6),
        "  EXPAND_DIMS (operator 2), ADD (operator 4): it is in float32 from the model's input, tensor 0 ('x'), which "
        "is not quantized",
        "  TANH (operator 5): it is part of float32 that is not computed: tensor 0 ('x') is float32, not quantized",
        "with --partition 3 of 6 operators, none of which multiplies, would be on the accelerator, the rest in LiteRT"]


def test_one_reason_is_told_once(tq: Tq) -> None:
    """Constants in float32 are no operators that are missing."""
    b = ModelBuilder("floor")
    row = b.add("PAD", [b.constant(np.ones(2, np.float32)), b.constant(np.array([[1, 1]], np.int32))], shape=(4,))
    total = b.add("ADD", [b.add("MUL", [real(b), real(b)]), row])
    floor = b.add("FLOOR", [total])
    found = lines(tq, b, b.add("QUANTIZE", [b.add("ABS", [floor])], dtype="int8", scale=0.1))
    why = f"(FLOOR) of float32 is {ONLY}"
    assert found[0].startswith("tq-hw: m.tflite: operator 5 (MUL): input 0, tensor 5 ('t5'), is float32 computed "
                               f"inside the model (operator 7 {why}); supported are ")
    assert found[1:5] == [
        COUNT.format(4, 10),
        "  MUL (operator 5), ADD (operator 6), ABS (operator 8): it is part of float32 that is not computed: operator "
        f"7 {why}",
        f"  FLOOR (operator 7): FLOOR of float32 is {ONLY}",
        "with --partition 5 of 10 operators, none of which multiplies, would be on the accelerator, the rest in LiteRT"]


def test_what_is_taken_with_its_neighbours_is_not_listed(tq: Tq) -> None:
    """A root is of values that the operator before it keeps from being negative."""
    b = ModelBuilder("angle")
    length = b.add("ABS", [b.input((4,), "int16", scale=0.1)])
    root = b.add("SQRT", [b.add("DEQUANTIZE", [length])])
    angle = b.add("ATAN2", [real(b, dtype="int16"), real(b, dtype="int16")])
    found = lines(tq, b, *(b.add("QUANTIZE", [each], dtype="int16", scale=0.1) for each in (root, angle)))
    assert found[1:3] == [COUNT.format(1, 10), f"  ATAN2 (operator 7): ATAN2 of float32 is {ONLY}"]


@pytest.mark.parametrize(("dtype", "whole"), [("int8", "int8"), ("int16", "16x8")])
def test_a_layer_left_in_float32(tq: Tq, dtype: str, whole: str) -> None:
    """The advice is for the type that the rest of the model has."""
    b = ModelBuilder("left")
    x, filters = b.input((1, 4, 4, 2), dtype, scale=0.1), b.constant(np.ones((2, 1, 1, 2), np.int8), scale=[0.1] * 2)
    x = b.add("CONV_2D", [x, filters, b.bias(x, filters, [0, 0])], scale=0.1)
    weights = b.constant(np.ones((1, 3, 3, 2), np.float32))
    bias = b.constant(np.zeros(2, np.float32))
    y = b.add("DEPTHWISE_CONV_2D", [b.add("DEQUANTIZE", [x]), weights, bias], dtype="float32", padding="SAME")
    why = ("input 0, tensor 6 't6', has type float32, expected int8 or int16; quantize the whole model to "
           f"{whole}")
    found = lines(tq, b, b.add("QUANTIZE", [y], dtype=dtype, scale=0.1))
    assert found[0] == (f"tq-hw: m.tflite: subgraph 0, operator 2 DEPTHWISE_CONV_2D: {why}, or leave the operator to "
                        "LiteRT on the host by `tq-hw compile --partition`")
    assert found[1:3] == [COUNT.format(1, 4), f"  DEPTHWISE_CONV_2D (operator 2): {why}"]


def test_a_model_that_breaks_a_rule(tq: Tq) -> None:
    """Its graph is not rewritten, so what is around an operator is not known."""
    b = ModelBuilder("rule")
    x = b.add("NEG", [b.input((4,), "int16", scale=0.1)])
    wrong = b.add("SUB", [x, x], scale=1e-9)
    rows = b.add("PAD", [b.constant(np.ones(2, np.float32)), b.constant(np.array([[1, 1]], np.int32))], shape=(4,))
    log = b.add("LOG", [b.add("ADD", [b.add("DEQUANTIZE", [x]), rows])])
    values, places = b.tensor((2,), "float32"), b.tensor((2,), "int32")
    b.operator("TOPK_V2", [b.add("DEQUANTIZE", [x]), b.constant(np.array(2, np.int32))], [values, places])
    why = ("Keep twice the larger input scale below 2^20 output scales (int16: 2^15), else LiteRT's result is "
           "undefined. Found input scale 0.1, output scale 1e-09.")
    assert lines(tq, b, wrong, b.add("QUANTIZE", [log], dtype="int16", scale=0.1), values, places)[:4] == [
        f"tq-hw: m.tflite: subgraph 0, operator 1 SUB: {why}", COUNT.format(4, 9), f"  SUB (operator 1): {why}",
        "  ADD (operator 4), LOG (operator 5), TOPK_V2 (operator 7): it is part of float32 that is not computed by "
        "itself"]
