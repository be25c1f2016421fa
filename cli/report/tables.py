"""Tables for people. On a terminal they fit its width; in a pipe they are never folded."""

import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

__all__ = ["percent", "print_table"]

_PIPE_COLUMNS = 200


def percent(share: float | None) -> str:
    """Return a share of 1 in percent with one decimal, and nothing for None or 0."""
    return f"{100 * share:.1f} %" if share else ""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]],
                total: Sequence[object] | None = None) -> None:
    """Print rows under a header; a name that starts with '>' is a right-aligned column; `total` is a last line."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in columns:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left",
                         overflow="fold" if name == columns[-1] else "ellipsis", no_wrap=name != columns[-1])
    for row in rows:
        table.add_row(*map(_cell, row))
    if total is not None:
        table.add_section()
        table.add_row(*map(_cell, total))
    console = Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS, markup=False, highlight=False, emoji=False)
    console.print(table)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    # A tensor's name may hold line ends and the terminal's own codes.
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(value))
