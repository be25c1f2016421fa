"""Recorded syntheses by unit: record.json, which benches/area.py writes and extends."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from tq_hw.isa.config import Config

__all__ = ["KINDS", "BoardRecord", "Machine", "boards", "families", "machines"]

#: Kinds of cells, by the names of `tq-hw build`.
KINDS = ("luts", "carries", "flip_flops", "small_rams", "multipliers", "block_rams")

Cells = Mapping[str, float]


@dataclass(frozen=True)
class Machine:
    """A synthesized configuration: cells by unit; `held`: kept out of the fit."""

    config: Config
    units: Mapping[str, Cells]
    held: bool = False


@dataclass(frozen=True)
class BoardRecord:
    """A synthesized whole board, with the memory of that name."""

    board: str
    memory: str
    config: Config
    cells: Cells


@cache
def _record() -> Mapping[str, Any]:
    text = files("tq_hw.boards.resources").joinpath("record.json").read_text(encoding="utf-8")
    record: Mapping[str, Any] = json.loads(text)
    return record


def families() -> tuple[str, ...]:
    """Return the families with records."""
    return tuple(name for name in _record() if name != "boards")


@cache
def machines(family: str) -> tuple[Machine, ...]:
    """Return the synthesized machines of a family."""
    values = _record()[family]
    return tuple(Machine(Config.from_mapping(row["config"], f"record {number}"),
                         {unit: values["cells"][source] for unit, source in row["units"].items()},
                         row.get("held", False))
                 for number, row in enumerate(values["machines"]))


@cache
def boards() -> tuple[BoardRecord, ...]:
    """Return the boards that were synthesized as a whole."""
    return tuple(BoardRecord(row["board"], row["memory"], Config.from_mapping(row["config"], row["board"]),
                             row["cells"]) for row in _record()["boards"])
