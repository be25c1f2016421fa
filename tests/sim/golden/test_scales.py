"""Every operator at scales of 1e-30 to 1e30: golden model and executor equal the engine of the profile."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tq_hw.model.graph import PROFILES
from tq_hw.model.samples.scales import SCALE_KINDS, SCALE_OPERATORS
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.segments import NOTHING
from tq_hw.sim.oracles import ENGINES, available

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))
from scales import Outcome, Sweep, main

#: Operators whose results do not depend on scales in any profile: moves of whole elements, and types without scales.
MOVES = {"BATCH_TO_SPACE_ND", "BITWISE_XOR", "BROADCAST_TO", "CAST", "DEPTH_TO_SPACE", "DILATE",
         "DYNAMIC_UPDATE_SLICE", "EMBEDDING_LOOKUP", "EXPAND_DIMS", "FILL", "GATHER_ND", "LOGICAL_AND",
         "LOGICAL_NOT", "LOGICAL_OR", "MATRIX_DIAG", "MATRIX_SET_DIAG", "MIRROR_PAD", "ONE_HOT", "PADV2",
         "REDUCE_ALL", "REDUCE_ANY", "RESHAPE", "REVERSE_SEQUENCE", "REVERSE_V2", "RIGHT_SHIFT", "SCATTER_ND",
         "SELECT", "SELECT_V2", "SHAPE", "SLICE", "SPACE_TO_DEPTH", "SPARSE_TO_DENSE", "SPLIT", "SPLIT_V",
         "SQUEEZE", "STRIDED_SLICE", "TILE", "TOPK_V2", "UNPACK"}


@pytest.fixture(scope="module")
def sweep() -> Iterator[Sweep]:
    for engine in ("litert-ref", "tflm"):
        if not available(engine):
            pytest.skip(f'{ENGINES[engine][0]} is not installed: pip install "tq-hw[oracles]"')
    with Sweep() as opened:
        yield opened


def test_no_operator_is_left_out() -> None:
    # ATAN2, CUMSUM, ADD_N, BUCKETIZE, segments and copies of states have no scales; patterns make the others of several
    # operators.
    found = {op.partition(":")[0] for op in SCALE_OPERATORS} | MOVES
    assert found | {"TABLE", "TABLE_OF_TWO", "PAIR", "SCALE", "FLOAT_SUM", "FLOAT_REDUCE", "FLOAT_CODES",
                    "FLOAT_RESIZE", "PACKED_ADD", "PACKED_SUB", "PACKED_MUL", "PACKED_DIV", "PACKED_SUM",
                    "PACKED_PROD", "PACKED_SQRT", "PACKED_RSQRT", "PACKED_MAX", "PACKED_MIN", "PACKED_KEY",
                    "PACKED_OF_KEY", "PACKED_EXP", "PACKED_LOG", "PACKED_CODES", "PACKED_FLOAT", "PACKED_INTEGER",
                    "PACKED_ROUND", "PACKED_SIGN", "PACKED_POW", "CHANNEL_SCALE",
                    "FLOAT_ORDER", "STEPS",
                    "ATAN2", "CUMSUM", "ADD_N", "BUCKETIZE", "STATE_COPY", *NOTHING} == set(KERNELS)


@pytest.mark.parametrize("op", SCALE_OPERATORS)
def test_one_of_each(sweep: Sweep, op: str) -> None:
    number = list(SCALE_OPERATORS).index(op)
    profiles = ("tflm", "litert") if number % 2 else ("litert", "tflm")
    for kind, profile in zip(SCALE_KINDS, profiles, strict=True):
        found = sweep.check(op, kind, number, profile, compiled=kind == "wide")
        assert not found.is_wrong, found.message


def test_most_are_equal(sweep: Sweep) -> None:
    """Most models of the sweep have results, instead of being rejected."""
    for profile in ("tflm", "litert"):
        found = [sweep.check(op, kind, number, profile, compiled=False).verdict
                 for number, op in enumerate([*SCALE_OPERATORS][::5]) for kind in SCALE_KINDS]
        assert found.count("equal") > 2 * (len(found) - found.count("equal")), found


@pytest.mark.parametrize("verdict", ["equal", "refused", "undefined", "limit", "more"])
def test_verdicts_that_are_right(verdict: str) -> None:
    assert not Outcome(verdict).is_wrong


def test_a_difference_is_found(sweep: Sweep, capsys: pytest.CaptureFixture[str],
                               monkeypatch: pytest.MonkeyPatch) -> None:
    """TFLite Micro's RELU6 compared with LiteRT's, and a model that LiteRT rejects."""
    monkeypatch.setitem(sys.modules["scales"]._ENGINES, "tflm", "litert-ref")
    assert main(["--operators", "RELU6", "--profiles", "tflm", "--kinds", "ties", "--models", "1", "--golden"]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("tflm RELU6 ties 0: differs: golden, inputs 0 (random): ")
    assert "\n1 models: 1 wrong, " in printed


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_many(profile: str) -> None:
    assert main(["--profiles", profile, "--seed", "100", "--models", "15"]) == 0
