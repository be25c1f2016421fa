"""REDUCE_PROD of int16, and of float32 that is computed, in the order of LiteRT's kernels."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.rewrite.test_packed_floats import codes, hold, number, real
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

UNIT = 2.0**-15


def wide(shape: tuple[int, ...], axes: list[int], scale: float, out: float) -> bytes:
    b = ModelBuilder("wide")
    x = b.input(shape, "int16", scale=scale)
    kept = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    return b.build(b.add("REDUCE_PROD", [x, number(b, axes)], shape=kept, dtype="int16", scale=out))


def draws(shape: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(len(shape))
    x = rng.integers(-(1 << 15), 1 << 15, shape).astype(np.int16)
    return [x, rng.choice(np.array([-(1 << 15), (1 << 15) - 1], np.int16), shape), x // 300, np.zeros(shape, np.int16)]


@pytest.mark.parametrize(("axes", "scale", "out"), [
    ([1], UNIT, UNIT), ([1], 1e-3, 0.5), ([0, 2], 2e-4, 0.03), ([0, 1, 2], UNIT, UNIT), ([1], 3e-4, 1e-4),
    ([1], 1e-7, 1.0), ([0], 1e-3, 3e-3)], ids=str)
def test_wide(oracles: Callable[[str], Oracle], axes: list[int], scale: float, out: float) -> None:
    """From factors of many bits that are shifted little to products that are always 0."""
    shape = (1, 3, 4)
    data = wide(shape, axes, scale, out)
    model = parse_model(data, "wide")
    program = compile_model(model, load_config("n8")).program
    for x in draws(shape):
        expected = oracles("litert-ref").run(data, [x])[0]
        np.testing.assert_array_equal(run(model, [x]).outputs[0], expected, strict=True)
        np.testing.assert_array_equal(execute(program, [x]).outputs[0], expected, strict=True)


def test_wide_in_rtl() -> None:
    program = compile_model(parse_model(wide((2, 3, 5), [1], UNIT, UNIT), "wide"), load_config("tiny")).program
    for x in draws((2, 3, 5))[:2]:
        np.testing.assert_array_equal(simulate(program, [x]).outputs[0], execute(program, [x]).outputs[0])


def test_wide_is_refused() -> None:
    data = wide((2, 4), [1], 1e-4, 1e-9)
    message = (r"^operator 0 \(REDUCE_PROD\): a product may exceed 47 bits, or 32 after rescaling: the kernels are "
               r"undefined there; reduce fewer elements$")
    with pytest.raises(UnsupportedError, match=message):
        compile_model(parse_model(data, "wide"), load_config("n8"))
    with pytest.raises(UnsupportedError, match=r"REDUCE_PROD"):
        compile_model(parse_model(wide((2, 4), [1], UNIT, UNIT), "wide"), load_config("n8"), profile="tflm")


def summed(b: ModelBuilder, shape: tuple[int, ...], *points: int) -> int:
    x = real(b, shape, 0.02, points[0])
    return b.add("ADD", [x, b.add("ADD", [real(b, shape, 0.003, points[1]), real(b, shape, 0.01, points[2])])])


@pytest.mark.parametrize(("axes", "keep"), [([1], False), ([0, 2], False), ([-1, 1], True), ([0, 1, 2], False)],
                         ids=str)
def test_float(oracles: Callable[[str], Oracle], axes: list[int], keep: bool) -> None:
    """Of both signs."""
    shape, b = (2, 3, 4), ModelBuilder("float")
    x = b.add("MUL", [summed(b, shape, 3, 3, -8), b.constant(np.array(0.4, np.float32))])
    gone = {axis % 3 for axis in axes}
    kept = tuple(1 if axis in gone else size for axis, size in enumerate(shape) if keep or axis not in gone)
    options = {"keep_dims": keep}
    made = b.add("REDUCE_PROD", [x, number(b, axes)], shape=kept, options=options)
    hold(oracles("litert-ref"), b.build(codes(b, made, 0.31)), "n8")


def test_a_float_result(oracles: Callable[[str], Oracle]) -> None:
    """Of numbers that are not negative, which a model outputs."""
    b = ModelBuilder("float")
    x = b.add("ABS", [summed(b, (5, 12), 3, 3, -8)])
    small = b.add("MUL", [x, b.constant(np.array(1e-4, np.float32))])
    hold(oracles("litert-ref"), b.build(b.add("REDUCE_PROD", [small, number(b, [1])], shape=(5,))), "n8")


@pytest.mark.parametrize(("axes", "keep"), [([1], False), ([-2], True), ([0, 1], False)], ids=str)
@pytest.mark.parametrize("factor", [0.7, 1e-10])
def test_a_float_result_of_both_signs(oracles: Callable[[str], Oracle], axes: list[int], keep: bool,
                                      factor: float) -> None:
    """A product that is 0, or that underflows, has the sign of its factors."""
    b, shape = ModelBuilder("float"), (3, 5)
    x = b.add("SUB", [real(b, shape, 0.02, 3), real(b, shape, 0.02, 3)])
    x = b.add("MUL", [x, b.constant(np.array(factor, np.float32))])
    gone = {axis % 2 for axis in axes}
    kept = tuple(1 if axis in gone else size for axis, size in enumerate(shape) if keep or axis not in gone)
    made = b.add("REDUCE_PROD", [x, number(b, axes)], shape=kept, options={"keep_dims": keep})
    hold(oracles("litert-ref"), b.build(made, b.add("MUL", [made, b.constant(np.array(-1, np.float32))])), "n8")


def test_large_products_are_refused() -> None:
    b = ModelBuilder("large")
    made = b.add("REDUCE_PROD", [summed(b, (2, 80), 3, 3, -8), number(b, [1])], shape=(2,))
    with pytest.raises(UnsupportedError, match=r"may be .*, more than float32 operators support"):
        compile_model(parse_model(b.build(codes(b, made)), "large"), load_config("n8"))
