"""What commands share before they run: help pages that fit any terminal, and values that are no options.

click's own pages are never narrower than 50 columns, and its options take the next option for their value.
"""

import shutil
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

import click

__all__ = ["Context"]

#: Below this width an option's text is under its name; next to it only a word or two would fit.
_NARROW = 60
#: Maximum and minimum width of a page. On a narrower terminal lines overflow, so that words stay whole.
_WIDEST, _NARROWEST = 100, 30
_INDENT = 4


def _lines(text: str, width: int) -> list[str]:
    """Wrap a text at spaces only, not at the hyphens in names of options."""
    return textwrap.wrap(text, width, break_on_hyphens=False)


class _Formatter(click.HelpFormatter):
    """A page as wide as the terminal; `max_width` is click's limit."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        if width is None:
            width = max(min(shutil.get_terminal_size().columns, max_width or _WIDEST) - 2, _NARROWEST)
        super().__init__(indent_increment, width, max_width)

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        margin = " " * self.current_indent
        self.write("\n".join("".join(f"{margin}{line}\n" for line in _lines(part, self.width - len(margin)))
                             for part in text.split("\n\n")))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and their meanings next to each other, or below each other on a narrow page."""
        rows, margin = list(rows), " " * self.current_indent
        narrow = self.width < _NARROW
        column = _INDENT if narrow else min(max((len(name) for name, _ in rows), default=0), col_max) + col_spacing
        for name, text in rows:
            names = _lines(name, self.width - len(margin))
            lines = _lines(text, self.width - len(margin) - column)
            if lines and not narrow and len(name) <= column - col_spacing:
                names = [f"{name:{column}}{lines.pop(0)}"]
            self.write("".join(f"{margin}{line}\n" for line in names))
            self.write("".join(f"{margin}{'':{column}}{line}\n" for line in lines))


class Context(click.Context):
    """A context whose help pages fit the terminal, and in which no option is the value of another one."""

    formatter_class = _Formatter

    def invoke(self, callback: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a command; UsageError if an option without its value has taken the next option for it."""
        options = [each for each in self.command.params if isinstance(each, click.Option)]
        names = {name for option in options for name in option.opts}
        for option in options:
            given = self.params.get(option.name or "")
            for value in given if isinstance(given, tuple) else (given,):
                if isinstance(value, str) and value in names:
                    raise click.UsageError(f"Option {option.opts[0]!r} requires an argument, found option {value!r}.",
                                           self)
        return super().invoke(callback, *args, **kwargs)
