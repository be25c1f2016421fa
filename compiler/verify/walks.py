"""The bytes that the slots of an operation should read or write, by the operation's meaning."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir.meaning import Scratch, Walk
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import NOTHING, Bytes, Index
from tq_hw.compiler.verify.pad import SIZE_BITS, code
from tq_hw.model.errors import DataflowError

__all__ = ["Loops", "constant_bytes", "expected", "lengths", "offsets", "slot_codes"]


#: Offsets of at most this many slots are cached.
_FEW = 2048


def _once() -> Index:
    return np.zeros(1, np.int64)


@dataclass(frozen=True, eq=False)
class Loops:
    """The loops of an operation: words of channels, slots, of which `cols` are a row, and counts of both repeats."""

    blocks: Index
    slots: Index
    cols: int
    repeat1: Index = field(default_factory=_once)
    repeat2: Index = field(default_factory=_once)


def _offsets(loops: Loops, first_byte: int, first: int, cols: int, row_step: int, col_step: int, block_step: int,
             repeat1: int, repeat2: int) -> Index:
    row, col = np.divmod(loops.slots + first, cols)
    at = first_byte + row * row_step + col * col_step + loops.blocks[:, None] * block_step
    found: Index = at + (loops.repeat1 * repeat1 + loops.repeat2 * repeat2)[:, None, None]
    return found


_few_offsets = lru_cache(maxsize=1024)(_offsets)


def offsets(walk: Walk, loops: Loops) -> Index:
    """Return the offsets [repeat, block, slot] in bytes from the start of the first run."""
    make = _few_offsets if len(loops.repeat1) * len(loops.blocks) * len(loops.slots) <= _FEW else _offsets
    return make(loops, walk.at, *_steps(walk, loops))


def _steps(walk: Walk, loops: Loops) -> tuple[int, int, int, int, int, int, int]:
    """Return the arguments of `_offsets` after the first byte."""
    return walk.first, walk.cols or loops.cols, walk.row, walk.col, walk.block, walk.repeat1, walk.repeat2


def lengths(walk: Walk, loops: Loops) -> Index:
    """Return the number of valid bytes of each slot, [repeat, block, slot]: to the end of its run."""
    return _lengths(walk, offsets(walk, loops))


def _lengths(walk: Walk, offsets: Index) -> Index:
    left = walk.run - offsets % walk.run
    return np.minimum(left, walk.span) if walk.span else left


def expected(machine: Machine, walk: Walk, loops: Loops, low: int, size: int, *,
             made: bool = False) -> Bytes:
    """Return the numbers of bytes `low`.. of each slot, [repeat, block, slot, `size`], NOTHING for any."""
    places = offsets(walk, loops)
    lanes = np.arange(low, low + size)
    left = _lengths(walk, places)
    if isinstance(walk.of, Scratch):
        first = machine.scratch(walk.of) + walk.start
        numbers: Bytes = (first + places[..., None] + lanes).astype(machine.numbers.dtype)
    else:
        assert isinstance(walk.of, Value)
        if not 0 <= walk.start + int(places.min()) <= walk.start + int(places.max()) < walk.of.size_bytes:
            raise DataflowError(f"its slots go beyond the ends of {walk.of.name!r}")
        found = machine.found(walk.of, made or walk.made)
        numbers = found.runs(walk.start + places, lanes)
    if int(left.min()) < low + size:
        numbers[lanes >= left[..., None]] = NOTHING
    return numbers


class _Codes(NamedTuple):
    """Codes of slots if the first byte of their run is number 0, and the range of these first bytes."""

    codes: Index
    low: int
    high: int


def _slot_codes(loops: Loops, at: int, run: int, span: int, walk: tuple[int, ...], size: int) -> _Codes:
    places = _offsets(loops, at, *walk)
    left = run - places % run
    sizes = np.minimum(np.minimum(left, span) if span else left, size)
    return _Codes((places << SIZE_BITS) + sizes, int(places.min()), int(places.max()))


_few_slot_codes, _many_slot_codes = lru_cache(maxsize=1024)(_slot_codes), lru_cache(maxsize=32)(_slot_codes)


def slot_codes(machine: Machine, walk: Walk, loops: Loops, size: int, *, made: bool = False) -> Index | None:
    """Return the codes [repeat, block, slot] of words with the first `size` bytes of each slot.

    None if the numbers are not consecutive.
    """
    few = len(loops.repeat1) * len(loops.blocks) * len(loops.slots) <= _FEW
    make = _few_slot_codes if few else _many_slot_codes
    codes, low, high = make(loops, walk.at, walk.run, walk.span, _steps(walk, loops), size)
    if isinstance(walk.of, Scratch):
        first = machine.scratch(walk.of) + walk.start
    else:
        assert isinstance(walk.of, Value)
        if not 0 <= walk.start + low <= walk.start + high < walk.of.size_bytes:
            raise DataflowError(f"its slots go beyond the ends of {walk.of.name!r}")
        begin = machine.found(walk.of, made or walk.made).begin
        if begin is None:
            return None
        first = begin + walk.start
    found: Index = codes + code(first, 0)
    return found


def constant_bytes(walk: Walk, loops: Loops, low: int, size: int) -> npt.NDArray[np.uint8]:
    """Return the bytes [repeat, block, slot, `size`] of constants from byte `low` of each slot on."""
    assert isinstance(walk.of, bytes)
    places = (walk.start + low + offsets(walk, loops))[..., None] + np.arange(size)
    return np.frombuffer(walk.of, np.uint8).take(places, mode="clip")
