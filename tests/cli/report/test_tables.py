"""Tables: every number is shown in full at any width."""

import re

import pytest

from tq_hw.cli.report.layers import print_layers, print_summary, short_name
from tq_hw.cli.report.tables import Column, layout, print_pairs, print_text, shortened

COLUMNS = (Column("#", number=True), Column("op", least=8, gives_way=1), Column("cycles", number=True),
           Column("MACs", number=True), Column("tensor", least=12, gives_way=2))
ROWS = [(0, "DEPTHWISE_CONV_2D", 123456789, 9876543210, "model/block_1/depthwise/Relu6"), (11, "ADD", 5, 0, "sum")]
TOTAL = ("", "total", 123456794, 9876543210, "")


@pytest.mark.parametrize("width", [12, 20, 40, 60, 80, 120, None])
def test_numbers_are_never_cut(width: int | None) -> None:
    lines = layout(COLUMNS, ROWS, TOTAL, width)
    text = " ".join(lines)
    assert all(number in text for number in ("123,456,789", "9,876,543,210", "123,456,794"))
    if width is not None and width >= 20:
        assert max(map(len, lines)) <= width


def test_texts_give_way_in_order() -> None:
    assert layout(COLUMNS, ROWS, TOTAL) == [
        " #   op                       cycles            MACs   tensor",
        "-" * 84,
        " 0   DEPTHWISE_CONV_2D   123,456,789   9,876,543,210   model/block_1/depthwise/Relu6",
        "11   ADD                           5               0   sum",
        "-" * 84,
        "     total               123,456,794   9,876,543,210"]
    assert layout(COLUMNS, ROWS, TOTAL, 72)[2] == (
        " 0   DEPTHWISE_CONV_2D   123,456,789   9,876,543,210   model/bl..e/Relu6")
    assert layout(COLUMNS, ROWS, TOTAL, 50)[2] == " 0 DEP.._2D 123,456,789 9,876,543,210 model..Relu6"
    assert layout(COLUMNS, ROWS, TOTAL, 38)[2] == " 0 DEPT.._2D 123,456,789 9,876,543,210"
    assert layout(COLUMNS, ROWS, TOTAL, 36)[2] == " 0 123,456,789 9,876,543,210"


def test_a_row_of_wide_numbers_takes_several_lines() -> None:
    assert layout(COLUMNS, ROWS, TOTAL, 20)[:6] == [
        " #      cycles", "           MACs", "---------------", " 0 123,456,789", "  9,876,543,210", "11           5"]


def test_rules_are_folded_at_spaces() -> None:
    columns = (Column("name"), Column("rules", least=10, folds=True))
    assert layout(columns, [("ADD", "Keep one type for all."), ("ABS", "")], None, 20) == [
        "name   rules", "-" * 20, "ADD    Keep one type", "       for all.", "ABS"]


@pytest.mark.parametrize("width", [24, 28, 40, 60, 80])
def test_words_are_folded_whole(width: int) -> None:
    columns = (Column("what"), Column("state", least=8, folds=True), Column("if missing", least=8, folds=True))
    rows = [("tflite-micro", "0.dev20261023182759", ""), ("array", "array (depthwise), vector", "make the demo")]
    words = "\n".join(layout(columns, rows, None, width)).split()
    assert {"0.dev20261023182759", "tflite-micro", "(depthwise),", "vector"} <= set(words)
    assert max(map(len, layout(columns, rows, None, width))) <= width


def test_the_middle_gives_way() -> None:
    assert [shortened("abcdefgh", width) for width in (8, 7, 5, 4, 3)] == [
        "abcdefgh", "abc..gh", "ab..h", "a..h", "abc"]


def test_names_say_what_dump_needs(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"index": 0, "op": "ADD", "unit": "vector", "cycles": 1, "macs": 0, "utilization": None, "bytes": 2,
           "bound": "", "name": "a/Relu;a/Bias;a/Conv", "tensor": 22}
    assert short_name(row) == "22: a/Relu;.."
    assert short_name(row | {"tensor": None, "name": "x"}) == "x"
    report = {"layers": [row], "cycles": 1, "macs": 0, "utilization": None, "bytes": 2}
    print_layers(report)
    print_layers(report, wide=True)
    narrow, wide = re.findall(r"^ *0 .*$", capsys.readouterr().out, re.M)
    assert narrow.endswith("22: a/Relu;..") and wide.endswith("22: a/Relu;a/Bias;a/Conv")


def test_a_further_line_without_contents_is_left_out() -> None:
    columns = (Column("what"), Column("state", least=8, folds=True), Column("if missing", least=8, folds=True))
    assert layout(columns, [("perl", "5", ""), ("vivado", "missing", "install it")], None, 18)[-3:] == [
        "perl   5", "vivado missing", "  install it"]


@pytest.mark.parametrize(("width", "expected"), [
    (40, ["bound by     the vector unit, while the", "             array waits", "config       tiny"]),
    (None, ["bound by     the vector unit, while the array waits", "config       tiny"])])
def test_a_long_value_goes_on_below_itself(width: int | None, expected: list[str], monkeypatch: pytest.MonkeyPatch,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: width is not None)
    monkeypatch.setenv("COLUMNS", str(width or 40))
    print_pairs([("bound by", "the vector unit, while the array waits"), ("config", "tiny")])
    assert capsys.readouterr().out.splitlines() == expected


def test_a_sentence_is_broken_at_spaces(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "24")
    print_text("clock 94.9 to 100.9 MHz in 2 routes")
    assert capsys.readouterr().out == "clock 94.9 to 100.9 MHz\nin 2 routes\n"


def test_a_summary_names_what_was_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    report = {"model": "m", "config": "tiny", "profile": "canon", "engine": "rtl", "cycles": None, "array": "rtl",
              "lanes": "model"}
    print_summary(report)
    print_summary(report | {"array": "model"})
    print_summary(report | {"lanes": "rtl"})
    lines = [line for line in capsys.readouterr().out.splitlines() if "C++" in line]
    assert lines == ["models       lanes, in C++, tested against the RTL; the rest is RTL",
                     "models       array and lanes, in C++, tested against the RTL; the rest is RTL"]
