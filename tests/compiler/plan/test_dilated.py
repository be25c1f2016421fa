"""Dilated convolutions: phases of rows from memory, phases of columns, and the number of commands."""

from typing import Any

import numpy as np
import pytest

from tq_hw.compiler import Compiled, compile_model
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.lower.legalize import legalize
from tq_hw.compiler.plan.dilated import ColumnPhases, banks_meet, column_phases, row_phases, shares
from tq_hw.isa.config import load_config
from tq_hw.isa.layout import Unit
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


def _model(shape: tuple[int, int, int, int], kernel: tuple[int, int], dilation: tuple[int, int], *,
           op: str = "DEPTHWISE_CONV_2D", padding: str = "SAME", out: int = 7, behind: bool = False) -> Model:
    rng, b, channels = np.random.default_rng(1), ModelBuilder("m"), shape[3]
    depthwise = op == "DEPTHWISE_CONV_2D"
    x = b.input(shape, scale=0.02, zero_point=3)
    sizes = (1, *kernel, channels) if depthwise else (out, *kernel, channels)
    count = channels if depthwise else out
    w = b.constant(rng.integers(-127, 128, sizes).astype(np.int8), scale=[0.01] * count, zero_point=[0] * count,
                   dimension=3 if depthwise else 0)
    options: dict[str, Any] = {"depth_multiplier": 1} if depthwise else {}
    y = b.add(op, [x, w, b.bias(x, w, rng.integers(-99, 100, count).tolist())], scale=0.1, zero_point=-3,
              padding=padding, dilation_h_factor=dilation[0], dilation_w_factor=dilation[1], **options)
    if behind:
        y = b.add("ADD", [y, b.constant(rng.integers(-9, 9, (1, 1, 1, count)).astype(np.int8), scale=0.1)], scale=0.1)
    return parse_model(b.build(y), "m")


def _layer(model: Model) -> Mac:
    layer = legalize(model).layers[0]
    assert isinstance(layer, Mac)
    return layer


def _exact(model: Model, config_name: str) -> Compiled:
    rng, made = np.random.default_rng(2), compile_model(model, load_config(config_name))
    inputs = [rng.integers(-128, 128, model.main.tensors[model.main.inputs[0]].shape).astype(np.int8)]
    found = execute(made.program, inputs, check_races=True).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)
    return made


@pytest.mark.parametrize("config_name", ["n16", "n8", "n9x8", "tiny"])
@pytest.mark.parametrize(("shape", "kernel", "dilation", "padding"), [
    ((1, 17, 15, 20), (3, 3), (4, 4), "SAME"),
    ((1, 17, 15, 20), (3, 3), (6, 5), "SAME"),
    ((2, 11, 9, 33), (3, 2), (3, 12), "SAME"),
    ((3, 12, 13, 16), (2, 3), (4, 2), "VALID"),
    ((1, 9, 9, 17), (3, 3), (12, 12), "SAME"),
    ((1, 21, 6, 9), (5, 1), (4, 1), "SAME"),
    ((1, 8, 40, 16), (1, 5), (1, 7), "SAME"),
])
def test_depthwise_equals_golden(shape: tuple[int, int, int, int], kernel: tuple[int, int], dilation: tuple[int, int],
                                 padding: str, config_name: str) -> None:
    _exact(_model(shape, kernel, dilation, padding=padding), config_name)


@pytest.mark.parametrize("config_name", ["n16", "n8"])
def test_row_phases_into_the_scratchpad(config_name: str) -> None:
    made = _exact(_model((1, 20, 18, 40), (3, 3), (4, 4), behind=True), config_name)
    plan = made.emitter.plan
    assert [len(layer.row_phases) for layer in plan.layers] == [4, 0]
    assert id(made.emitter.graph.layers[0].output) in plan.resident


def test_dense_convolutions_have_row_phases() -> None:
    """Without phases this one needs 25 rows of 33 columns at a time, which the scratchpad cannot hold."""
    made = _exact(_model((1, 33, 33, 320), (3, 3), (12, 12), op="CONV_2D"), "n16")
    assert [len(layer.row_phases) for layer in made.emitter.plan.layers] == [12]


@pytest.mark.parametrize(("size", "channels", "dilation"), [
    (33, 96, 12), (65, 64, 18), (65, 32, 24), (100, 16, 40),
    *(pytest.param(*case, marks=pytest.mark.slow)
      for case in ((33, 96, 6), (65, 64, 12), (33, 192, 4), (100, 16, 30)))])
@pytest.mark.parametrize("config_name", ["n16", "n8"])
def test_few_commands(size: int, channels: int, dilation: int, config_name: str) -> None:
    model = _model((1, size, size, channels), (3, 3), (dilation, dilation))
    made = compile_model(model, load_config(config_name))
    assert len(made.emitter.stream.items) < 2500


def test_many_phases_count_as_more_operations() -> None:
    """Eight tiles take the compiler as long as one operation."""
    stream = compile_model(_model((1, 60, 60, 8), (3, 3), (24, 24)), load_config("n16")).emitter.stream
    fields = [operation.fields for operation in stream.by_unit[Unit.ARRAY]]
    tiles = [f["out_blocks"] * -(-f["slots"] // f["tile_slots"]) for f in fields]
    assert max(tiles) == 12
    assert stream.work == sum(count // 8 for count in tiles)


def test_phases_see_the_rows_of_the_whole() -> None:
    """Each output row of a phase has the same taps as in the whole layer."""
    layer = _layer(_model((2, 13, 4, 8), (3, 3), (5, 2)))
    source, target = layer.inputs[0].place.row_bytes, layer.output.place.row_bytes
    seen = {}
    for phase in row_phases(layer):
        read, made = phase.inputs[0], phase.output
        for row in range(made.shape[1]):
            taps = [row - phase.pad[0] + tap for tap in range(3)]
            rows = [(read.place.offset_bytes + tap * read.place.row_bytes) // source if 0 <= tap < read.shape[1] else -1
                    for tap in taps]
            seen[(made.place.offset_bytes + row * made.place.row_bytes) // target] = rows
    inside = {row: [row % 13 - 5 + 5 * tap for tap in range(3)] for row in range(26)}
    assert seen == {row: [row // 13 * 13 + tap if 0 <= tap < 13 else -1 for tap in taps]
                    for row, taps in inside.items()}


def test_no_phases_of_a_single_row_or_too_many() -> None:
    assert row_phases(_layer(_model((1, 1, 9, 8), (3, 3), (4, 4)))) == ()
    assert row_phases(_layer(_model((1, 9, 9, 8), (3, 3), (1, 4)))) == ()
    assert row_phases(_layer(_model((70, 16, 2, 2), (3, 3), (15, 1)))) == ()


def test_phases_alike_are_together() -> None:
    layer = _layer(_model((1, 4, 10, 8), (3, 3), (4, 4)))
    assert list(column_phases(layer, (0, 10), single=False)) == [
        ColumnPhases(0, 2, 3, -4, -1, 3), ColumnPhases(2, 2, 2, -2, -1, 2)]
    assert list(column_phases(layer, (0, 10), single=True)) == [
        ColumnPhases(0, 1, 3, -4, -1, 3), ColumnPhases(1, 1, 3, -3, -1, 3), ColumnPhases(2, 1, 2, -2, -1, 2),
        ColumnPhases(3, 1, 2, -1, -1, 2)]


@pytest.mark.parametrize(("dilation", "config_name", "meet"), [
    (1, "n16", False), (2, "n16", True), (4, "n16", True), (14, "n16", False), (2, "n8", False), (4, "n8", True)])
def test_rows_that_share_banks(dilation: int, config_name: str, *, meet: bool) -> None:
    """n16 reads three rows at a time, n8 two; 28 rows further there is none."""
    assert banks_meet(_layer(_model((1, 28, 9, 8), (3, 3), (dilation, 1))), load_config(config_name)) is meet


def test_shares() -> None:
    assert shares(9) == [9, 5, 3, 2, 1]
    assert shares(1) == [1]
