"""Loops and choices that are decided before the run, and variables that remain: as in the engines, and compiled."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Model, Operator, OptionValue, Subgraph, Tensor
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

#: An empty map in FlexBuffers.
NO_ATTRIBUTES = (0, 0, 1, 0, 0, 36, 1)
SHAPE, QUANTIZATION = (1, 6), {"scale": 0.05, "zero_point": -3}


def part(fill: Callable[[ModelBuilder, list[int]], list[int]], inputs: int) -> Subgraph:
    """A subgraph with a counter and some activations."""
    b = ModelBuilder("part")
    outputs = fill(b, [b.input((), "int32"), *(b.input(SHAPE, **QUANTIZATION) for _ in range(inputs))])
    return b.model(*outputs).main


def doubled(b: ModelBuilder, x: list[int]) -> list[int]:
    return [b.add("ADD", [x[0], b.constant(1)], shape=()), b.add("ADD", [x[1], x[1]], **QUANTIZATION)]


def loop(rounds: int | None) -> bytes:
    """Double the input a number of times; None: as often as another input says."""
    b = ModelBuilder("loop")
    x = b.input(SHAPE, **QUANTIZATION)
    counter = b.constant(np.array(3 - rounds, np.int32)) if rounds is not None else b.input((), "int32")
    outputs = [b.tensor((), "int32"), b.tensor(SHAPE, **QUANTIZATION)]
    b.operator("WHILE", [counter, x], outputs, {"cond_subgraph_index": 1, "body_subgraph_index": 2})
    y = b.add("RELU", [outputs[1]], scale=0.07)
    goes_on = part(lambda b, x: [b.add("LESS", [x[0], b.constant(np.array(3, np.int32))], shape=())], 1)
    return write_model(Model("loop", (b.model(y, outputs[0]).main, goes_on, part(doubled, 1))))


def choice(taken: bool) -> bytes:
    b = ModelBuilder("choice")
    x = b.input(SHAPE, **QUANTIZATION)
    condition, counter = b.constant(np.array(taken)), b.constant(np.array(0, np.int32))
    y = b.tensor(SHAPE, **QUANTIZATION)
    b.operator("IF", [condition, counter, x], [y], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    added = part(lambda b, x: [b.add("ADD", [x[1], x[1]], **QUANTIZATION)], 1)
    multiplied = part(lambda b, x: [b.add("MUL", [x[1], x[1]], **QUANTIZATION)], 1)
    return write_model(Model("choice", (b.model(b.add("RELU", [y], scale=0.07)).main, added, multiplied)))


def kept(is_written: bool) -> bytes:
    """Add a variable, which the model itself may write."""
    b = ModelBuilder("kept")
    x, handle, value = b.input(SHAPE, **QUANTIZATION), b.tensor((), "resource"), b.tensor(SHAPE, **QUANTIZATION)
    name: Mapping[str, OptionValue] = {"container": "", "shared_name": "v"}
    b.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    b.operator("VAR_HANDLE", [], [handle], dict(name))
    b.operator("READ_VARIABLE", [handle], [value])
    if is_written:
        b.operator("ASSIGN_VARIABLE", [handle, x], [])
    main = b.model(b.add("ADD", [x, value], scale=0.1)).main
    first = replace(main.tensors[x], index=1, name="first", data=np.arange(6, dtype=np.int8)[None])
    once = Subgraph("once", (Tensor(0, "handle", "resource", ()), first), (
        Operator(0, "VAR_HANDLE", (), (0,), name), Operator(1, "ASSIGN_VARIABLE", (0, 1), ())), (), ())
    return write_model(Model("kept", (main, once)))


@pytest.mark.parametrize("data", [loop(3), loop(1), loop(0), choice(True), choice(False), kept(False)],
                         ids=["three", "one", "none", "then", "else", "variable"])
def test_equals_the_engines(data: bytes, oracles: Callable[[str], Oracle]) -> None:
    inputs = [np.array([[-128, -9, -3, 0, 9, 127]], np.int8)]
    model = parse_model(data, "m")
    assert len(model.subgraphs) == 1
    found = run(model, inputs).outputs
    for ours, theirs in zip(found, execute(compile_model(model, PRESETS["n8"]).program, inputs).outputs, strict=True):
        np.testing.assert_array_equal(ours, theirs.reshape(ours.shape))
    for engine in ("litert-ref", "tflm"):
        for ours, theirs in zip(found, oracles(engine).run(data, inputs), strict=True):
            np.testing.assert_array_equal(ours, theirs.reshape(ours.shape), err_msg=engine)


OTHER = {"scale": 0.08, "zero_point": 4}


def between(op: str, other: int) -> bytes:
    """A loop or choice in which one tensor has another scale: input or output, outside or inside."""
    b, kinds = ModelBuilder("between"), [OTHER if at == other else QUANTIZATION for at in range(4)]
    x, y, counter = b.input(SHAPE, **kinds[0]), b.tensor(SHAPE, **kinds[1]), b.constant(np.array(0, np.int32))

    def body(b: ModelBuilder) -> Subgraph:
        count, x = b.input((), "int32"), b.input(SHAPE, **kinds[2])
        counted = [b.add("ADD", [count, b.constant(1)], shape=())] if op == "WHILE" else []
        return b.model(*counted, b.add("ADD", [x, x], **kinds[3])).main

    def goes_on(b: ModelBuilder) -> Subgraph:
        count, _ = b.input((), "int32"), b.input(SHAPE, **kinds[2])
        return b.model(b.add("LESS", [count, b.constant(np.array(2, np.int32))], shape=())).main
    if op == "WHILE":
        b.operator(op, [counter, x], [b.tensor((), "int32"), y], {"cond_subgraph_index": 1, "body_subgraph_index": 2})
        others = [goes_on(ModelBuilder("goes on")), body(ModelBuilder("body"))]
    else:
        b.operator(op, [b.constant(np.array(True)), counter, x], [y],
                   {"then_subgraph_index": 1, "else_subgraph_index": 2})
        others = [body(ModelBuilder(name)) for name in ("then", "else")]
    return write_model(Model("between", (b.model(b.add("RELU", [y], scale=0.07)).main, *others)))


@pytest.mark.parametrize("op", ["WHILE", "IF"])
def test_loops_and_choices_that_change_the_meaning_of_codes_stay(op: str) -> None:
    """The kernels copy codes between tensors whose scales differ; without the copy, codes would keep their meaning."""
    assert op not in [each.op for each in parse_model(between(op, -1), "m").main.operators]
    for other in range(4):
        assert op in [each.op for each in parse_model(between(op, other), "m").main.operators]


def exchanged(first: int, second: int) -> bytes:
    """A loop whose body returns elements of its input at these positions; 0 stands for their sum."""
    b = ModelBuilder("exchanged")
    x, y = (b.input(SHAPE, **QUANTIZATION) for _ in range(2))
    outputs = [b.tensor((), "int32"), *(b.tensor(SHAPE, **QUANTIZATION) for _ in range(2))]
    b.operator("WHILE", [b.constant(np.array(0, np.int32)), x, y], outputs,
               {"cond_subgraph_index": 1, "body_subgraph_index": 2})

    def body(b: ModelBuilder, x: list[int]) -> list[int]:
        added = b.add("ADD", [x[1], x[2]], **QUANTIZATION)
        return [b.add("ADD", [x[0], b.constant(1)], shape=()), *(x[at] if at else added for at in (first, second))]
    goes_on = part(lambda b, x: [b.add("LESS", [x[0], b.constant(np.array(3, np.int32))], shape=())], 2)
    return write_model(Model("exchanged", (b.model(*outputs).main, goes_on, part(body, 2))))


@pytest.mark.parametrize(("first", "second", "stays"), [(2, 1, True), (0, 1, True), (2, 0, False), (0, 2, False),
                                                        (1, 0, False), (1, 1, False)])
def test_loops_that_write_variables_before_reading_them(first: int, second: int, stays: bool,
                                                        oracles: Callable[[str], Oracle]) -> None:
    """LiteRT and TFLite Micro disagree about some of these loops; those are not unrolled."""
    data = exchanged(first, second)
    model, inputs = parse_model(data, "m"), [np.array([values], np.int8) for values in (
        [-128, -9, -3, 0, 9, 127], [5, 4, 3, 2, 1, 0])]
    assert ("WHILE" in [op.op for op in model.main.operators]) == stays
    theirs = [oracles(engine).run(data, inputs) for engine in ("litert-ref", "tflm")]
    assert stays != all(map(np.array_equal, theirs[0][1:], theirs[1][1:]))
    if not stays:
        for ours, each in zip(run(model, inputs).outputs, theirs[0], strict=True):
            np.testing.assert_array_equal(ours, each.reshape(ours.shape))


def composed(is_float: bool) -> bytes:
    """A pool without its padding, as PyTorch's `AvgPool2d(count_include_pad=False)` is exported, called twice."""
    shape, b, inner = (1, 6, 5, 3), ModelBuilder("composed"), ModelBuilder("pool")
    given = {"dtype": "float32"} if is_float else QUANTIZATION
    x = inner.input(shape, **given)
    pool = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "filter_height": 3, "filter_width": 3}
    body = inner.model(inner.add("AVERAGE_POOL_2D", [x], options=pool)).main
    current = b.input(shape, **QUANTIZATION)
    current = b.add("DEQUANTIZE", [current]) if is_float else current
    for _ in range(2):
        made = b.tensor(shape, **given)
        b.operator("STABLEHLO_COMPOSITE", [current], [made], {
            "name": "aten.avg_pool2d", "decomposition_subgraph_index": 1, "composite_attributes": NO_ATTRIBUTES})
        current = made
    if is_float:
        current = b.add("QUANTIZE", [current], dtype="int8", scale=0.04, zero_point=7)
    return write_model(Model("composed", (b.model(current).main, body)))


@pytest.mark.parametrize("is_float", [False, True])
def test_composites_are_what_computes_them(is_float: bool, oracles: Callable[[str], Oracle]) -> None:
    data = composed(is_float)
    model, x = parse_model(data, "m"), np.random.default_rng(0).integers(-128, 128, (1, 6, 5, 3)).astype(np.int8)
    assert [op.op for op in model.main.operators if op.op not in ("DEQUANTIZE", "QUANTIZE")] == ["AVERAGE_POOL_2D"] * 2
    assert len(model.subgraphs) == 1
    expected = oracles("litert-ref").run(data, [x])[0]
    for found in (run(model, [x]).outputs[0] if not is_float else expected,
                  execute(compile_model(model, PRESETS["n8"]).program, [x]).outputs[0]):
        np.testing.assert_array_equal(found, expected, strict=True)


def test_a_composite_needs_its_options() -> None:
    data = composed(False).replace(b"\x15", b"\x14")
    with pytest.raises(TqError, match=r"has no options, STABLEHLO_COMPOSITE needs its StableHLOCompositeOptions"):
        parse_model(data, "m")


def test_a_variable_that_is_written_stays() -> None:
    assert [op.op for op in parse_model(kept(True), "m").main.operators][:2] == ["CALL_ONCE", "VAR_HANDLE"]


def test_loops_and_choices_that_are_not_decided() -> None:
    with pytest.raises(TqError) as error:
        compile_model(parse_model(loop(None), "m"), PRESETS["n8"])
    assert str(error.value) == (
        "not supported: WHILE (operator 0); `tq-hw ops` lists the operators that are; WHILE is supported where its "
        "conditions follow from shapes and constants, for up to 1,024 rounds")


def test_long_loops_stay() -> None:
    assert [op.op for op in parse_model(loop(2000), "m").main.operators] == ["WHILE", "RELU"]
