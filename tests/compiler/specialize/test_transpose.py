"""Transposes in the scratchpad are exact for all shapes, and take no more beats than stated."""

from dataclasses import replace

import numpy as np
import pytest
from compared import compared

from tq_hw.compiler import compile_model
from tq_hw.compiler.emit import transpose as emitted
from tq_hw.compiler.ir.staged import Transpose
from tq_hw.compiler.specialize import transpose as specialized
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.layout import Unit
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute

N16 = PRESETS["n16"]
SHAPES = [((1, 64, 64, 16), (0, 3, 1, 2)), ((1, 16, 32, 32), (0, 2, 3, 1)), ((1, 16, 32, 20), (0, 1, 3, 2)),
          ((2, 16, 7, 24), (3, 0, 2, 1)), ((1, 48, 9, 40), (0, 3, 2, 1)), ((3, 5, 16, 32), (3, 1, 0, 2)),
          ((1, 3, 400, 8), (0, 1, 3, 2)), ((1, 40, 16, 4), (0, 3, 1, 2)), ((64, 80), (1, 0))]


def transpose(shape: tuple[int, ...], order: tuple[int, ...]) -> Model:
    builder = ModelBuilder("transpose")
    x = builder.input(shape, scale=0.5)
    return parse_model(builder.build(builder.add("TRANSPOSE", [x, builder.constant(list(order))])), "transpose")


def between() -> Model:
    """A permutation of axes between two convolutions."""
    builder = ModelBuilder("between")
    rng = np.random.default_rng(0)

    def convolution(source: int, channels: int) -> int:
        depth = builder.tensors[source].shape[3]
        weights = builder.constant(rng.integers(-127, 128, (channels, 1, 1, depth)).astype(np.int8), scale=0.01)
        bias = builder.bias(source, weights, rng.integers(-500, 500, channels))
        return builder.add("CONV_2D", [source, weights, bias], padding="SAME", scale=0.05, zero_point=3)
    transposed = builder.add("TRANSPOSE", [convolution(builder.input((1, 8, 32, 16), scale=0.05), 24),
                                       builder.constant([0, 3, 1, 2])])
    return parse_model(builder.build(convolution(transposed, 16)), "between")


def transposes(model: Model, config: Config, *, resident: bool = False) -> list[bool]:
    """For each transpose of a compiled model, whether both of its ends are in the scratchpad; outputs are checked."""
    compiled = compile_model(model, config, resident=resident)
    shape = model.main.tensors[model.main.inputs[0]].shape
    data = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    assert np.array_equal(execute(compiled.program, [data]).outputs[0], golden.run(model, [data]).outputs[0])
    emitter = compiled.emitter
    return [emitter.is_resident(layer.inputs[0]) and emitter.is_resident(layer.output)
            for layer in emitter.graph.layers if isinstance(layer, Transpose)]


def signal(channels: int, length: int, kernel: int, function: str) -> Model:
    """Convolutions of a signal whose channels come first, with a function between them: what PyTorch's Conv1d is."""
    builder = ModelBuilder("signal")
    rng = np.random.default_rng(0)

    def convolution(source: int, out: int) -> int:
        depth = builder.tensors[source].shape[1]
        pixels = builder.add("TRANSPOSE", [source, builder.constant([0, 2, 3, 1])])
        weights = builder.constant(rng.integers(-127, 128, (out, 1, kernel, depth)).astype(np.int8), scale=0.01)
        made = builder.add("CONV_2D", [pixels, weights, builder.bias(pixels, weights, rng.integers(-500, 500, out))],
                           padding="SAME", scale=0.05, zero_point=3)
        return builder.add("TRANSPOSE", [made, builder.constant([0, 3, 1, 2])])
    x = convolution(builder.input((1, 2, 1, length), scale=0.05), channels)
    if function:
        x = builder.add(function, [x], scale=0.05, zero_point=3)
    return parse_model(builder.build(convolution(x, 8)), "signal")


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
@pytest.mark.parametrize("channels", [4, 8, 16])
@pytest.mark.parametrize("length", [9, 32, 100])
def test_windows_of_a_signal(length: int, channels: int, config: Config) -> None:
    """Windows of few channels are loaded from memory, so what they read is there."""
    for kernel, function in ((3, "LEAKY_RELU"), (3, ""), (5, "HARD_SWISH")):
        compared(signal(channels, length, kernel, function), config)


@pytest.mark.parametrize(("shape", "order"), SHAPES)
def test_turn_in_the_scratchpad(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    assert transposes(transpose(shape, order), N16, resident=True) == [True]


@pytest.mark.parametrize(("shape", "order"), SHAPES[:2])
def test_turn_through_memory(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    assert transposes(transpose(shape, order), N16) == [False]


#: Few words, with any number of pixels for a word.
FEW = [((1, 8, 30, 16), (0, 3, 1, 2)), ((1, 4, 16, 16), (0, 3, 1, 2)), ((1, 16, 4, 16), (0, 2, 3, 1)),
       ((1, 2, 24, 24), (0, 3, 1, 2)), ((1, 24, 2, 24), (0, 2, 3, 1)), ((1, 3, 19, 20), (0, 1, 3, 2)),
       ((2, 3, 7, 24), (0, 3, 1, 2)), ((1, 1, 3, 100), (0, 1, 3, 2))]


@pytest.mark.parametrize(("shape", "order"), FEW)
@pytest.mark.parametrize("name", ["n16", "n8", "n16x8"])
def test_few_words_need_no_array(shape: tuple[int, ...], order: tuple[int, ...], name: str,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads of int32 exchange bytes of lanes; in words of 8 bytes one digit is left, for int16."""
    for module in (specialized, emitted):
        monkeypatch.setattr(module, "byte_cycles", lambda move, more=0: 1e9)
    monkeypatch.setattr(emitted._Transposer, "cycles", 1e9)
    model = transpose(shape, order)
    for resident in (True, False):
        assert transposes(model, PRESETS[name], resident=resident) == [resident]
        stream = compile_model(model, PRESETS[name], resident=resident).emitter.stream
        assert not stream.by_unit[Unit.ARRAY]
        types = {operation.fields.get("a_type", 0) for operation in stream.by_unit[Unit.VECTOR]}
        assert types - {0} == ({1, 2} if name == "n8" else {2})


def _cycles(model: Model) -> int:
    return sum(row.cycles for row in compile_model(model, N16).report)


def test_few_words_take_fewer_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two layers, and from memory to memory; otherwise the store unit stores single bytes."""
    builder = ModelBuilder("between")
    x = builder.input((1, 8, 16, 16), scale=0.05)
    moved = builder.add("TRANSPOSE", [builder.add("ADD", [x, x], scale=0.1), builder.constant([0, 2, 3, 1])])
    models = [parse_model(builder.build(builder.add("ADD", [moved, moved], scale=0.2)), "between"),
              transpose((1, 16, 4, 12), (0, 2, 3, 1)), transpose((1, 16, 16, 8), (0, 3, 1, 2))]
    now = [_cycles(model) for model in models]
    for module in (specialized, emitted):
        monkeypatch.setattr(module, "byte_cycles", lambda move, more=0: 0)
    assert [cycles < share * _cycles(model) for cycles, share, model in zip(now, (0.6, 0.95, 0.8), models, strict=True)
            ] == [True] * 3


@pytest.mark.parametrize(("shape", "order"), [
    ((1, 16, 32, 18), (0, 3, 1, 2)),  # channels that do not fill words of four pixels
    ((32, 4, 5, 16), (3, 1, 2, 0)),  # images
    ((1, 16, 32, 16), (0, 2, 1, 3))])  # whole pixels
def test_what_does_not_turn(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    assert transposes(transpose(shape, order), N16, resident=True) == []


def test_other_words_do_not_turn() -> None:
    for name in ("n8", "n16x8", "tiny", "serial"):
        assert transposes(transpose((1, 32, 16, 16), (0, 3, 1, 2)), PRESETS[name], resident=True) == []
    one_step = replace(N16, name="one_step", fold_steps=1)
    assert transposes(transpose((1, 128, 16, 16), (0, 3, 1, 2)), one_step, resident=True) == []


def test_between_two_layers() -> None:
    assert transposes(between(), N16) == [True]
    stream = compile_model(between(), N16).emitter.stream
    assert {operation.layer for operation in stream.by_unit[Unit.STORE]} == {2}


def test_both_ends_go_to_memory_if_one_does() -> None:
    small = replace(N16, name="small", scratchpad_bytes=16 << 10)
    assert transposes(between(), small) == [False]


def test_smaller_register_files_and_buffers() -> None:
    for changes in ({"vector_words": 128}, {"requantize_lanes": 8}, {"acc_words": 32},
                    {"acc_buffers": 2, "acc_open": 2}):
        assert transposes(transpose((1, 32, 32, 16), (0, 3, 1, 2)), replace(N16, name="other", **changes),
                     resident=True) == [True]


def test_three_cycles_a_word() -> None:
    """From the accumulators, into the registers, and from these; the array takes two cycles."""
    stream = compile_model(transpose((1, 64, 64, 16), (0, 3, 1, 2)), N16, resident=True).emitter.stream
    vector = [operation.fields for operation in stream.by_unit[Unit.VECTOR]]
    assert sum(f["slots"] * (4 if f.get("a_type") else 1) for f in vector) == 3 * 4096
    assert sum(f.fields["slots"] * f.fields["kernel_blocks"] for f in stream.by_unit[Unit.ARRAY]) == 2 * 4096
