"""Functions of one int16 in passes: a line between samples, then what it lacks, by pages of a table.

The vector unit's table has 512 words. A first pass interpolates between 512 samples, 128 codes apart. The differences
from the function are mostly -1, 0 and 1, so a word of the table holds those of several codes. A page is 512 such words.
Its fields have as many bits as its differences need: with 2 bits it covers 8,192 codes, with 16 bits 1,024. A pass does
not change elements outside its page, and a page whose differences are all 0 takes no pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.programs.words import (
    OUT,
    SHL,
    STREAM_A,
    STREAM_B,
    Uop,
    immediate,
    low,
    reg_a,
    reg_b,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Rounding

__all__ = ["Page", "in_page", "line", "line_program", "page_program", "pages", "wrapped"]

_FLOOR = Rounding.FLOOR
#: Bits of a code between two samples, and that index a word of the table.
_SAMPLE_BITS, _WORD_BITS = 7, 9
_CODES = 1 << 16
#: Bits of a page's fields: the narrowest, and those of a whole result.
_LEAST_BITS, _MOST_BITS = 1, 16


@dataclass(frozen=True, eq=False)
class Page:
    """Differences of consecutive codes.

    Members
    -------
    number : the first code, in units of the page's codes
    bits : bits of a difference: 1, 2, 4, 8 or 16
    words : 512 words, by the low 9 bits of a code; codes that are 512 apart follow each other from the upper end
    """

    number: int
    bits: int
    words: IntArray


def wrapped(values: IntArray, bits: int) -> IntArray:
    """Return the signed numbers of so many bits that differ from the values by multiples of 2^bits."""
    half = 1 << bits - 1
    found: IntArray = (values + half & (1 << bits) - 1) - half
    return found


def line(table: IntArray, bits: int) -> tuple[IntArray, IntArray]:
    """Return the entries of a table of samples, and for each code what `line_program` computes with it.

    `table` has results of `bits` bits for the codes -32768..32767; the entries are in the order of their indices.
    """
    samples = table[::1 << _SAMPLE_BITS]
    steps = wrapped(np.append(np.diff(samples), samples[-1] - samples[-2]), 16)
    fraction = np.arange(_CODES) % (1 << _SAMPLE_BITS)
    half = 1 << _SAMPLE_BITS - 1
    found = np.repeat(samples, 1 << _SAMPLE_BITS) + (
        fraction * np.repeat(steps, 1 << _SAMPLE_BITS) + half >> _SAMPLE_BITS)
    return np.roll(samples << 16 | steps & 0xFFFF, -(1 << _WORD_BITS - 1)), wrapped(found, bits)


def line_program() -> tuple[Uop, ...]:
    """Interpolate at stream A; the table has the entries of `line`."""
    entry: Uop = {**reg_a(1), "a_table": 3}
    return (
        to(0, STREAM_A, immediate((1 << _SAMPLE_BITS) - 1), alu=Alu.AND),
        to(1, STREAM_A, shifted(-_SAMPLE_BITS, _FLOOR)),
        to(2, entry, immediate(16), SHL, shifted(-16, _FLOOR)),
        to(3, entry, shifted(-16, _FLOOR)),
        to(0, reg_a(0), reg_b(2), low(), shifted(-_SAMPLE_BITS, Rounding.HALF_UP)),
        {**reg_a(3), **reg_b(0), "alu": Alu.ADD, **OUT})


def pages(differences: IntArray) -> list[Page]:
    """Return the fewest pages with all differences, int16 for the codes -32768..32767."""
    size = _page_codes(_LEAST_BITS)
    return [page for first in range(0, _CODES, size)
            for page in _pages(differences[first:first + size], first, _LEAST_BITS)]


def _page_codes(bits: int) -> int:
    return (1 << _WORD_BITS) * 32 // bits


def _pages(differences: IntArray, first: int, bits: int) -> Iterator[Page]:
    if not differences.any():
        return
    if bits < _MOST_BITS and not np.array_equal(wrapped(differences, bits), differences):
        half = len(differences) // 2
        yield from _pages(differences[:half], first, 2 * bits)
        yield from _pages(differences[half:], first + half, 2 * bits)
        return
    fields = (differences & (1 << bits) - 1).reshape(-1, 1 << _WORD_BITS)
    words = sum(field << 32 - bits * (place + 1) for place, field in enumerate(fields))
    signed = np.asarray(words).astype(np.uint32).view(np.int32).astype(np.int64)
    yield Page((first - _CODES // 2) // _page_codes(bits), bits, signed)


def page_program(page: Page, *, is_first: bool) -> tuple[Uop, ...]:
    """Add the page's difference for an element of stream A to stream B, or take it alone if it is the first pass.

    The shift of a field to a word's upper end is its place times its bits.
    """
    fields = 32 // page.bits
    place = fields.bit_length() - 1
    return (
        to(1, STREAM_A, immediate(fields - 1 << _WORD_BITS), alu=Alu.AND,
           **shifted(page.bits.bit_length() - 1 - _WORD_BITS, _FLOOR)),
        to(0, {**STREAM_A, "a_table": 3}, reg_b(1), SHL, shifted(page.bits - 32, _FLOOR)),
        *in_page(page.number, _WORD_BITS + place, is_first=is_first))


def in_page(number: int, code_bits: int, *, is_first: bool) -> tuple[Uop, ...]:
    """Add register 0 to stream B where a page of 2^`code_bits` codes has the element of stream A, and 0 elsewhere.

    If it is the first pass, there is no stream B.
    """
    product = {**reg_a(0), **reg_b(1), **low()}
    return (
        to(1, STREAM_A, shifted(-code_bits, _FLOOR)), to(1, reg_a(1), immediate(number), alu=Alu.EQUAL),
        *(({**product, **OUT},) if is_first else (to(0, product), {**reg_a(0), **STREAM_B, "alu": Alu.ADD, **OUT})))
