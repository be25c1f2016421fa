"""Random float32 operators between int8 tensors, with shapes that broadcast: all codes equal LiteRT's."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

CONFIGS = ("n8", "n16", "tiny", "serial", "n9x8")
Shape = tuple[int, ...]
Real = tuple[int, Shape]


class Graph:
    """Float32 tensors of a model under construction."""

    def __init__(self, seed: int):
        self.rng, self.b = np.random.default_rng(seed), ModelBuilder("random")
        rows, cols, channels = (int(self.rng.integers(1, most)) for most in (4, 7, 20))
        shapes = [(rows, cols, channels)] * 3 + [(rows, cols, 1), (1, 1, channels), (rows, 1, 1)]
        self.pool: list[Real] = [self._leaf(shapes[self.rng.integers(len(shapes))]) for _ in range(4)]
        self.first = len(self.pool)

    def _leaf(self, shape: Shape) -> Real:
        scale = float(np.float32(10 ** self.rng.uniform(-3, -0.5)))
        return self.b.add("DEQUANTIZE", [self.b.input(shape, scale=scale,
                                                      zero_point=int(self.rng.integers(-128, 128)))]), shape

    def number(self, value: float) -> int:
        return self.b.constant(np.array(value, np.float32))

    def draw(self) -> Real:
        return self.pool[self.rng.integers(len(self.pool))]


def _binary(g: Graph, x: Real, y: Real) -> Real:
    op = str(g.rng.choice(["ADD", "SUB", "MUL", "SQUARED_DIFFERENCE", "MAXIMUM", "MINIMUM", "DIV"]))
    right = g.b.add("ADD", [g.b.add("ABS", [y[0]]), g.number(g.rng.uniform(0.01, 2))]) if op == "DIV" else y[0]
    fused = {"fused_activation_function": str(g.rng.choice(["NONE", "RELU"]))} if op in ("ADD", "SUB", "MUL") else {}
    return g.b.add(op, [x[0], right], options=fused), tuple(np.broadcast_shapes(x[1], y[1]))


def _reduced(g: Graph, x: Real, y: Real) -> Real:
    along = sorted(g.rng.choice(3, int(g.rng.integers(1, 3)), replace=False).tolist())
    shape = tuple(1 if axis in along else size for axis, size in enumerate(x[1]))
    op = str(g.rng.choice(["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"]))
    return g.b.add(op, [x[0], g.b.constant(np.array(along, np.int32))], shape=shape, options={"keep_dims": True}), shape


def _root(g: Graph, x: Real, y: Real) -> Real:
    op, base = str(g.rng.choice(["RSQRT", "SQRT", "POW"])), g.b.add("ADD", [g.b.add("SQUARE", [x[0]]), g.number(1e-4)])
    return g.b.add(op, [base, g.number(0.5)] if op == "POW" else [base], shape=x[1]), x[1]


def _power(g: Graph, x: Real, y: Real) -> Real:
    return g.b.add("EXP", [g.b.add("MINIMUM", [x[0], g.number(2)])]), x[1]


def _plain(g: Graph, x: Real, y: Real) -> Real:
    op = str(g.rng.choice(["RELU", "RELU6", "ABS", "NEG", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "SOFTMAX"]))
    options = {"LEAKY_RELU": {"alpha": float(np.float32(g.rng.uniform(0, 1)))},
               "SOFTMAX": {"beta": float(g.rng.choice([1, 0.5]))}}.get(op, {})
    return g.b.add(op, [x[0]], options=options), x[1]


STEPS: tuple[Callable[[Graph, Real, Real], Real], ...] = (_binary, _binary, _reduced, _root, _power, _plain)


def random_model(seed: int) -> bytes:
    g = Graph(seed)
    for _ in range(int(g.rng.integers(3, 9))):
        g.pool.append(STEPS[g.rng.integers(len(STEPS))](g, g.draw(), g.draw()))
    return g.b.build(*(g.b.add("QUANTIZE", [x], scale=float(np.float32(10 ** g.rng.uniform(-3, -0.3))),
                               zero_point=int(g.rng.integers(-128, 128))) for x, _ in g.pool[g.first:][-3:]))


def check(litert: Oracle, seed: int) -> bool:
    """Compare a model with the engine; return whether it is supported."""
    data = random_model(seed)
    model = parse_model(data, "random")
    try:
        program = compile_model(model, load_config(CONFIGS[seed % len(CONFIGS)])).program
    except UnsupportedError as error:
        # Bounds are wider than the actual ranges.
        assert any(reason in str(error) for reason in (
            "may be 0 or negative", "may be 2^31 times the scale of", "more than float32 operators support", "more "
                                                                                                             "than 72"))
        return False
    for number in range(2):
        rng = np.random.default_rng([seed, number])
        inputs = [rng.integers(-128, 128, model.main.tensors[index].shape).astype(np.int8)
                  for index in model.main.inputs]
        if number:
            inputs = [np.full_like(each, rng.integers(-128, 128)) for each in inputs]
        for found in (run(model, inputs).outputs, execute(program, inputs).outputs):
            for ours, theirs in zip(found, litert.run(data, inputs), strict=True):
                np.testing.assert_array_equal(ours, theirs, strict=True)
    return True


@pytest.mark.parametrize("seed", range(10))
def test_equals_the_engine(litert: Oracle, seed: int) -> None:
    assert check(litert, seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_sweep(litert: Oracle, part: int) -> None:
    taken = [check(litert, seed) for seed in range(100 + 40 * part, 140 + 40 * part)]
    assert sum(taken) >= 36
