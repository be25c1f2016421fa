"""Text tables. On a terminal they fit its width, and no number is ever cut; in a pipe a row is one line."""

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

__all__ = ["Column", "layout", "percent", "print_pairs", "print_table", "print_text",
           "shortened"]

_ELLIPSIS = ".."
_GAPS = (3, 2, 1)
#: Longer words, such as file names, may be broken where a column folds.
_LONGEST_WORD = 28
#: Width of the names in `print_pairs`, including the space after them.
_NAME_WIDTH = 13


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Members
    -------
    name : its header
    number : right-aligned, never cut
    least : characters to which a text may be shortened in its middle, or folded, if no word is longer
    gives_way : priority for being shortened and then left out, highest first; 0: never left out
    folds : text that does not fit continues in the next line, at spaces
    """

    name: str
    number: bool = False
    least: int = 6
    gives_way: int = 0
    folds: bool = False


def percent(share: float | None) -> str:
    """Return a fraction as a percentage with one decimal, "" for None or 0."""
    return f"{100 * share:.1f} %" if share else ""


def shortened(text: str, width: int) -> str:
    """Return a text of at most `width` characters, cut in its middle."""
    if len(text) <= width:
        return text
    if width <= len(_ELLIPSIS) + 1:
        return text[:width]
    tail = (width - len(_ELLIPSIS)) // 2
    return text[:width - len(_ELLIPSIS) - tail] + _ELLIPSIS + text[len(text) - tail:]


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[object]], total: Sequence[object] | None = None,
                wide: bool = False) -> None:
    """Print rows under a header; `total` is a last line. `wide` ignores the terminal's width."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() and not wide else None
    click.echo("\n".join(layout(columns, rows, total, width)))


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one pair per line. On a terminal a long value is wrapped at spaces, below itself."""
    for name, value in pairs:
        for number, line in enumerate(_broken(str(value), _NAME_WIDTH)):
            click.echo(f"{name if number == 0 else '':{_NAME_WIDTH - 1}} {line}")


def print_text(text: str) -> None:
    """Print a sentence, wrapped at spaces on a terminal."""
    for line in _broken(text, 0):
        click.echo(line)


def _broken(text: str, indent: int) -> list[str]:
    """Return the lines of a text that begins in column `indent`."""
    if not sys.stdout.isatty():
        return [text]
    width = max(shutil.get_terminal_size().columns - indent, _NAME_WIDTH)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def layout(columns: Sequence[Column], rows: Iterable[Sequence[object]], total: Sequence[object] | None = None,
           width: int | None = None) -> list[str]:
    """Return the lines of a table of at most `width` characters.

    Texts are shortened first, then left out. If the numbers are still too wide, a row takes several lines.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    last = [[_cell(value) for value in total]] if total is not None else []
    natural = [max([len(column.name), *(len(row[number]) for row in cells + last)])
               for number, column in enumerate(columns)]
    least = [max([column.least, *(_longest(row[number]) for row in cells + last if column.folds)])
             for number, column in enumerate(columns)]
    gap, widths = _fit(columns, natural, least, width)
    lines = _parts(widths, gap, width)
    for alone in (numbers[0] for numbers in lines[1:] if len(numbers) == 1 and columns[numbers[0]].folds):
        widths[alone] = min(natural[alone], (width or 0) - 2)
    rule = "-" * max(sum(widths[number] for number in numbers) + gap * (len(numbers) - 1)
                     + 2 * (numbers is not lines[0]) for numbers in lines)
    made = _row([column.name for column in columns], columns, widths, lines, gap) + [rule]
    for row in cells:
        made += _row(row, columns, widths, lines, gap)
    for row in last:
        made += [rule, *_row(row, columns, widths, lines, gap)]
    return made


def _longest(text: str) -> int:
    """Return the length of the longest word that must not be broken, such as a number. Paths may be broken."""
    return max((len(word) for word in text.split() if len(word) <= _LONGEST_WORD), default=0)


def _fit(columns: Sequence[Column], natural: Sequence[int], least: Sequence[int], width: int | None
         ) -> tuple[int, dict[int, int]]:
    """Return the gap between columns, and the widths of the columns shown, by column number."""
    widths = dict(enumerate(natural))
    if width is None:
        return _GAPS[0], widths
    order = sorted((n for n, column in enumerate(columns) if not column.number and (column.gives_way or column.folds)),
                   key=lambda n: (-columns[n].gives_way, -n))
    for gap in _GAPS:
        widths = dict(enumerate(natural))
        for number in order:
            over = sum(widths.values()) + gap * (len(widths) - 1) - width
            if over > 0:
                widths[number] = max(min(least[number], widths[number]), widths[number] - over)
        if sum(widths.values()) + gap * (len(widths) - 1) <= width:
            return gap, widths
    for number in order:
        if columns[number].gives_way and sum(widths.values()) + len(widths) - 1 > width:
            del widths[number]
    # The space of the last column that was left out is given to the others.
    for number in [n for n in order if n in widths]:
        room = width - sum(widths.values()) - (len(widths) - 1)
        widths[number] = min(natural[number], widths[number] + max(room, 0))
    return 1, widths


def _parts(widths: dict[int, int], gap: int, width: int | None) -> list[list[int]]:
    """Return the columns on each line of a row: one line, unless they are too wide."""
    lines: list[list[int]] = [[]]
    used = 0
    for number, size in widths.items():
        if width is not None and lines[-1] and used + gap + size > width:
            lines.append([])
            used = 2
        used += size + (gap if lines[-1] else 0)
        lines[-1].append(number)
    return lines


def _row(row: Sequence[str], columns: Sequence[Column], widths: dict[int, int], lines: Sequence[Sequence[int]],
         gap: int) -> list[str]:
    """Return a row's lines; a folded column adds further ones."""
    folded = {number: textwrap.wrap(row[number], widths[number], break_on_hyphens=False) or [""]
              for number in widths if columns[number].folds and len(row[number]) > widths[number]}
    made = []
    for position, numbers in enumerate(lines):
        for line in range(max([1, *(len(folded[number]) for number in numbers if number in folded)])):
            texts = []
            for number in numbers:
                text = (folded[number][line] if line < len(folded[number]) else "") if number in folded else (
                    shortened(row[number], widths[number]) if line == 0 else "")
                texts.append(text.rjust(widths[number]) if columns[number].number else text.ljust(widths[number]))
            made.append(("  " * (position > 0) + (" " * gap).join(texts)).rstrip())
    # A column without text for a further line needs none.
    return [line for number, line in enumerate(made) if line or number == 0]


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    # A tensor's name may contain line breaks and terminal escape codes.
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(value))
