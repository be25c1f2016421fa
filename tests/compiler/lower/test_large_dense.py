"""Dense layers of rows that have no room in the scratchpad equal the public engines; their rows are loaded in parts."""

from collections.abc import Callable

import numpy as np
import pytest
from compared import compared

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.staged import MatMul
from tq_hw.compiler.lower import doubles
from tq_hw.compiler.plan.layout import has_room
from tq_hw.isa.config import PRESETS, Config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

#: One word of 4, 16 and 12 channels; two output blocks in a word.
SMALLEST = Config("smallest", 4, 4, 2, 2 << 10)
HALVES = Config("halves", 16, 8, 4, 8 << 10)
ODD = Config("odd", 4, 12, 4, 8 << 10)


def dense(shape: tuple[int, ...], units: int, fused: str = "NONE", *, has_bias: bool = True,
          channels: bool = True) -> bytes:
    """A FULLY_CONNECTED whose `shape` is [rows, depth], or one image."""
    depth = shape[1] if len(shape) == 2 else int(np.prod(shape))
    rng, b = np.random.default_rng(depth), ModelBuilder("m")
    x = b.input(shape, scale=0.02, zero_point=-6)
    scales = (0.0005 * 2.0 ** rng.uniform(-2, 1, units)).tolist() if channels else 0.0005
    weights = b.constant(rng.integers(-127, 128, (units, depth)).astype(np.int8), scale=scales)
    bias = b.bias(x, weights, rng.integers(-9999, 9999, units)) if has_bias else -1
    return b.build(b.add("FULLY_CONNECTED", [x, weights, bias], scale=0.0012 * float(np.sqrt(depth)), zero_point=4,
                         fused_activation_function=fused))


@pytest.mark.parametrize("config", [SMALLEST, HALVES, ODD], ids=lambda config: config.name)
@pytest.mark.parametrize(("profile", "engine"), [("canon", "tflm"), ("tflm", "tflm"), ("litert", "litert-ref")])
@pytest.mark.parametrize(("rows", "units", "fused"), [(1, 1, "NONE"), (3, 20, "RELU6")])
def test_rows_in_parts(oracles: Callable[[str], Oracle], rows: int, units: int, fused: str, profile: str, engine: str,
                       config: Config) -> None:
    """With an incomplete last word; one scale for a single unit, and one for each channel."""
    depth = config.scratchpad_words * config.block + 5
    data = dense((rows, depth), units, fused)
    model = parse_model(data, "m").under(profile)
    inputs = [np.random.default_rng(rows).integers(-128, 128, (rows, depth)).astype(np.int8)]
    compiled = compile_model(model, config)
    assert [type(layer) for layer in compiled.emitter.graph.layers][0] is MatMul
    found = execute(compiled.program, inputs, seed=1, check_races=True).outputs
    np.testing.assert_array_equal(found[0], oracles(engine).run(data, inputs)[0], strict=True)


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("config", [SMALLEST, HALVES, ODD], ids=lambda config: config.name)
def test_the_longest_row_with_room(config: Config, more: int) -> None:
    """A convolution, as long as the row has room beside weights."""
    words = max(words for words in range(config.scratchpad_words) if has_room((1, 1, words * config.block), 9, config))
    model = parse_model(dense((1, words * config.block + more), 9, has_bias=False, channels=False), "m")
    layers = compared(model, config).emitter.graph.layers
    assert [type(layer) for layer in layers] == [MatMul if more > 0 else Mac]


def test_an_image_whose_pixels_fill_no_words() -> None:
    """Its row has room, its window of pixels does not."""
    layers = compared(parse_model(dense((1, 20, 20, 1), 3), "m"), SMALLEST).emitter.graph.layers
    assert [(type(layer), layer.inputs[0].shape) for layer in layers] == [(Mac, (1, 1, 1, 400))]


def test_a_constant_matrix_of_long_columns() -> None:
    b, rng = ModelBuilder("m"), np.random.default_rng(1)
    x = b.input((2, 3, 4001), scale=0.02, zero_point=7)
    matrix = b.constant(rng.integers(-128, 128, (4001, 5)).astype(np.int8), scale=0.0005)
    model = parse_model(b.build(b.add("BATCH_MATMUL", [x, matrix], scale=0.05, zero_point=-3)), "m")
    assert [type(layer) for layer in compared(model, SMALLEST).emitter.graph.layers] == [MatMul]


def test_in_rtl() -> None:
    model = parse_model(dense((2, 6400), 6, "RELU"), "m")
    compiled = compared(model, PRESETS["tiny"])
    inputs = [np.random.default_rng(5).integers(-128, 128, (2, 6400)).astype(np.int8)]
    found = simulate(compiled.program, inputs).outputs[0]
    np.testing.assert_array_equal(found, execute(compiled.program, inputs).outputs[0], strict=True)


def test_factors_of_two_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("_single", "_compared"):
        monkeypatch.setattr(doubles, method, lambda *_: None)
    monkeypatch.setattr(doubles, "_is_tflite", lambda *_: False)
    with pytest.raises(UnsupportedError) as error:
        compile_model(parse_model(dense((1, 4001), 2), "m").under("litert"), SMALLEST)
    assert str(error.value) == (
        "operator 0 (FULLY_CONNECTED): rows of 4001 channels have no room in the scratchpad, and factors of two "
        "words, which give LiteRT's result, are not taken for rows in parts; a larger scratchpad_bytes helps, and so "
        "does --profile canon")
