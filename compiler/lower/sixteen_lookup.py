"""Any function of one int16, by a table of 65,536 entries in pages of 1,024 codes, with one pass a page.

The vector unit's table has 512 words. A word has the results of two codes that are 512 apart, one in each half. A pass
does not change elements outside its page. Pages that are all 0 need no pass. Results of int32 take a whole word, so
their pages have 512 codes.
"""

import numpy as np

from tq_hw.compiler.ir.staged import Flat, Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import TYPE_CODES, IntArray, Value, element_count
from tq_hw.compiler.lower.legalize import Legalizer, lowers, publish
from tq_hw.compiler.lower.spread import spread
from tq_hw.compiler.programs.words import OUT, STREAM_A, STREAM_B, Uop, immediate, low, reg_a, reg_b, shifted, to
from tq_hw.isa.uop import Alu, Rounding, ShiftSource
from tq_hw.model.graph import Operator

__all__ = ["look_up_wide"]

_INT16 = TYPE_CODES["int16"]
_FLOOR = Rounding.FLOOR
#: Bits of a code that index a word of the table, and bits within a page.
_WORD_BITS, _PAGE_BITS = 9, 10


def _page(number: int, is_word: bool) -> tuple[Uop, ...]:
    """Compute register 0: the page's result for an element of stream A, 0 for elements of other pages."""
    if is_word:
        return (to(0, {**STREAM_A, "a_table": 3}), to(1, STREAM_A, shifted(-_WORD_BITS, _FLOOR)),
                to(1, reg_a(1), immediate(number), alu=Alu.EQUAL))
    return (to(1, STREAM_A, immediate(1 << _WORD_BITS), shifted(4 - _WORD_BITS, _FLOOR), alu=Alu.AND),
            to(0, {**STREAM_A, "a_table": 3}, reg_b(1), shift_source=ShiftSource.SHIFT_B, rounding=_FLOOR),
            to(1, STREAM_A, shifted(-_PAGE_BITS, _FLOOR)), to(1, reg_a(1), immediate(number), alu=Alu.EQUAL))


def look_up_wide(state: Legalizer, op: Operator, source: Value, table: IntArray, dtype: str) -> None:
    """Write the output, bytes, int16 or int32, by a table indexed with unsigned codes."""
    is_word = dtype == "int32"
    if dtype == "uint8":
        # The vector unit does not write uint8; int8 has the same bytes.
        table, dtype = table.astype(np.uint8).view(np.int8).astype(np.int64), "int8"
    pages = table.astype(np.int64).reshape(-1, 1 if is_word else 2, 1 << _WORD_BITS)
    count = source.size_bytes // 2
    used = [number for number, page in enumerate(pages) if page.any()] or [0]
    made: Value | None = None
    for number in used:
        words = pages[number, 0] if is_word else (
            pages[number, 0] & 0xFFFF | pages[number, 1] << 16).astype(np.int32).astype(np.int64)
        signed = number if number < len(pages) // 2 else number - len(pages)
        last: tuple[Uop, ...] = ({**reg_a(0), **reg_b(1), **low(), **OUT},) if made is None else (
            to(0, reg_a(0), reg_b(1), low()), {**reg_a(0), **STREAM_B, "alu": Alu.ADD, **OUT})
        inputs = (source,) if made is None else (source, made)
        made = Value(f"{source.name} (page {number})", op.outputs[0],
                     (1, 1, 1, count * np.dtype(dtype).itemsize))
        uops = (*_page(signed, is_word), *last)
        state.layers.append(Flat(op.index, op.op, inputs, made, count, (_INT16, TYPE_CODES[dtype])[:len(inputs)],
                                 TYPE_CODES[dtype], uops, tables=(words[:256], words[256:])))
    assert made is not None
    publish(state, op, made)


@lowers("TABLE_OF_TWO")
def lower_table_of_two(state: Legalizer, op: Operator) -> None:
    """Two adjacent bytes form the int16 index."""
    output = state.subgraph.tensors[op.outputs[0]]
    base, target = blank(output.shape, "int8"), blank((*output.shape, 2), "int8")
    both = Value(f"{output.name} (both)", output.index, (1, 1, 1, 2 * element_count(output.shape)))
    state.layers.append(Move(op.index, op.op, (spread(state, op, 0), spread(state, op, 1)), both, tuple(
        copy_between(byte, base, base, target[..., byte, :], target) for byte in range(2))))
    look_up_wide(state, op, both, state.constant(op, 2), output.dtype)
