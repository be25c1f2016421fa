"""RESIZE_BILINEAR of float32 functions of bytes: float32 additions in words, one pair of fractions at a time.

Output pixels with the same row fraction and the same column fraction have the same four weights. Their input pixels are
gathered, multiplied by tables and added; the sums are scattered to the output.

If there are many pairs of fractions, tables multiply by the row weights first, and words by the column weights then.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tq_hw.compiler.ir.staged import Copy, Flat, Move
from tq_hw.compiler.ir.strided import ByteView, blank, copy_between
from tq_hw.compiler.ir.taps import Group, groups
from tq_hw.compiler.ir.value import ELEMENT_BYTES, TYPE_CODES, IntArray, Value
from tq_hw.compiler.lower.legalize import Legalizer, lowers
from tq_hw.compiler.lower.moves import add_move, input_blank, output_blank
from tq_hw.compiler.programs.soft_float import codes_program, product_program, sum_program
from tq_hw.compiler.programs.words import OUT, STREAM_A, Uop, immediate, reg_a, to
from tq_hw.isa.uop import Alu
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.registry import bool_option, int_option
from tq_hw.sim.golden.resize import FloatTaps, float_taps
from tq_hw.sim.golden.soft_float import FRACTION_BITS, pack

__all__: list[str] = []

#: Cycles at sixteen lanes: of an element by pairs of groups or by axes, of a pair, of a group of rows or of columns.
_PAIR_ELEMENT, _AXIS_ELEMENT, _PAIR, _ROWS, _COLUMNS = 14, 30, 4000, 1200, 4800
_INT8, _INT32 = TYPE_CODES["int8"], TYPE_CODES["int32"]


def _groups(taps: FloatTaps) -> list[tuple[Group, np.float32]]:
    """Return groups of outputs, each with its fraction."""
    bits = np.ascontiguousarray(taps.fraction).view(np.int32)
    found = groups(tuple(zip(taps.low.tolist(), taps.high.tolist(), bits.tolist(), strict=True)))
    return [(group, taps.fraction[group.first]) for group in found]


def _places(group: Group) -> slice:
    return slice(group.first, group.first + group.step * (group.count - 1) + 1, group.step)


def _seen(base: ByteView, axis: int, first: int, step: int, count: int) -> ByteView:
    """Return `count` rows or columns of a tensor; with step 0 the same one repeatedly."""
    view = base[(*[slice(None)] * axis, slice(first, first + step * (count - 1) + 1, step or None))]
    return view if step else np.broadcast_to(view, (*base.shape[:axis], count, *base.shape[axis + 1:]))


@dataclass
class _Interpolation:
    """The lowering of one operator."""

    state: Legalizer
    op: Operator
    source: Value = field(init=False)

    def __post_init__(self) -> None:
        self.source = self.state.input(self.op, 0)
        self.base, self.target = input_blank(self.state, self.op, 0), output_blank(self.state, self.op)
        self.values = self.state.constant(self.op, 1).astype(np.float32)
        self.is_words = self.state.subgraph.tensors[self.op.outputs[0]].dtype == "int32"

    def part(self, row: tuple[Group, np.float32], col: tuple[Group, np.float32]) -> Value:
        """Add the layers of the output pixels of two groups; return their words or codes."""
        (r, upper), (c, right), one = row, col, np.float32(1)
        taps = [((r.low, r.low_step), one - upper, (c.low, c.low_step), one - right),
                ((r.high, r.high_step), upper, (c.low, c.low_step), one - right),
                ((r.low, r.low_step), one - upper, (c.high, c.high_step), right),
                ((r.high, r.high_step), upper, (c.high, c.high_step), right)]
        terms = [(rows, cols, self.values * weight * other) for rows, weight, cols, other in taps]
        # A product that is always 0 does not change a sum.
        kept = [term for term in terms if term[2].any()] or terms[:1]
        moved: dict[object, Value] = {}
        pixels = []
        for rows, cols, _ in kept:
            if (rows, cols) not in moved:
                moved[rows, cols] = self._moved(rows, cols, r.count, c.count)
            pixels.append(moved[rows, cols])
        return self._added(pixels, [pack(values, int_option(self.op, "exponent")) for *_, values in kept])

    def _moved(self, rows: tuple[int, int], cols: tuple[int, int], height: int, width: int) -> Value:
        view = _seen(_seen(self.base, 1, *rows, height), 2, *cols, width)
        made = Value(f"{self.source.name} (pixels)", self.source.tensor, (1, 1, 1, view.size))
        target = blank((view.size,), "int8").reshape(view.shape)
        self.state.layers.append(Move(self.op.index, self.op.op, (self.source,), made,
                                      (copy_between(0, view, self.base, target, target),)))
        return made

    def _flat(self, inputs: Sequence[Value], types: tuple[int, ...], out_type: int, uops: Sequence[Uop],
              tables: Sequence[IntArray | None]) -> Value:
        """Add a layer over all elements of the first input."""
        count = inputs[0].size_bytes // ELEMENT_BYTES[types[0]]
        tensor = self.state.subgraph.tensors[self.op.outputs[0]]
        output = Value(f"{self.source.name} (sums)", tensor.index, (1, 1, 1, count * ELEMENT_BYTES[out_type]),
                       0 if out_type == _INT32 else tensor.zero_point)
        self.state.layers.append(Flat(self.op.index, self.op.op, tuple(inputs), output, count, types, out_type,
                                      tuple(uops), tables=(tables[0], tables[1])))
        return output

    def _added(self, pixels: Sequence[Value], tables: Sequence[IntArray]) -> Value:
        """Add layers that sum the products of pixels, in order."""
        relu = bool_option(self.op, "relu")
        if len(pixels) == 1:
            looked: Uop = {**STREAM_A, "a_table": 1}
            uops = [to(0, looked), {**reg_a(0), **immediate(0), "alu": Alu.MAX, **OUT}] if relu else [{**looked, **OUT}]
            words = self._flat(pixels, (_INT8,), _INT32, uops, (tables[0], None))
        else:
            first = sum_program(1, 2, relu=relu and len(pixels) == 2)
            words = self._flat(pixels[:2], (_INT8, _INT8), _INT32, first, tables[:2])
        for at in range(2, len(pixels)):
            uops = sum_program(1, 0, relu=relu and at == len(pixels) - 1)
            words = self._flat((pixels[at], words), (_INT8, _INT32), _INT32, uops, (tables[at], None))
        return words if self.is_words else self._codes(words)

    def _codes(self, words: Value) -> Value:
        op, zero_point = self.op, self.state.subgraph.tensors[self.op.outputs[0]].zero_point
        uops = codes_program(int_option(op, "left"), int_option(op, "multiplier"), int_option(op, "shift"),
                             zero_point)
        tables = [self.state.constant(op, position).astype(np.int64) for position in (2, 3)]
        return self._flat((words,), (_INT32,), _INT8, uops, tables)


class _ByAxis(_Interpolation):
    """Rows times their weights first, as words of all columns; then columns, as products and sums of words."""

    def line(self, rows: Sequence[tuple[Group, np.float32]], is_high: bool) -> Value | None:
        """Return the upper or lower pixels of all output rows times their weights, None if these are 0."""
        if is_high and not any(fraction for _, fraction in rows):
            return None
        whole = self._line_blank()
        parts, copies = [], []
        for group, fraction in rows:
            first, weight = ((group.high, group.high_step), fraction) if is_high else (
                (group.low, group.low_step), np.float32(1) - fraction)
            pixels = self._moved(first, (0, 1), group.count, self.base.shape[2])
            table = pack(self.values * weight, int_option(self.op, "exponent"))
            parts.append(self._flat((pixels,), (_INT8,), _INT32, [{**STREAM_A, "a_table": 1, **OUT}], (table, None)))
            place = whole[:, _places(group)]
            source = blank((parts[-1].size_bytes // 4,), "int32")
            copies.append(copy_between(len(parts) - 1, source.reshape(place.shape), source, place, whole))
        return self._joined(parts, copies, whole.size)

    def column(self, lines: Sequence[Value | None], group: Group, fraction: np.float32) -> Value:
        """Add the layers of the columns of a group; return their words or codes."""
        low, high = (group.low, group.low_step), (group.high, group.high_step)
        moved: dict[object, Value] = {}
        total: Value | None = None
        for at, (first, step), weight in ((0, low, np.float32(1) - fraction), (1, low, np.float32(1) - fraction),
                                          (0, high, fraction), (1, high, fraction)):
            line = lines[at]
            if line is None or not weight:
                continue
            if (at, first, step) not in moved:
                whole = self._line_blank()
                view = _seen(whole, 2, first, step, group.count)
                target = blank((view.size // 4,), "int32").reshape(view.shape)
                copy = copy_between(0, view, whole, target, target)
                moved[at, first, step] = self._joined([line], [copy], view.size)
            words = self._product(moved[at, first, step], weight)
            total = words if total is None else self._flat(
                (total, words), (_INT32, _INT32), _INT32, sum_program(0, 0, relu=False), (None, None))
        assert total is not None
        if bool_option(self.op, "relu"):
            uops: list[Uop] = [to(0, STREAM_A), {**reg_a(0), **immediate(0), "alu": Alu.MAX, **OUT}]
            total = self._flat((total,), (_INT32,), _INT32, uops, (None, None))
        return total if self.is_words else self._codes(total)

    def _line_blank(self) -> ByteView:
        n, _, w, c = self.base.shape[:4]
        return blank((n, self.target.shape[1], w, c), "int32")

    def _joined(self, parts: Sequence[Value], copies: Sequence[Copy], size_bytes: int) -> Value:
        made = Value(f"{self.source.name} (words)", self.op.outputs[0], (1, 1, 1, size_bytes))
        self.state.layers.append(Move(self.op.index, self.op.op, tuple(parts), made, tuple(copies)))
        return made

    def _product(self, words: Value, weight: np.float32) -> Value:
        if weight == 1:
            return words
        fraction, power = np.frexp(weight)
        uops = product_program(int(np.ldexp(fraction, FRACTION_BITS)), int(power) - FRACTION_BITS)
        return self._flat((words,), (_INT32,), _INT32, uops, (None, None))


@lowers("FLOAT_RESIZE")
def lower_float_resize(state: Legalizer, op: Operator) -> None:
    """Each pair of groups separately if there are few, else rows and then columns; a copy collects the results."""
    flags = bool_option(op, "align_corners"), bool_option(op, "half_pixel_centers")
    before, after = state.tensor(op, 0).shape, state.subgraph.tensors[op.outputs[0]].shape
    rows, cols = (_groups(float_taps(before[axis], after[axis], *flags)) for axis in (1, 2))
    target = output_blank(state, op)
    by_pairs = _PAIR_ELEMENT * math.prod(after) + _PAIR * len(rows) * len(cols)
    if by_pairs <= _AXIS_ELEMENT * math.prod(after) + _ROWS * len(rows) + _COLUMNS * len(cols):
        pairs = _Interpolation(state, op)
        made = [(pairs.part(row, col), target[:, _places(row[0])][:, :, _places(col[0])])
                for row, col in itertools.product(rows, cols)]
    else:
        axes = _ByAxis(state, op)
        lines = [axes.line(rows, is_high) for is_high in (False, True)]
        made = [(axes.column(lines, *col), target[:, :, _places(col[0])]) for col in cols]
    copies = []
    for at, (part, place) in enumerate(made):
        source = blank((part.size_bytes // place.shape[-1],), state.subgraph.tensors[op.outputs[0]].dtype)
        copies.append(copy_between(at, source.reshape(place.shape), source, place, target))
    add_move(state, op, [part for part, _ in made], copies)
