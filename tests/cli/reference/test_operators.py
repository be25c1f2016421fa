"""The page of operators is the one that the tools give; the record is of all operators."""

import json
import sys
from pathlib import Path

import pytest

from tq_hw.cli.reference.operators import RECORD, page, rows
from tq_hw.compiler.lower.legalize import supported_operators

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))
from operators import main, measure, verified

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "operators.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m tq_hw.cli.reference.operators > docs/reference/operators.md")


def test_every_operator_has_a_row() -> None:
    assert [row.op for row in rows()] == supported_operators()


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
