"""Streams with one change: the check rejects them, or the executor's outputs do not change."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.stream.stream import Operation
from tq_hw.compiler.verify import DataflowError
from tq_hw.compiler.verify.replay import Replay
from tq_hw.isa.config import load_config
from tq_hw.isa.layout import Unit
from tq_hw.model.samples.layers import KINDS, sample

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
import stream_mutants
from stream_mutants import CHANGES, Tally, check_mutants

FEW = ("conv", "depthwise", "max_pool", "softmax", "rows", "reduce", "batch_matmul", "transpose", "chain")
#: Changes that usually alter results: nearly all must be rejected. Of the other changes, some must be.
MOSTLY = {"drop", "token", "address", "length"}


def _check(kinds: tuple[str, ...], configs: tuple[str, ...], count: int, seeds: range) -> None:
    tally = Tally()
    for kind in kinds:
        for seed in seeds:
            for config in configs:
                check_mutants(sample(kind, seed), config, count, seed, tally)
    assert tally.wrong == []
    for change in CHANGES:
        others = tally.unencodable[change] + tally.stopped[change] + tally.same[change]
        assert tally.refused[change] > (5 * others if change in MOSTLY else 0), change


def test_mutants_are_refused_or_compute_the_same() -> None:
    _check(FEW, ("tiny",), 2, range(1))


@pytest.mark.slow
def test_many_mutants_are_refused_or_compute_the_same() -> None:
    _check(KINDS, ("tiny", "n16", "n9x8"), 12, range(3))


def _refused(message: str, operation: Operation, **fields: int) -> None:
    """Change fields of an operation of `COMPILED`; the check must report it."""
    before = dict(operation.fields)
    operation.fields.update(fields)
    try:
        with pytest.raises(DataflowError) as refused:
            Replay(COMPILED.emitter, COMPILED.emitter.stream).run()
        assert str(refused.value) == message
    finally:
        operation.fields.clear()
        operation.fields.update(before)


COMPILED = compile_model(sample("conv", 0), load_config("tiny"))


def test_messages_name_operation_tensor_address_and_writer() -> None:
    stream = COMPILED.emitter.stream
    Replay(COMPILED.emitter, stream).run()
    first = stream.by_unit[Unit.ARRAY][0]
    _refused("RUN 0 of the array unit for operator 0 (CONV_2D): input 0 at scratchpad word 1, byte 0, should be "
             "element [0, 0, 0, 0] of 't0', made by the caller; it is element [0, 0, 1, 0] of 't0', made by the "
             "caller, written by RUN 0 of the load unit for operator 0 (CONV_2D)", first,
             in_base=first.fields["in_base"] + 1)


def test_a_missing_token_is_refused() -> None:
    stream = COMPILED.emitter.stream
    first = stream.by_unit[Unit.ARRAY][0]
    waits = dict(first.wait)
    first.wait.clear()
    try:
        with pytest.raises(DataflowError) as refused:
            Replay(COMPILED.emitter, stream).run()
        assert str(refused.value) == (
            "RUN 0 of the array unit for operator 0 (CONV_2D): scratchpad word 0 is read, and no token orders this "
            "after RUN 0 of the load unit, which writes it")
    finally:
        first.wait.update(waits)


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert stream_mutants.main(["--count", "1", "--samples", "1", "--kinds", "add"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == list(CHANGES)
    assert np.all(["ACCEPTED" not in line for line in printed])
