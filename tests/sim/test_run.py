"""The common entry to all engines, random inputs, and the comparison of results."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.isa.program import Port
from tq_hw.model.errors import MismatchError, OptionError
from tq_hw.model.samples.layers import sample
from tq_hw.sim.diagnose.compare import divergences, require_equal
from tq_hw.sim.engines import KINDS, random_inputs, run


def test_golden_equals_executor():
    model = sample("chain", 1)
    program = compile_model(model, PRESETS["tiny"]).program
    for kind in KINDS:
        inputs = random_inputs(model, 3, kind)
        require_equal(run(program, inputs, "executor", seed=5, check_races=True).outputs, run(model, inputs).outputs,
                      kind)


def test_wrong_engine():
    model = sample("chain", 1)
    with pytest.raises(OptionError, match="one of golden, executor, rtl, not 'fpga'"):
        run(model, [], "fpga")
    with pytest.raises(OptionError, match="a compiled program"):
        run(model, [], "rtl")


def test_kinds_of_inputs():
    ports = [Port("a", "int8", (4, 64), 0.5, -3, 0, 256), Port("b", "int16", (2,), 0.5, 7, 0, 4, "quantize"),
             Port("c", "int32", (50,), 0.0, 0, 0, 200), Port("d", "bool", (50,), 0.0, 0, 0, 50),
             Port("e", "float32", (50,), 0.0, 0, 0, 200)]
    for kind in KINDS:
        for port, array in zip(ports, random_inputs(ports, 1, kind), strict=True):
            assert (array.dtype.name, array.shape) == (port.model_dtype, port.shape)
    assert [random_inputs(ports, 0, kind)[0].flat[0] for kind in ("min", "max", "zero_point")] == [-128, 127, -3]
    assert [random_inputs(ports, 0, kind)[1][0] for kind in ("max", "zero_point")] == [0.5 * (32767 - 7), 0.0]
    assert set(random_inputs(ports, 0, index_limit=3)[2].tolist()) == {0, 1, 2}
    assert np.array_equal(random_inputs(ports, 9)[0], random_inputs(ports, 9)[0])
    assert not np.array_equal(random_inputs(ports, 9)[0], random_inputs(ports, 8)[0])
    assert {-128, 127, -3} <= set(random_inputs(ports, 0, "mix")[0].flat)
    with pytest.raises(OptionError, match="kind of inputs"):
        random_inputs(ports, 0, "zp")


def test_first_divergence():
    a = np.zeros((2, 3), np.int8)
    b = a.copy()
    b[0, 2], b[1, 1] = 5, 6
    assert divergences([a, a], [a, a]) == []
    (found,) = divergences([a, b], [a, a])
    assert (found.output, found.index, found.found, found.expected, found.count, found.total) == (1, (0, 2), 5, 0, 2, 6)
    with pytest.raises(MismatchError, match=r"^rtl: output 0, element \[0, 2\] is 5, expected 0 \(2 of 6 differ\)$"):
        require_equal([b], [a], "rtl")
    with pytest.raises(MismatchError, match=r"output 0 is int8\[2, 3\], expected int8\[6\]"):
        require_equal([a], [a.reshape(-1)], "rtl")
    with pytest.raises(ValueError, match="1 outputs are compared with 2"):
        divergences([a], [a, a])


def test_floats_are_compared_by_their_bits():
    zeros = np.array([0.0, np.nan, 1.0], np.float32)
    assert divergences([zeros], [zeros]) == []
    (found,) = divergences([np.array([-0.0, np.nan, 1.0], np.float32)], [zeros])
    assert found.index == (0,)
