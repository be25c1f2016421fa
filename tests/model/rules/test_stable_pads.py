"""STABLEHLO_PAD: its integers, the operators that compute it, what stays."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import TqError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.oracles import Oracle

QUANTIZATION = {"scale": 0.05, "zero_point": -3}
NAMES = "edge_padding_low", "edge_padding_high", "interior_padding"
#: Shape, and what is put before, after and between the elements.
Case = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
AROUND: Case = (2, 3, 4), (0, 1, 2), (3, 0, 1), (0, 0, 0)
EVERY_OTHER: Case = (1, 3, 4), (0, 1, 0), (0, 1, 0), (0, 1, 0)
ALL: Case = (2, 3, 1), (1, 0, 2), (0, 2, 1), (1, 2, 3)
NOTHING: Case = (2, 3), (0, 0), (0, 0), (0, 0)
CROPPED: Case = (2, 5), (0, -1), (0, 0), (0, 1)


def padded(case: Case, dtype: str = "float32", value: float = -0.75, scale: float = 0.05,
           **changed: tuple[int, ...]) -> bytes:
    b, (shape, *sizes) = ModelBuilder("pad"), case
    x = b.input(shape, **QUANTIZATION)
    if dtype == "float32":
        source, fill = b.add("DEQUANTIZE", [x]), b.constant(np.array(value, np.float32))
    else:
        source, fill = x, b.constant(np.array(value, np.int8), scale=scale, zero_point=-3)
    made = tuple((size - 1) * (sizes[2][axis] + 1) + 1 + sizes[0][axis] + sizes[1][axis]
                 for axis, size in enumerate(shape))
    y = b.add("STABLEHLO_PAD", [source, fill], shape=made, dtype=dtype,
              options={**dict(zip(NAMES, sizes, strict=True)), **changed},
              **({} if dtype == "float32" else QUANTIZATION))
    return b.build(b.add("QUANTIZE", [y], dtype="int8", scale=0.11, zero_point=4) if dtype == "float32" else y)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("case", [AROUND, EVERY_OTHER, ALL, NOTHING], ids=["around", "every other", "all", "nothing"])
def test_equals_litert(case: Case, dtype: str, oracles: Callable[[str], Oracle]) -> None:
    data = padded(case, dtype, -0.75 if dtype == "float32" else 17)
    model = parse_model(data, "m")
    assert {op.op for op in model.main.operators} - {"QUANTIZE", "DEQUANTIZE"} <= {"PADV2", "GATHER"}
    x = np.random.default_rng(0).integers(-128, 128, case[0]).astype(np.int8)
    ours = execute(compile_model(model, PRESETS["n8"]).program, [x]).outputs[0]
    np.testing.assert_array_equal(ours, oracles("litert-ref").run(data, [x])[0], strict=True)


@pytest.mark.parametrize("data", [
    padded(CROPPED), padded(AROUND, interior_padding=(0, 0)), padded(AROUND, edge_padding_low=(0, 1, 1))],
    ids=["cropped", "another rank", "another shape"])
def test_other_pads_stay(data: bytes) -> None:
    with pytest.raises(TqError, match=r"operator 1 \(STABLEHLO_PAD\) of float32 is not computed"):
        compile_model(parse_model(data, "m"), PRESETS["n8"])


def test_codes_of_two_scales_stay() -> None:
    main = parse_model(padded(AROUND, "int8", 17, scale=0.06), "m").main
    assert [op.op for op in main.operators] == ["STABLEHLO_PAD"]
