"""Operators whose results nothing reads are removed, of any kind through which float32 may pass."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.oracles import Oracle

SHAPE = (1, 3, 4, 5)


def number(b: ModelBuilder, value: object) -> int:
    return b.constant(np.array(value, np.int32))


def dead(b: ModelBuilder, op: str, x: int) -> int:
    """A float32 operator."""
    if op in ("MEAN", "SUM", "REDUCE_MAX"):
        return b.add(op, [x, number(b, [2])], options={"keep_dims": True})
    if op == "RESIZE_BILINEAR":
        return b.add(op, [x, number(b, [6, 8])])
    if op == "BATCH_MATMUL":
        return b.add(op, [x, b.add("TRANSPOSE", [x, number(b, [0, 1, 3, 2])])])
    if op in ("ARG_MAX", "CUMSUM"):
        return b.add(op, [x, number(b, 3)], options={"output_type": "int32"} if op == "ARG_MAX" else {})
    if op == "CONCATENATION":
        return b.add(op, [x, x], options={"axis": 1})
    if op == "SELECT_V2":
        return b.add(op, [b.add("LESS", [x, b.constant(np.array(0, np.float32))]), x, x])
    return b.add(op, [x, x] if op in ("ADD", "ADD_N", "GREATER") else [x])


@pytest.mark.parametrize("op", ["SOFTMAX", "BATCH_MATMUL", "MEAN", "SUM", "REDUCE_MAX", "RESIZE_BILINEAR", "ARG_MAX",
                                "CUMSUM", "CONCATENATION", "SELECT_V2", "SIN", "ADD", "ADD_N", "GREATER"])
def test_what_nothing_reads_goes(litert: Oracle, op: str) -> None:
    """Unused operators on an input, and on computed tensors, in a chain."""
    b = ModelBuilder(op)
    x = b.add("DEQUANTIZE", [b.input(SHAPE, scale=0.05, zero_point=3)])
    made = b.add("TANH", [x])
    # A chain of unused operators is removed from its end.
    last = dead(b, op, dead(b, "NEG", made))
    if b.tensors[last].dtype == "float32":
        dead(b, "ABS", last)
    data = b.build(b.add("QUANTIZE", [made], scale=0.01))
    model = parse_model(data, op)
    assert [each.op for each in rewrite(model.main, LIBRARY).operators] == ["TABLE"]
    inputs = [np.random.default_rng(1).integers(-128, 128, SHAPE).astype(np.int8)]
    found = execute(compile_model(model, load_config("n16")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, litert.run(data, inputs)[0], strict=True)


def test_what_the_caller_reads_stays() -> None:
    b = ModelBuilder("m")
    x = b.input(SHAPE, scale=0.05, zero_point=3)
    kept = b.add("ARG_MAX", [x, number(b, 1)], options={"output_type": "int32"})
    main = parse_model(b.build(kept, b.add("RESHAPE", [x, number(b, [60])])), "m").main
    assert [each.op for each in rewrite(main, LIBRARY).operators] == ["ARG_MAX", "RESHAPE"]
