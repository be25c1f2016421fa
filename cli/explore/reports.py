"""Report pages of machines, as files next to the page of an exploration, which links to them."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from tq_hw.cli.explore.front import Aim, Point
from tq_hw.cli.shared.files import write
from tq_hw.isa.config import Config
from tq_hw.model.errors import OptionError

__all__ = ["Links", "check_reports", "write_reports"]

#: Path of a machine's report of a model, relative to the page, by configuration and model name.
Links = Mapping[tuple[Config, str], str]


def _slug(number: int, name: str) -> str:
    """Return a file name that is unique by its number and portable in its letters."""
    return f"{number}-{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)[:80]}"


def _folder(page: str) -> Path:
    return Path(page).parent / f"{Path(page).with_suffix('').name}_reports"


def check_reports(page: str) -> None:
    """Raise OptionError if something else than a folder is where the reports go."""
    folder = _folder(page)
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"--reports: {folder} is not a folder; rename it, or give --html another name")


def write_reports(page: str, points: Sequence[Point], aims: Sequence[Aim], report: Callable[[Aim, Point], bytes]
                  ) -> Links:
    """Write a page of each model on each machine into the folder PAGE_reports; return the page's links to them.

    `report` makes the page of a model on a machine.
    """
    folder = _folder(page)
    links: dict[tuple[Config, str], str] = {}
    for number, point in enumerate(points, 1):
        inner = folder / _slug(number, point.config.name)
        try:
            inner.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"--reports {inner}: cannot be made: {error.strerror}") from error
        for place, aim in enumerate(aims, 1):
            name = _slug(place, aim.name) + ".html"
            write(str(inner / name), report(aim, point))
            links[point.config, aim.name] = quote(f"{folder.name}/{inner.name}/{name}")
    return links
