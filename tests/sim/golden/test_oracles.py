"""The processes that run engines: results, rejected models, crashes, limits."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.running import running_oracles
from tq_hw.model.errors import MissingToolError, OptionError, ToolError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim import oracles as module
from tq_hw.sim.oracles import Oracle, run_litert, run_tflm

X = np.array([[1, -2, 3]], np.int8)


def negated() -> bytes:
    """Build a model with two outputs: `x - x`, and `x` with its axes exchanged."""
    b = ModelBuilder()
    x = b.input((1, 3), scale=0.5)
    return b.build(b.add("SUB", [x, x], scale=0.5), b.add("TRANSPOSE", [x, b.constant([1, 0])]))


def many_classes() -> bytes:
    b = ModelBuilder()
    return b.build(b.add("SOFTMAX", [b.input((1, 600), scale=0.5)]))


def of_version(op: str, version: int) -> bytes:
    b = ModelBuilder()
    x = b.input((2, 3), scale=0.5)
    if op == "TILE":
        made = b.add(op, [x, b.constant(np.array([2, 1], np.int32))], shape=(4, 3), scale=0.5)
    else:
        made = b.add(op, [x], scale=0.5)
    model = b.model(made)
    operators = tuple(replace(operator, version=version) for operator in model.main.operators)
    return write_model(replace(model, subgraphs=(replace(model.main, operators=operators),)))


def test_both_engines_run(oracles: Callable[[str], Oracle]) -> None:
    for engine, function in (("litert-ref", run_litert), ("tflm", run_tflm)):
        oracles(engine)
        first, second = function(negated(), [X])
        assert first.tolist() == [[0, 0, 0]] and second.tolist() == [[1], [-2], [3]]


@pytest.mark.parametrize("engine", ["litert-ref", "tflm"])
def test_an_abort_of_the_engine_is_an_error_and_the_next_model_runs(engine: str,
                                                                    oracles: Callable[[str], Oracle]) -> None:
    oracle = oracles(engine)
    with pytest.raises(ToolError, match=f"^{engine} was killed by signal 6: "):
        oracle.run(many_classes(), [np.zeros((1, 600), np.int8)])
    assert oracle.run(negated(), [X])[0].tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("engine", ["litert-ref", "tflm"])
def test_a_refusal_is_an_error(engine: str, oracles: Callable[[str], Oracle]) -> None:
    b = ModelBuilder()
    x = b.input((1, 3), "int64")
    y = b.tensor((1, 3), "int64")
    b.operator("LOGISTIC", [x], [y])
    with pytest.raises(ToolError, match=f"^{engine} refused the model: "):
        oracles(engine).run(b.build(y), [X.astype(np.int64)])


def test_an_older_version_of_a_kernel_is_used(oracles: Callable[[str], Oracle]) -> None:
    """The reference resolver has TILE up to version 2, below that of Keras' UpSampling2D, and no ELU."""
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    made = oracles("litert-ref").run(of_version("TILE", 3), [x])[0]
    np.testing.assert_array_equal(made, np.tile(x, (2, 1)), strict=True)
    with pytest.raises(ToolError, match=r"^litert-ref refused the model: Didn't find op for builtin opcode 'ELU' "
                                        r"version '2'\."):
        oracles("litert-ref").run(of_version("ELU", 2), [x])


@pytest.mark.parametrize("engine", ["litert-ref", "litert-opt"])
def test_a_version_that_no_kernel_knows_is_refused(engine: str, oracles: Callable[[str], Oracle]) -> None:
    """It may have another meaning: the newest TILE of this package is version 3."""
    with pytest.raises(ToolError, match=rf"^{engine} refused the model: Didn't find op for builtin opcode 'TILE' "
                                        r"version '4'\."):
        oracles(engine).run(of_version("TILE", 4), [np.zeros((2, 3), np.int8)])


def test_the_time_limit_holds(oracles: Callable[[str], Oracle]) -> None:
    oracles("litert-ref")
    expected = pytest.raises(ToolError, match=r"^litert-ref took longer than 0.001 s")
    with Oracle("litert-ref", timeout_seconds=0.001) as oracle, expected:
        oracle.run(negated(), [X])


def test_an_oracle_that_was_not_closed_is_named(oracles: Callable[[str], Oracle]) -> None:
    oracles("litert-ref")
    before = running_oracles()
    with Oracle("litert-ref") as oracle:
        oracle.run(negated(), [X])
        assert running_oracles() == sorted(["litert-ref", *before])
    assert running_oracles() == before


def test_unknown_engine() -> None:
    with pytest.raises(OptionError, match="engine must be one of litert-ref, litert-opt, litert-xnn, tflm, not 'x'"):
        Oracle("x")


def test_a_missing_wheel_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available", lambda engine: False)
    with pytest.raises(MissingToolError, match=r'^tflite-micro is not installed; run: pip install "tq-hw\[oracles\]"$'):
        run_tflm(negated(), [X])
