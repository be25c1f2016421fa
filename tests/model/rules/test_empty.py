"""Rows replaced one at a time, as unrolled loops of `tf.map_fn` do: LiteRT's results."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import ModelError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

ROWS, SHAPE = 3, (3, 5)


def places(b: ModelBuilder, *values: int) -> int:
    return b.constant(np.array(values, np.int32))


def row(b: ModelBuilder, x: int, number: int, *, strided: bool) -> int:
    """Replace a row by its logistic."""
    parts = []
    for begin, end in ((0, number), (number + 1, ROWS)):
        if strided:
            inputs = [x, places(b, begin, 0), places(b, end, 5), places(b, 1, 1)]
            parts.append(b.add("STRIDED_SLICE", inputs, shape=(end - begin, 5)))
        else:
            inputs = [x, places(b, begin, 0), places(b, end - begin, -1)]
            parts.append(b.add("SLICE", inputs, shape=(end - begin, 5)))
    own = b.add("SLICE", [x, places(b, number, 0), places(b, 1, 5)], shape=(1, 5))
    own = b.add("QUANTIZE", [b.add("LOGISTIC", [own])], scale=0.02, zero_point=4)
    return b.add("CONCATENATION", [parts[0], own, parts[1]], shape=SHAPE, options={"axis": 0})


def rows(b: ModelBuilder, numbers: Sequence[int], *, strided: bool = False) -> int:
    x = b.input(SHAPE, scale=0.02, zero_point=4)
    for number in numbers:
        x = row(b, x, number, strided=strided)
    return x


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("numbers", [(0,), (2,), (0, 1, 2)])
def test_equals_the_engine(numbers: Sequence[int], strided: bool, oracles: Callable[[str], Oracle]) -> None:
    b = ModelBuilder("rows")
    data = b.build(rows(b, numbers, strided=strided))
    model = parse_model(data, "rows")
    assert not any(0 in model.main.tensors[index].shape for op in model.main.operators for index in op.inputs)
    x = np.random.default_rng(0).integers(-128, 128, SHAPE).astype(np.int8)
    expected = oracles("litert-ref").run(data, [x])[0]
    program = compile_model(model, load_config("n8")).program
    for found in (run(model, [x]).outputs[0], execute(program, [x]).outputs[0]):
        np.testing.assert_array_equal(found, expected, strict=True)


def test_copies_of_nothing(oracles: Callable[[str], Oracle]) -> None:
    """Also as float32, and with another scale."""
    b = ModelBuilder("copies")
    x = b.input(SHAPE, scale=0.02, zero_point=4)
    none = b.add("SLICE", [x, places(b, 3, 0), places(b, -1, -1)], shape=(0, 5))
    none = b.add("QUANTIZE", [b.add("DEQUANTIZE", [none], shape=(0, 5))], shape=(0, 5), dtype="int8", scale=0.02,
                 zero_point=4)
    data = b.build(b.add("CONCATENATION", [x, none], shape=SHAPE, options={"axis": 0}))
    model = parse_model(data, "copies")
    assert [op.op for op in model.main.operators] == ["CONCATENATION"]
    given = np.random.default_rng(0).integers(-128, 128, SHAPE).astype(np.int8)
    np.testing.assert_array_equal(run(model, [given]).outputs[0], oracles("litert-ref").run(data, [given])[0])


def test_nothing_that_is_read_otherwise_is_refused() -> None:
    b = ModelBuilder("nothing")
    none = b.add("SLICE", [b.input(SHAPE), places(b, 3, 0), places(b, -1, -1)], shape=(0, 5))
    with pytest.raises(ModelError, match=r"operator 0 SLICE: Do not leave a data tensor empty\. Found shape \[0, 5\]"):
        parse_model(b.build(b.add("ADD", [none, none], shape=(0, 5))), "nothing")
