"""The page of operators is the one that the tools give; the record is of all operators."""

import json
import sys
from pathlib import Path

import pytest

from tq_hw.cli.reference.operators import RECORD, page, rows
from tq_hw.compiler.lower.legalize import LOWERINGS, supported_operators
from tq_hw.compiler.rewrite.fold_constants import ALWAYS_CONSTANT
from tq_hw.compiler.rewrite.forms import FORMS
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.model.rules.decided import REPLACED
from tq_hw.model.rules.shape_values import EVALUATED
from tq_hw.model.rules.signatures import FLOAT_COMPUTED, FLOAT_MOVES, FLOAT_OPERATORS, SIGNATURES
from tq_hw.model.tflite.schema import OPERATORS
from tq_hw.model.tflite.weights import DENSE
from tq_hw.sim.golden.kernels import KERNELS

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))
from operators import main, measure, verified

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "operators.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m tq_hw.cli.reference.operators > docs/reference/operators.md")


def test_every_operator_has_a_row() -> None:
    """Those that are lowered, that a pattern or a rule replaces, that are folded, and that are computed in float32."""
    found = {row.op: row for row in rows()}
    assert list(found) == sorted(found)
    taken = {*LOWERINGS, *KERNELS, *(op for each in LIBRARY for op in each.ends_with), *EVALUATED, *REPLACED, *FORMS,
             *FLOAT_OPERATORS, *FLOAT_COMPUTED, *FLOAT_MOVES, *SIGNATURES, *ALWAYS_CONSTANT, DENSE}
    assert sorted((taken & {*OPERATORS}) - {*found}) == []
    assert sorted({*found} - {*OPERATORS}) == []


def test_operators_that_others_replace_say_where() -> None:
    found = {row.op: row for row in rows() if row.op not in supported_operators()}
    assert {"ATAN2", "CEIL", "CUMSUM", "DENSIFY", "FLOOR", "IF", "RANGE", "SIN", "SQUARE", "WHERE", "WHILE"} <= {*found}
    assert not any(row.types or row.units or row.limits or row.cycles_per_element for row in found.values())
    assert {op: found[op].rules for op in ("ATAN2", "FLOOR", "RANGE", "SQUARE", "WHILE")} == {
        "ATAN2": ["Only for float32 as a function of one int8 or int16 tensor, or of two int8 tensors."],
        "FLOOR": ["Only for float32 as a function of one int8 or int16 tensor, or of two int8 tensors, and for the "
                  "model's float32 input before a QUANTIZE to int8."],
        "RANGE": ["Only where its results follow from shapes and constants."],
        "SQUARE": ["Only for float32 between int8 or int16 tensors, and for the model's float32 input before a "
                   "QUANTIZE to int8."],
        "WHILE": ["Only where its conditions follow from shapes and constants, for up to 1,024 rounds."]}


def test_the_record_is_of_the_rtl_and_of_all_operators() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert record["engine"] == "rtl"
    assert sorted(record["cycles"]) == supported_operators()
    assert all(passed == count for run in record["verified"].values() for passed, count in run.values())


@pytest.mark.parametrize("op", supported_operators())
def test_typical_layers_equal_golden(op: str) -> None:
    assert measure(op, "n16", "executor")["elements"]


def test_verdicts_by_operator() -> None:
    cases = [("a", "passed"), ("b", "failed"), ("c", "passed"), ("net", "passed")]
    report = {"cases": [{"name": name, "status": status} for name, status in cases]}
    index = [{"name": "a", "op": "ADD"}, {"name": "b", "op": "ADD"}, {"name": "c", "op": "CHAIN_PAD_CONV"}]
    assert verified(report, index) == {"ADD": [1, 2], "CHAIN": [1, 1], "NETWORK": [1, 1]}


def test_record_without_cycles_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('{"cycles": {"ADD": {"cycles": 5, "elements": 1}}, "verified": {}}', encoding="utf-8")
    assert main(["--no-cycles", "--record", str(path)]) == 0
    assert json.loads(path.read_text(encoding="utf-8"))["cycles"]["ADD"]["cycles"] == 5
