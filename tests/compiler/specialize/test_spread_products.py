"""The product of a byte per pixel and a constant per channel: one convolution, exact for all bytes."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Elementwise, Layer, Mac
from tq_hw.isa.config import PRESETS
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


def _product(factors: np.ndarray, *, zero_point: int = -128, table: bool = True, twice: bool = False) -> Model:
    """Sums of the channels of 256 pixels, a function of them, times a constant per channel."""
    b = ModelBuilder("product")
    x = b.input((1, 16, 16, 3), scale=0.05)
    weights = b.constant(np.ones((1, 1, 1, 3), np.int8), scale=0.5)
    made = b.add("CONV_2D", [x, weights, b.bias(x, weights, np.array([4]))], padding="SAME", scale=0.03, zero_point=7)
    if table:
        made = b.add("LOGISTIC", [made])
    gamma = b.constant((factors + zero_point).astype(np.int8).reshape(1, 1, 1, -1), scale=0.01, zero_point=zero_point)
    product = b.add("MUL", [made, gamma], scale=0.004, zero_point=-100)
    if twice:
        product = b.add("ADD", [product, b.add("ADD", [made, gamma], scale=0.01)], scale=0.01)
    return parse_model(b.build(product), "product")


def _layers(model: Model, config: str = "n16") -> tuple[Layer, ...]:
    compiled = compile_model(model, PRESETS[config])
    data = np.zeros((1, 16, 16, 3), np.int8)
    data[..., 0] = np.arange(-128, 128).reshape(16, 16)
    found = execute(compiled.program, [data], seed=1).outputs[0]
    np.testing.assert_array_equal(found, run(model, [data]).outputs[0], strict=True)
    return compiled.emitter.graph.layers


@pytest.mark.parametrize(("factors", "zero_point", "parts"), [
    (np.arange(-20, 25), 3, 1), (np.arange(0, 255, 6), -128, 2), (np.arange(255, 0, -7), -128, 3),
    (np.arange(-250, 1, 9), 127, 2)])
@pytest.mark.parametrize("table", [False, True])
def test_products_are_a_convolution(factors: np.ndarray, zero_point: int, parts: int, table: bool) -> None:
    layers = _layers(_product(factors, zero_point=zero_point, table=table))
    assert [type(layer) for layer in layers] == [Mac, Mac]
    assert isinstance(layers[0], Mac) and (layers[0].output_table is not None) == table
    last = layers[-1]
    assert isinstance(last, Mac) and last.weights.shape == (len(factors), 1, 1, parts) and last.macs == 0
    np.testing.assert_array_equal(last.weights.astype(int).sum(axis=(1, 2, 3)), factors)


def test_of_the_serial_machine() -> None:
    assert [type(layer) for layer in _layers(_product(np.arange(0, 256, 17)), "serial")] == [Mac, Mac]


def test_what_others_need_stays() -> None:
    """Nine bits go into two weights only if nothing else reads the byte."""
    layers = _layers(_product(np.arange(0, 255, 6), twice=True))
    assert [layer.op for layer in layers if isinstance(layer, Elementwise)] == ["MUL", "ADD", "ADD"]
