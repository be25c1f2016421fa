"""Float32 operators on hard numbers, near whole quotients, 0 and the largest number; GELU on many numbers."""

from collections.abc import Iterator

import numpy as np
import pytest

from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.golden.float32 import BINARY
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import ENGINES, Oracle, available

_MOST = np.finfo(np.float32).max
_FUSE = ("ADD", "SUB", "MUL", "DIV")
#: POW has its own test.
_CASES = [*((op, "NONE") for op in sorted({*BINARY} - {"POW"})),
          *((op, fused) for op in _FUSE for fused in ("RELU", "RELU6", "RELU_N1_TO_1"))]


@pytest.fixture(scope="module")
def litert() -> Iterator[Oracle]:
    if not available("litert-ref"):
        pytest.skip(f'{ENGINES["litert-ref"][0]} is not installed: pip install "tq-hw[oracles]"')
    with Oracle("litert-ref") as oracle:
        yield oracle


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Multiples of steps that float32 cannot represent, and the extremes of its range."""
    steps = np.array([0.05, 0.1, 0.3, 0.7, -0.3, 1.1, 1e-3, 3.0], np.float32)
    multiples = np.arange(-130, 130, dtype=np.float32)
    first = [np.multiply.outer(multiples, steps).ravel()] * 3
    second = [np.broadcast_to(steps, (len(multiples), len(steps))).ravel(), np.full(first[0].size, steps[0]),
              np.roll(first[0], 7)]
    ends = np.array([0, -0.0, 1, -1, 1e-40, -1e-45, 1e38, -1e38, _MOST, -_MOST, 1.17549435e-38], np.float32)
    x, y = (each.ravel() for each in np.meshgrid(ends, ends))
    return np.concatenate([*first, x]).astype(np.float32), np.concatenate([*second, y]).astype(np.float32)


@pytest.mark.parametrize(("op", "fused"), _CASES)
def test_equals_the_engine(litert: Oracle, op: str, fused: str) -> None:
    """Fused activations turn the overflow of a sum, product or quotient into the largest number."""
    x, y = pairs()
    if op in ("FLOOR_DIV", "FLOOR_MOD"):
        x, y = x[y != 0], y[y != 0]
    b = ModelBuilder(op)
    options = {"fused_activation_function": fused} if op in _FUSE else {}
    data = b.build(b.add(op, [b.input(x.shape, "float32"), b.input(y.shape, "float32")], options=options))
    found, expected = run(parse_model(data, op), [x, y]).outputs[0], litert.run(data, [x, y])[0]
    # All bits are equal, except those of NaN.
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    np.testing.assert_array_equal(found[numbers].view(np.int32), expected[numbers].view(np.int32))


@pytest.mark.parametrize("is_single", [False, True])
@pytest.mark.parametrize("power", [0.5, -0.5, 0.25, 1.5, 0, -1, 1, 2, 3, 7, 100, 2.000005, 2.00002, 0.999995])
def test_powers(litert: Oracle, power: float, is_single: bool) -> None:
    """Of numbers of all sizes; LiteRT multiplies if a single exponent is a positive whole number, or nearly one."""
    bits = np.random.default_rng(0).integers(0, 0x7F800000, 1 << 15).astype(np.int32)
    bits[::3] += np.int32(-2**31)
    ends = np.array([0, -0.0, np.inf, -np.inf, np.nan, -1, -4, 1, 1e-40, -1e-40, 1e-45, _MOST, -_MOST, 1.1754944e-38],
                    np.float32)
    x = np.concatenate([ends, bits.view(np.float32), np.linspace(-3, 3, 1 << 13, dtype=np.float32)])
    b = ModelBuilder("powers")
    exponents = b.constant(np.full(1 if is_single else x.shape, power, np.float32))
    data = b.build(b.add("POW", [b.input(x.shape, "float32"), exponents], shape=x.shape))
    found, expected = run(parse_model(data, "powers"), [x]).outputs[0], litert.run(data, [x])[0]
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    np.testing.assert_array_equal(found[numbers].view(np.int32), expected[numbers].view(np.int32))


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu(litert: Oracle, approximate: bool) -> None:
    """From the smallest numbers to where GELU is linear or 0; in LiteRT, Eigen computes it, not the C library."""
    most = int(np.float32(40).view(np.int32))
    bits = np.arange(0, most, 1013, dtype=np.int32)
    x = np.concatenate([bits, bits | np.int32(-2**31)]).view(np.float32)
    b = ModelBuilder("gelu")
    data = b.build(b.add("GELU", [b.input(x.shape, "float32")], options={"approximate": approximate}))
    found, expected = run(parse_model(data, "gelu"), [x]).outputs[0], litert.run(data, [x])[0]
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))
