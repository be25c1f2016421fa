"""The page of boards is the one that catalog and records give."""

import json
import sys
from pathlib import Path

from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.cli.reference.boards import EMULATED, ESTIMATE, NETWORKS, RECORD, page, timed

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))
from board_networks import kept

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "boards.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m tq_hw.cli.reference.boards > docs/reference/boards.md")


def test_the_record_is_of_the_boards_as_they_are() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert {name: values["of"] for name, values in record.items()} == {
        board.name: timed(board) for board in BOARDS.values()}, (
            "run: python benches/board_networks.py")
    assert all(list(values["networks"]) == list(NETWORKS) for values in record.values())


def test_a_run_is_not_replaced_by_an_estimate() -> None:
    ran, guess = {"cycles": 7, "by": EMULATED}, {"cycles": 8, "by": ESTIMATE}
    before = {"of": {"bytes_per_cycle": 1}, "networks": {"KWS": ran, "AD": guess}}
    same, other = {"bytes_per_cycle": 1}, {"bytes_per_cycle": 2}
    assert kept(before, same, {"KWS": guess, "AD": ran}) == {"of": same, "networks": {"KWS": ran, "AD": ran}}
    assert kept(before, other, {"KWS": guess}) == {"of": other, "networks": {"KWS": guess}}
