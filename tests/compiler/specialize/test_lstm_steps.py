"""The LSTM's layer: the activation program for every argument, and all steps, compared with the golden model."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.lstm import Lstm
from tq_hw.compiler.ir.staged import Flat, MatMul, Move
from tq_hw.compiler.programs.interpolated import interpolated_activation
from tq_hw.compiler.programs.lstm_table import activation
from tq_hw.compiler.specialize import specialize
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import Unit
from tq_hw.isa.uop import UOP, Destination, Source
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute
from tq_hw.sim.executor.uop import evaluate, look_up
from tq_hw.sim.golden.interpolated import interpolated_logistic, interpolated_tanh
from tq_hw.sim.golden.recurrent import logistic, tanh

EVERY = np.arange(-32768, 32768)


def run(uops: tuple[dict[str, int], ...], a: np.ndarray, b: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Run a program on elements, as the executor does on lanes."""
    registers = np.zeros((8, len(a)), np.int32)
    fields = [field.name for register in UOP for field in register.fields]
    for given in uops:
        uop = dict.fromkeys(fields, 0) | {key: int(value) for key, value in given.items()}
        immediate = np.full(len(a), uop["immediate"], np.int64).astype(np.int32)
        chosen = []
        for name, stream in (("a", a), ("b", b)):
            source = uop[f"{name}_source"]
            operand = {Source.IMMEDIATE: immediate, Source.REGISTER: registers[uop[f"{name}_register"]],
                       Source.STREAM: stream.astype(np.int32)}[Source(source)]
            chosen.append(look_up(table, uop[f"{name}_table"], operand))
        result = evaluate(uop, chosen[0], chosen[1], uop["immediate"], uop["shift"], True)
        if uop["destination"] == Destination.OUTPUT:
            return (result & 0xFFFF).astype(np.uint16).view(np.int16)
        registers[uop["d_register"]] = result
    raise AssertionError("no output")


@pytest.mark.parametrize("log2", range(-15, -8))
def test_activation_of_every_argument(log2: int) -> None:
    active = activation(log2)
    table = np.concatenate(active.tables).astype(np.int32)
    for code, expected in ((active.logistic, logistic(EVERY, 3)), (active.tanh, tanh(EVERY, 3)),
                           (active.cell, tanh(EVERY, 15 + log2))):
        codes = np.full(len(EVERY), code).astype(np.uint8).view(np.int8)
        assert np.array_equal(run(active.uops, EVERY, codes, table), expected)


@pytest.mark.parametrize("log2", range(-15, -8))
def test_interpolated_activation_of_every_argument(log2: int) -> None:
    active = interpolated_activation(log2)
    table = np.concatenate(active.tables).astype(np.int32)
    for code, expected in ((active.logistic, interpolated_logistic(EVERY)), (active.tanh, interpolated_tanh(EVERY)),
                           (active.cell, interpolated_tanh(EVERY, -log2))):
        codes = np.full(len(EVERY), code).astype(np.uint8).view(np.int8)
        assert np.array_equal(run(active.uops, EVERY, codes, table), expected)


def lstm(seed: int) -> Model:
    """A random LSTM: sizes, scales, order of the axes, with and without a clip."""
    rng = np.random.default_rng(seed)
    batch, steps, depth, cells = (int(rng.integers(1, high)) for high in (4, 5, 40, 40))
    time_major, log2 = bool(seed % 2), -15 + seed % 7
    b = ModelBuilder("lstm")
    x = b.input((steps, batch, depth) if time_major else (batch, steps, depth), scale=0.02, zero_point=-5)

    def matrix(columns: int) -> int:
        return b.constant(rng.integers(-127, 128, (cells, columns)).astype(np.int8), scale=rng.uniform(.002, .01))

    inputs = [x, *(matrix(depth) for _ in range(4)), *(matrix(cells) for _ in range(4)), -1, -1, -1]
    inputs += [b.constant(rng.integers(-9999, 9999, cells).astype(np.int32), scale=0.001) for _ in range(4)]
    inputs += [-1, -1, b.tensor((batch, cells), scale=2.0 ** -7, zero_point=3, is_variable=True),
               b.tensor((batch, cells), "int16", scale=2.0 ** log2, is_variable=True), -1, -1, -1, -1]
    middle = [*(b.tensor((0,), "int16", scale=0.001) for _ in range(4)), b.tensor((0,), scale=2.0 ** -7, zero_point=3)]
    output = b.tensor((steps, batch, cells) if time_major else (batch, steps, cells), scale=2.0 ** -7, zero_point=3)
    b.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [output], {
        "fused_activation_function": "TANH", "cell_clip": 2.0 ** (log2 + 13) * (seed % 3 == 1), "proj_clip": 0.0,
        "time_major": time_major}, intermediates=middle)
    return parse_model(b.build(output), "lstm")


@pytest.mark.parametrize("config, profile", [
    *((config, "canon") for config in ("n16", "n8", "n16x8", "n9x8", "tiny")), ("n16", "tflm"), ("tiny", "tflm")])
@pytest.mark.parametrize("resident", [True, False])
def test_steps(config: str, profile: str, resident: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fits: dict[bool, int] = {True: 0, False: 0}
    real = specialize._too_large
    monkeypatch.setattr(specialize, "_too_large", lambda layer, c: not resident or real(layer, c))
    for seed in range(7):
        model = lstm(seed).under(profile)
        compiled = compile_model(model, PRESETS[config])
        kinds = {type(layer) for layer in compiled.emitter.graph.layers}
        assert kinds in ({Lstm}, {Flat, MatMul, Move})
        fits[kinds == {Lstm}] += 1
        tensor = model.main.tensors[model.main.inputs[0]]
        state_golden, state = golden.State(), compiled.program.state
        for number in range(2):
            x = np.random.default_rng(number).integers(-128, 128, tensor.shape).astype(np.int8)
            found, expected = execute(compiled.program, [x], state=state), golden.run(model, [x], state=state_golden)
            assert np.array_equal(found.outputs[0], expected.outputs[0]), (seed, number)
            state_golden, state = expected.state, found.state
    # Some of these do not fit the scratchpad of `tiny`.
    assert fits[True] == 0 if not resident else fits[True] > 3 if config == "tiny" else fits[True] == 7


def test_nothing_goes_through_memory_between_steps() -> None:
    compiled = compile_model(lstm(0), PRESETS["n16"])
    layer = compiled.emitter.graph.layers[0]
    assert isinstance(layer, Lstm)
    # The output, the hidden state, and the cell state in one part or two.
    assert len(compiled.emitter.stream.by_unit[Unit.STORE]) in (3, 4)
    operations = compiled.emitter.stream.operations
    steps = [number for number, op in enumerate(operations) if op.unit is Unit.ARRAY][-layer.steps:]
    assert all(op.unit in (Unit.ARRAY, Unit.VECTOR) for op in operations[steps[0]:steps[-1]])


def test_blocks_are_equally_full() -> None:
    """The array waits for as many rows of weights as a block has cells."""
    found = set()
    for seed in range(7):
        compiled = compile_model(lstm(seed), PRESETS["n16"])
        layer = compiled.emitter.graph.layers[0]
        assert isinstance(layer, Lstm)
        blocks = -(-layer.cells // 16)
        rows = compiled.emitter.stream.by_unit[Unit.ARRAY][-1].fields["weight_rows"]
        assert rows == -(-layer.cells // blocks)
        found.add((blocks, rows))
    assert any(blocks > 1 and rows < 16 for blocks, rows in found)


def test_activation_lanes_serve_gates_of_any_cells() -> None:
    """With a cell scale of 2^-15 a program computes the tanh; the gates still use lanes."""
    compiled = compile_model(lstm(0), PRESETS["n16"])
    layer, = (layer for layer in compiled.emitter.graph.layers if isinstance(layer, Lstm))
    assert layer.cell_scale_log2 == -15
    operations = compiled.emitter.stream.by_unit[Unit.VECTOR]
    outputs = [{uop.get("destination") for uop in op.uops} for op in operations]
    assert sum(Destination.ACTIVATION in found for found in outputs) == 2 * layer.steps
    assert sum(len(op.uops) > 20 for op in operations) == layer.steps
