"""SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION in each of their three forms equal golden."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.compile import Compiled
from tq_hw.compiler.ir.layers import RowProgram
from tq_hw.compiler.ir.staged import Columns, LongRows, Move, Transpose
from tq_hw.compiler.programs.rows import parts_of, scalars_of
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.layout import Unit
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

ODD = Config("odd", 4, 12, 4, 16 << 10)
SMALL = Config("small", 8, 8, 4, 8 << 10)
OPS = ("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION")
IN_COLUMNS = [Move, Columns, Move]


def _compiled_as_golden(model: Model, config: Config, seed: int = 0) -> Compiled:
    """Return the model compiled, after its stream gave what the golden model gives for random inputs."""
    compiled = compile_model(model, config)
    shape = model.main.tensors[model.main.inputs[0]].shape
    inputs = [np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)]
    found = execute(compiled.program, inputs, seed=seed + 1, check_races=True).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)
    return compiled


def _compare(op: str, shape: tuple[int, ...], config: Config, *, wide: bool = False) -> Compiled:
    b = ModelBuilder(op)
    # Not too many numbers of a row with many classes may be near its maximum: the kernels would abort.
    x = b.input(shape, scale=0.05 if shape[-1] < 600 else 1.0, zero_point=shape[-1] % 240 - 120)
    options = {"beta": 1.0} if op == "SOFTMAX" else {}
    out = (b.add(op, [x], dtype="int16", scale=2.0**-16, zero_point=-32768, options=options) if wide
           else b.add(op, [x], options=options))
    return _compiled_as_golden(parse_model(b.build(out), op), config, shape[-1])


def _kinds(compiled: Compiled) -> list[type]:
    return [type(layer) for layer in compiled.emitter.graph.layers]


@pytest.mark.parametrize("config", [load_config("n16"), load_config("tiny"), ODD], ids=lambda config: config.name)
@pytest.mark.parametrize("op", OPS)
def test_few_rows_go_one_after_the_other(op: str, config: Config) -> None:
    assert _kinds(_compare(op, (3, 20), config)) == [RowProgram]


@pytest.mark.parametrize("config", [load_config("n16"), load_config("tiny"), ODD], ids=lambda config: config.name)
@pytest.mark.parametrize("op", OPS)
def test_many_rows_lie_in_lanes(op: str, config: Config) -> None:
    for shape in ((1, 15, 13, 7), (300, 33), (1, 1100, 1, 3)):
        assert _kinds(_compare(op, shape, config)) == IN_COLUMNS


@pytest.mark.parametrize("config", [load_config("n8"), load_config("tiny"), ODD], ids=lambda config: config.name)
@pytest.mark.parametrize("op", OPS)
def test_long_rows_come_in_pieces(op: str, config: Config) -> None:
    # Whole and part words, whole chunks and part of one.
    for shape in ((2, 1499), (1, 2048), (1, 1, 2, 1153)):
        assert _kinds(_compare(op, shape, config)) == [LongRows]


@pytest.mark.parametrize("op", OPS)
def test_rows_longer_than_the_scratchpad(op: str) -> None:
    for elements in (3 * 8192 + 5, 16384):
        assert _kinds(_compare(op, (1, elements), SMALL)) == [LongRows]


@pytest.mark.parametrize(("shape", "kind"), [((2, 9), RowProgram), ((150, 9), Columns), ((1, 2100), LongRows)])
def test_softmax_of_16_bits(shape: tuple[int, ...], kind: type) -> None:
    assert kind in _kinds(_compare("SOFTMAX", shape, load_config("n8"), wide=True))


def test_a_row_in_each_lane_takes_a_tenth() -> None:
    """One row after the other took 22 cycles per element here."""
    compiled = _compare("SOFTMAX", (1, 4, 48, 48), load_config("n16"))
    assert sum(row.cycles for row in compiled.report) < 2.2 * 4 * 48 * 48


def _between(shape: tuple[int, ...], op: str) -> Model:
    """A program on rows between two layers in the scratchpad, both of which keep it busy."""
    b = ModelBuilder("between")
    x = b.input(shape, scale=0.05)
    rows = b.add(op, [b.add("ADD", [x, x], scale=0.1, zero_point=4)], options={"beta": 1.0} if op == "SOFTMAX" else {})
    return parse_model(b.build(b.add("ADD", [rows, rows], scale=0.02)), "between")


@pytest.mark.parametrize(("op", "shape"), [
    ("SOFTMAX", (1, 4, 48, 48)), ("LOG_SOFTMAX", (1, 4, 16, 16)), ("L2_NORMALIZATION", (1, 1, 64, 32)),
    ("SOFTMAX", (1, 80, 16, 16)), ("LOG_SOFTMAX", (1, 2, 160, 16))])
def test_whole_words_of_rows_turn_in_the_scratchpad(op: str, shape: tuple[int, ...]) -> None:
    compiled = _compiled_as_golden(_between(shape, op), load_config("n16"))
    assert _kinds(compiled)[1:-1] == [Transpose, Columns, Transpose]
    emitter = compiled.emitter
    assert all(map(emitter.is_resident, (layer.output for layer in emitter.graph.layers[:-1])))
    stored = {operation.layer for operation in emitter.stream.by_unit[Unit.STORE]}
    assert stored == {len(emitter.graph.layers) - 1}


@pytest.mark.parametrize(("op", "shape", "name"), [
    ("SOFTMAX", (1, 2, 24, 24), "n16"), ("SOFTMAX", (1, 2, 24, 24), "n8"), ("LOG_SOFTMAX", (1, 1, 72, 12), "n16")])
def test_few_rows_of_any_length_turn_in_the_scratchpad(op: str, shape: tuple[int, ...], name: str) -> None:
    compiled = _compiled_as_golden(_between(shape, op), load_config(name))
    assert _kinds(compiled)[1:-1] == [Transpose, Columns, Transpose]
    emitter = compiled.emitter
    assert all(map(emitter.is_resident, (layer.output for layer in emitter.graph.layers[:-1])))


def test_rows_turn_for_a_reader_from_memory() -> None:
    """If a layer reads from memory anyway, its input is stored after it was transposed."""
    b = ModelBuilder("read")
    x = b.input((1, 4, 16, 16), scale=0.05)
    rows = b.add("SOFTMAX", [b.add("ADD", [x, x], scale=0.1)], options={"beta": 1.0})
    model = parse_model(b.build(b.add("BATCH_MATMUL", [rows, rows], scale=0.01)), "read")
    emitter = _compiled_as_golden(model, load_config("n16")).emitter
    assert all(map(emitter.is_resident, (layer.output for layer in emitter.graph.layers[1:4])))


def test_few_words_of_rows_are_worked_on_several_times() -> None:
    """Maxima, two differences at once, sums, scalars, two results at once."""
    emitter = compile_model(_between((1, 4, 16, 16), "SOFTMAX"), load_config("n16")).emitter
    columns = [operation.fields for operation in emitter.stream.by_unit[Unit.VECTOR]
               if isinstance(emitter.graph.layers[operation.layer], Columns) and not operation.fields.get("kind")]
    assert [(f["slots"], f["out_blocks"], f["repeat1"]) for f in columns] == [
        (8, 1, 16), (8, 8, 1), (8, 1, 16), (8, 1, 3), (8, 8, 1)]


def test_few_rows_take_few_cycles() -> None:
    """64 rows of 16 elements took 3,771 cycles with transposes by the array and a program before each operation."""
    model = _between((1, 4, 16, 16), "SOFTMAX")
    cycles, = (row.cycles for row in compile_model(model, load_config("n16")).report if row.op == "SOFTMAX")
    assert cycles < 3000
    # Three micro-operations fewer than with separate steps for the sum's shift and half.
    assert len(scalars_of(parts_of("softmax", {"output_bits": 8})).uops) == 11
