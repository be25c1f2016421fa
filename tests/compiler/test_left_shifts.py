"""Rescaling by one and more: the left shift is a micro-operation of its own, and results equal the engines'."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.layout import Unit
from tq_hw.isa.operations import operations
from tq_hw.isa.program import Program
from tq_hw.isa.uop import Multiply
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

RNG = np.random.default_rng(5)
#: Scales of a layer's channels, of which some need no left shift.
MIXED = [0.02 * 2.0**(channel % 7 - 5) for channel in range(13)]


def _weights(b: ModelBuilder, shape: tuple[int, ...], scale: float | list[float], dimension: int = 0) -> int:
    return b.constant(RNG.integers(-9, 10, shape).astype(np.int8), scale=scale, dimension=dimension)


def _mac(b: ModelBuilder, op: str, x: int, weights: int, units: int, out: float, **options: int) -> int:
    bias = b.bias(x, weights, RNG.integers(-40, 40, units))
    return b.add(op, [x, weights, bias], scale=out, zero_point=-3, **options)


def convolution(b: ModelBuilder) -> int:
    return _mac(b, "CONV_2D", b.input((1, 5, 6, 4), scale=0.5), _weights(b, (13, 3, 3, 4), MIXED), 13, 0.003)


def one_scale(b: ModelBuilder) -> int:
    return _mac(b, "CONV_2D", b.input((1, 5, 6, 4), scale=0.5), _weights(b, (13, 1, 1, 4), 0.02), 13, 0.003)


def depthwise(b: ModelBuilder) -> int:
    return _mac(b, "DEPTHWISE_CONV_2D", b.input((1, 5, 6, 13), scale=0.5), _weights(b, (1, 3, 3, 13), MIXED, 3), 13,
                0.003, depth_multiplier=1)


def dense(b: ModelBuilder) -> int:
    return _mac(b, "FULLY_CONNECTED", b.input((3, 20), scale=0.5), _weights(b, (13, 20), 0.02), 13, 0.003)


def convolution_wide(b: ModelBuilder) -> int:
    x, weights = b.input((1, 5, 6, 4), "int16", scale=0.001), _weights(b, (13, 3, 3, 4), MIXED)
    return b.add("CONV_2D", [x, weights, b.bias(x, weights, RNG.integers(-40, 40, 13))], scale=3e-6)


def products(b: ModelBuilder) -> int:
    left, right = b.input((2, 3, 8), scale=0.5), b.input((2, 8, 5), scale=0.1)
    return b.add("BATCH_MATMUL", [left, right], scale=0.03, zero_point=7)


def product(b: ModelBuilder) -> int:
    return b.add("MUL", [b.input((2, 9), scale=0.5), b.input((2, 9), scale=0.5, zero_point=3)], scale=0.004)


def mean(b: ModelBuilder) -> int:
    axes = b.constant([1, 2])
    return b.add("MEAN", [b.input((1, 4, 5, 3), scale=0.5), axes], scale=0.001, keep_dims=False)


def widened(b: ModelBuilder) -> int:
    return b.add("QUANTIZE", [b.input((2, 9), scale=0.5)], scale=0.001, dtype="int16")


def slopes(b: ModelBuilder) -> int:
    x, slope = b.input((1, 3, 3, 5), scale=0.5), b.constant(RNG.integers(-99, 99, (1, 1, 5)).astype(np.int8), scale=0.1)
    return b.add("PRELU", [x, slope], scale=0.02)


def leaky(b: ModelBuilder) -> int:
    return b.add("LEAKY_RELU", [b.input((2, 9), "int16", scale=0.5)], scale=0.03, alpha=3.5)


BUILDERS = (convolution, one_scale, depthwise, convolution_wide, dense, products, product, mean, widened, slopes, leaky)


def _left_shifts(program: Program) -> int:
    commands = program.image[program.command_offset:program.command_offset + program.command_bytes]
    return sum(uop["multiply"] == Multiply.SHL for each in operations(commands, program.config)[Unit.VECTOR]
               for uop in each.uops[each.fields["first"]:each.fields["last"] + 1] if each.fields["kind"] == 0)


@pytest.mark.parametrize("config", ["tiny", "n16", "n9x8"])
@pytest.mark.parametrize("builder", BUILDERS, ids=lambda builder: builder.__name__)
def test_equals_the_engine(oracles: Callable[[str], Oracle], builder: Callable[[ModelBuilder], int],
                           config: str) -> None:
    b = ModelBuilder(builder.__name__)
    data = b.build(builder(b))
    model = parse_model(data, builder.__name__).under("litert")
    program = compile_model(model, load_config(config)).program
    assert _left_shifts(program) > 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        inputs = [rng.integers(np.iinfo(tensor.dtype).min >> seed, np.iinfo(tensor.dtype).max >> seed,
                               tensor.shape).astype(tensor.dtype)
                  for tensor in (model.main.tensors[index] for index in model.main.inputs)]
        expected = golden.run(model, inputs).outputs[0]
        np.testing.assert_array_equal(oracles("litert-ref").run(data, inputs)[0], expected)
        np.testing.assert_array_equal(execute(program, inputs).outputs[0], expected)
    if config == "tiny":
        np.testing.assert_array_equal(simulate(program, inputs).outputs[0], expected)
