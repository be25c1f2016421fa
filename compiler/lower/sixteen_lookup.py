"""Any function of one int16, by tables of the vector unit, in passes over all elements."""

import numpy as np

from tq_hw.compiler.ir.staged import Flat, Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import TYPE_CODES, IntArray, Value, element_count
from tq_hw.compiler.lower.legalize import Legalizer, lowers, publish
from tq_hw.compiler.lower.spread import spread
from tq_hw.compiler.programs.pages import in_page, line, line_program, page_program, pages, wrapped
from tq_hw.compiler.programs.words import STREAM_A, Uop, to
from tq_hw.model.graph import Operator

__all__ = ["look_up_wide"]

_INT16 = TYPE_CODES["int16"]
#: Bits of a code that index a word of the table.
_WORD_BITS = 9
#: A pass: its program and the table's 512 words.
_Pass = tuple[tuple[Uop, ...], IntArray]


def look_up_wide(state: Legalizer, op: Operator, source: Value, table: IntArray, dtype: str) -> None:
    """Write the output, bytes, int16 or int32, by a table indexed with unsigned codes."""
    if dtype == "uint8":
        # The vector unit does not write uint8; int8 has the same bytes.
        table, dtype = table.astype(np.uint8).view(np.int8).astype(np.int64), "int8"
    count = source.size_bytes // 2
    signed = np.roll(table.astype(np.int64), len(table) // 2)
    made: Value | None = None
    for number, (uops, words) in enumerate(_of_words(signed) if dtype == "int32" else _of_codes(signed, dtype)):
        inputs = (source,) if made is None else (source, made)
        made = Value(f"{source.name} (pass {number})", op.outputs[0], (1, 1, 1, count * np.dtype(dtype).itemsize))
        state.layers.append(Flat(op.index, op.op, inputs, made, count, (_INT16, TYPE_CODES[dtype])[:len(inputs)],
                                 TYPE_CODES[dtype], uops, tables=(words[:256], words[256:])))
    assert made is not None
    publish(state, op, made)


def _of_codes(table: IntArray, dtype: str) -> list[_Pass]:
    """Return the passes for results of int8 or int16, with a line between samples if that saves pages."""
    whole, bits = pages(table), 8 * np.dtype(dtype).itemsize
    entries, values = line(table, bits)
    lacking = pages(wrapped(table - values, bits))
    begin: list[_Pass] = [] if len(whole) <= 1 + len(lacking) else [(line_program(), entries)]
    found = whole if not begin else lacking
    return [*begin, *((page_program(page, is_first=not begin and number == 0), page.words)
                      for number, page in enumerate(found))] or [(line_program(), entries)]


def _of_words(table: IntArray) -> list[_Pass]:
    """Return the passes for results of int32, which take a whole word each."""
    by_page = table.reshape(-1, 1 << _WORD_BITS)
    used = [number for number, page in enumerate(by_page) if page.any()] or [0]
    return [((to(0, {**STREAM_A, "a_table": 3}),
              *in_page(number - len(by_page) // 2, _WORD_BITS, is_first=number == used[0])), by_page[number])
            for number in used]


@lowers("TABLE_OF_TWO")
def lower_table_of_two(state: Legalizer, op: Operator) -> None:
    """Two adjacent bytes form the int16 index."""
    output = state.subgraph.tensors[op.outputs[0]]
    base, target = blank(output.shape, "int8"), blank((*output.shape, 2), "int8")
    both = Value(f"{output.name} (both)", output.index, (1, 1, 1, 2 * element_count(output.shape)))
    state.layers.append(Move(op.index, op.op, (spread(state, op, 0), spread(state, op, 1)), both, tuple(
        copy_between(byte, base, base, target[..., byte, :], target) for byte in range(2))))
    look_up_wide(state, op, both, state.constant(op, 2), output.dtype)
