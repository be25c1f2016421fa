"""Check the frames of a bitstream against the features that the placer requested, by Project X-Ray's database.

An empty frames file also gives a bitstream of full size, so the size proves nothing. Each feature of the FASM file
must be in the database, and each of its bits must have the database's value in the frames.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tq_hw.model.errors import ToolError

__all__ = ["FasmAnswer", "check_frames"]

_LINE = re.compile(r"(?P<tile>[^.\s]+)\.(?P<name>[^\s\[={#]+)(?:\[(?P<high>\d+)(?::(?P<low>\d+))?\])?"
                   r"(?:\s*=\s*(?:\d+'(?P<base>[bohd]))?(?P<value>[0-9a-fA-F_]+))?")
_INDEX = re.compile(r"\[(\d+)\]$")
_BASES = {"b": 2, "o": 8, "h": 16, "d": 10, None: 10}
#: Files of a tile's bits, by kind of frame.
_SEGMENTS = {"CLB_IO_CLK": "segbits_{}.db", "BLOCK_RAM": "segbits_{}.block_ram.db"}
_WORD_BITS = 32

#: Frame relative to the tile's first, bit relative to its first, and the required value.
Bit = tuple[int, int, bool]


@dataclass(frozen=True)
class FasmAnswer:
    """How many features were checked, how many bits they have, and how many features could not be checked.

    Those lie in tiles for which the database refers to the bits of another tile.
    """

    features: int
    bits: int
    not_held: int


class _Database:
    """The required parts of Project X-Ray's database, read on demand."""

    def __init__(self, family: Path, part: str, die: str) -> None:
        self._family = family
        # Older databases have one grid per part.
        found = [path for path in (family / die / "tilegrid.json", family / part / "tilegrid.json") if path.is_file()]
        if not found:
            raise ToolError(f"{family} has neither {die}/tilegrid.json nor {part}/tilegrid.json to check the frames "
                            "against")
        self.grid: Any = json.loads(found[0].read_text(encoding="utf-8"))
        self.bits = cache(self._bits)
        self.free = cache(self._free)

    def _bits(self, kind: str, frames: str) -> dict[str, tuple[Bit, ...]]:
        path = self._family / _SEGMENTS[frames].format(kind.lower())
        table = {}
        for name, *bits in _rows(path):
            places = [(bit.startswith("!"), bit.lstrip("!").split("_")) for bit in bits if bit[-1].isdigit()]
            table[_plain(name)] = tuple((int(frame), int(place), not clear) for clear, (frame, place) in places)
        return table

    def _free(self, kind: str) -> frozenset[str]:
        """Return the connections of a kind of tile that need no bits."""
        return frozenset(_plain(name) for name, *_ in _rows(self._family / f"ppips_{kind.lower()}.db"))


def _rows(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
            ] if path.is_file() else []


def _plain(name: str) -> str:
    """Return a feature's name without the zeros before its index."""
    return _INDEX.sub(lambda found: f"[{int(found[1])}]", name)


def _value(line: re.Match[str]) -> int | None:
    """Return the value that a line assigns, None for digits outside its base."""
    try:
        return 1 if line["value"] is None else int(line["value"].replace("_", ""), _BASES[line["base"]])
    except ValueError:
        return None


def _features(fasm: str) -> Iterator[tuple[str, str]]:
    """Yield tile and feature of each requested bit."""
    for number, text in enumerate(fasm.splitlines(), 1):
        # Annotations are in braces, after a feature or on a line of their own.
        line = text.partition("#")[0].partition("{")[0].strip()
        if not line:
            continue
        found = _LINE.fullmatch(line)
        if found is None or (value := _value(found)) is None:
            raise ToolError(f"top.fasm, line {number}: not a feature: {line}")
        if found["high"] is None:
            yield from [(found["tile"], found["name"])] * (value & 1)
            continue
        low = int(found["low"] or found["high"])
        for place in range(int(found["high"]) - low + 1):
            if value >> place & 1:
                yield found["tile"], f"{found['name']}[{low + place}]"


def check_frames(folder: Path, family: Path, part: str, die: str) -> FasmAnswer:
    """Check top.frames of `folder` against its top.fasm; ToolError says what is missing."""
    frames = {int(address, 16): [int(word, 16) for word in words.split(",")]
              for address, words in _rows(folder / "top.frames")}
    database = _Database(family, part, die)
    held = bits = aliased = 0
    for tile, feature in _features((folder / "top.fasm").read_text(encoding="utf-8")):
        if tile not in database.grid:
            raise ToolError(f"top.fasm asks for {tile}.{feature}; the database has no tile {tile}")
        kind, places = database.grid[tile]["type"], database.grid[tile]["bits"]
        wanted = [(place, bit) for frames_of, place in places.items() if "alias" not in place
                  for bit in database.bits(kind, frames_of).get(f"{kind}.{feature}", ())]
        if not wanted and any("alias" in place for place in places.values()):
            aliased += 1
            continue
        known = wanted or f"{kind}.{feature}" in database.free(kind) or any(
            f"{kind}.{feature}" in database.bits(kind, frames_of) for frames_of in places)
        if not known:
            raise ToolError(f"top.fasm asks for {tile}.{feature}; the database has no such feature of {kind}")
        for place, (frame, bit, is_set) in wanted:
            address, at = int(place["baseaddr"], 16) + frame, place["offset"] * _WORD_BITS + bit
            words = frames.get(address, [])
            word = words[at // _WORD_BITS] if at // _WORD_BITS < len(words) else 0
            if bool(word >> at % _WORD_BITS & 1) != is_set:
                raise ToolError(f"the bitstream is not what was asked for: {tile}.{feature} needs bit {at} of frame "
                                f"0x{address:08x} to be {int(is_set)}; top.frames has {len(frames)} frames")
        held, bits = held + 1, bits + len(wanted)
    if not held:
        raise ToolError("top.fasm asks for no feature that the database has: the bitstream would configure nothing")
    return FasmAnswer(held, bits, aliased)
