"""Help pages: no line is wider than the terminal, no number is cut, and every option is listed."""

import re

import click
import pytest

from tests.cli.conftest import Run
from tq_hw.cli.main import tq_hw as group

COMMANDS = group.list_commands(click.Context(group))


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_pages_fit_the_terminal(tq: Run, monkeypatch: pytest.MonkeyPatch, command: str, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    whole = tq(*command.split(), "--help").out
    monkeypatch.setenv("COLUMNS", str(columns))
    page = tq(*command.split(), "--help").out
    assert max(map(len, page.splitlines())) <= columns
    assert page.split() == whole.split()


def test_on_a_narrow_page_what_an_option_does_is_below_it(tq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert re.findall(r"^  --waves-from.*\n(?:      .*\n)*", tq("sim", "--help").out, re.M) == [
        "  --waves-from CYCLE\n      First cycle of the waves.\n      [default: 0, the start]\n"
        "      [0<=x<=281474976710656]\n"]
