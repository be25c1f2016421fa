"""The decoder of compressed weights: takes coded bytes, gives a row of a scratchpad word per cycle.

The code is defined in isa/weight_code.py. Terms: the `view` is the part of a run that the decoder sees, `view_bytes`
from `at` on in a window of two pieces; a row's `flags` mark the fields that are escapes.
"""

from collections.abc import Sequence
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.dma.coded_beats import PieceLayout
from tq_hw.hdl.parts.numbers import multiple
from tq_hw.isa.config import Config
from tq_hw.isa.weight_code import HEADER_BYTES, MOST_ROWS, WIDEST, plane_bytes, view_bytes

__all__ = ["RowDecoder"]

#: Escapes counted by one LUT.
_FOUR = 4


class RowDecoder(wiring.Component):
    """Decode runs row by row.

    A block takes two cycles plus one per row, or two per row whose escapes do not fit into the view together with the
    next row's planes; at most `view_bytes` are consumed per cycle. Rows after the end of a run are zeros.

    Members
    -------
    i : In(stream of PieceLayout), pieces of runs
    can : Out(1), a row may be taken
    take : In(1), only while `can`: take a row
    drop : In(1), strobe without `take`: discard the rest of the run, up to its last piece
    o : Out(8 * cols), the row that was taken in the cycle before
    idle : Out(1), nothing of a run is stored
    """

    i: stream.Interface
    can: Signal
    take: Signal
    drop: Signal
    o: Signal
    idle: Signal

    def __init__(self, config: Config) -> None:
        self._cols = config.cols
        self._plane, self._view = plane_bytes(config.cols), view_bytes(config.cols)
        super().__init__({"i": In(stream.Signature(PieceLayout(self._view))), "can": Out(1), "take": In(1),
                          "drop": In(1), "o": Out(8 * config.cols), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Window, row, then the states: header, first planes, rows."""
        m = Module()
        window = self._window(m)
        row = self._row(m, window.view)
        self._output(m, window.view, row)
        block = row.block
        left = Signal(range(MOST_ROWS))
        ends = Signal()
        with m.FSM():
            with m.State("HEADER"):
                m.d.comb += [window.fixed.eq(HEADER_BYTES), window.go.eq(window.there)]
                m.d.sync += [left.eq(window.view[8:16]), ends.eq(window.view[8:16] == 0), *block.begin(window.view)]
                with m.If(window.go):
                    m.next = "PLANES"
                with m.If(self.drop):
                    m.next = "DROP"
            with m.State("PLANES"):
                m.d.comb += [window.fixed.eq(block.size), window.go.eq(window.there), row.load.eq(window.go)]
                with m.If(window.go):
                    m.next = "ROW"
                with m.If(self.drop):
                    m.next = "DROP"
            with m.State("ROW"):
                # Take the next row's planes together with this row's escapes if both fit into the view.
                m.d.comb += [
                    self.can.eq(window.there), window.go.eq(self.take),
                    row.both.eq(~ends & (row.escapes <= block.most_escapes)),
                    window.fixed.eq(block.size), window.counts.eq(1), window.both.eq(row.both),
                    row.load.eq(self.take & row.both),
                ]
                with m.If(self.take):
                    m.d.sync += [left.eq(left - 1), ends.eq(left == 1)]
                    with m.If(ends):
                        m.next = "HEADER"
                    with m.Elif(~row.both):
                        m.next = "PLANES"
                with m.If(self.drop):
                    m.next = "DROP"
            with m.State("DROP"):
                m.d.comb += window.drop.eq(1)
                with m.If(window.ended):
                    m.next = "HEADER"
        m.d.comb += [window.escapes.eq(row.escapes), self.idle.eq(window.empty)]
        return m

    def _window(self, m: Module) -> "_Window":
        """Two pieces of the run, followed by zeros after its end."""
        window = _Window(self._view)
        at = window.at
        there = Signal(2)
        ended = window.ended
        pieces = [Signal(8 * self._view, name=f"piece{number}") for number in range(2)]
        # All sums are computed in parallel, because the selection is as late as the number of escapes. Whether the end
        # is beyond the first piece enables many registers, so it does not wait for the sum: each position has its own
        # comparison. Where the `fixed` bytes end is known a cycle before the escapes count.
        many = Cat(_reaches(window.escapes, self._view - place) for place in range(self._view))
        fixed, escapes, both, ahead = (Signal(len(at) + 1, name=f"after_{name}")
                                       for name in ("fixed", "escapes", "both", "fixed_now"))
        end = Mux(window.counts, Mux(window.both, both, escapes), fixed)
        beyond_both = ahead[len(at)] | many.bit_select(ahead[:len(at)], 1)
        beyond = Mux(window.counts, Mux(window.both, beyond_both, many.bit_select(at, 1)), fixed[len(at)])
        total = (Mux(window.counts, ahead, at)
                 + Mux(window.counts, window.fixed + window.escapes, window.fixed << 1))[:len(ahead)]
        moves = Signal()
        wants = Signal()
        places = Cat(*pieces)
        m.d.comb += [
            window.view.eq(_shifted(places, at)),
            window.there.eq(there.all()), window.empty.eq(~there.any() & ~ended),
            fixed.eq(at + window.fixed), escapes.eq(at + window.escapes), both.eq(ahead + window.escapes),
            moves.eq(window.go & beyond | ~there[0]),
            wants.eq(moves | ~there[1]),
            self.i.ready.eq(~ended & (wants | window.drop)),
        ]
        with m.If(window.go):
            m.d.sync += [at.eq(end), ahead.eq(Cat(total[:len(at)], total[len(at)] ^ beyond))]
        with m.If(moves):
            m.d.sync += [pieces[0].eq(pieces[1]), there[0].eq(there[1])]
        with m.If(wants):
            m.d.sync += [pieces[1].eq(Mux(ended, 0, self.i.payload.data)), there[1].eq(self.i.valid | ended)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += ended.eq(self.i.payload.last)
        with m.If(window.drop):
            m.d.sync += [there.eq(0), at.eq(0)]
            with m.If(ended):
                m.d.sync += ended.eq(0)
        return window

    def _row(self, m: Module, view: Value) -> "_Row":
        """The next row: bytes of its fields, and which fields are escapes."""
        row = _Row(self._cols, self._plane, self._view)
        has = row.block.has
        fields = [[view[8 * self._plane * bit + lane] & has[bit] for bit in range(WIDEST)] + [Const(0)]
                  for lane in range(self._cols)]
        escaped = [Cat(view[8 * self._plane * bit + lane] | ~has[bit] for bit in range(WIDEST - 1)).all()
                   & has[0] & ~has[WIDEST - 1] for lane in range(self._cols)]
        # Counted in groups of four before the register, added up after it.
        fours = range(0, self._cols, _FOUR)
        counts = [Signal(range(_FOUR + 1), name=f"count{lane}") for lane in fours]
        with m.If(row.load):
            m.d.sync += [row.flags.eq(Cat(escaped)), *(count.eq(_count(Cat(escaped[lane:lane + _FOUR])))
                                                       for lane, count in zip(fours, counts, strict=True))]
            for lane, value in enumerate(row.values):
                sign = fields[lane][0]
                m.d.sync += value.eq(Cat(fields[lane][bit + 1] ^ sign for bit in range(WIDEST)))
        m.d.comb += row.escapes.eq(_sum(counts))
        return row

    def _output(self, m: Module, view: Value, row: "_Row") -> None:
        """One cycle later: bytes of the view at escapes, bytes of fields elsewhere."""
        seen = Signal(8 * self._view)
        flags = Signal(self._cols)
        m.d.sync += [seen.eq(view), flags.eq(row.flags)]
        numbers = [Signal(ceil_log2(self._view), name=f"number{lane}") for lane in range(self._cols)]
        before = [_count(row.flags[:lane]) for lane in range(self._cols)]
        m.d.sync += [number.eq(Mux(row.both, row.block.size + count, count))
                     for number, count in zip(numbers, before, strict=True)]
        escapes = _spread(seen, numbers)
        for lane in range(self._cols):
            value = Signal(8, name=f"value{lane}")
            m.d.sync += value.eq(row.values[lane])
            m.d.comb += self.o.word_select(lane, 8).eq(Mux(flags[lane], escapes[lane], value))


def _shifted(places: Value, at: Signal) -> Value:
    """Return the first half of the bytes from `at` on: a barrel shifter, which takes half the LUTs of a multiplexer."""
    left = len(places) // 2
    for bit in reversed(range(len(at))):
        left_after = left + 8 * ((1 << bit) - 1)
        places = Mux(at[bit], places[8 << bit:], places)[:left_after]
    return places


def _spread(seen: Value, numbers: Sequence[Signal]) -> list[Value]:
    """Return byte numbers[lane] of `seen` for each lane. A lane's number is that of the lane before, or one more.

    An omega network: each step replaces a bit of the byte's position by that of the lane's. Adjacent bytes that keep
    their order never collide. The byte at a position is one of the 2^bit from the number of the first lane that it can
    reach on.
    """
    size = len(seen) // 8
    places: list[Value] = [seen.word_select(place, 8) for place in range(size)]
    for bit in reversed(range(ceil_log2(size))):
        taken = []
        for place in range(size):
            low, lane = place % (1 << bit), place >> bit << bit
            first = numbers[min(lane, len(numbers) - 1)]
            upper = first[bit] ^ (low < first[:bit]) if bit else first[0]
            taken.append(Mux(upper, places[place | 1 << bit], places[place & ~(1 << bit)]))
        places = taken
    return places[:len(numbers)]


def _reaches(count: Value, least: int) -> Value:
    """Return whether `count` is at least `least`, as a look-up table: no carry chain."""
    return Const((1 << (1 << len(count))) - (1 << least), 1 << len(count)).bit_select(count, 1)


def _count(flags: Value) -> Value:
    """Return the number of set flags."""
    return _sum([flags[index] for index in range(len(flags))])


def _sum(counts: Sequence[Value]) -> Value:
    """Return the sum, added up as a tree."""
    counts = list(counts)
    while len(counts) > 1:
        counts = [left + right for left, right in zip(counts[::2], counts[1::2], strict=False)] + (
            counts[-1:] if len(counts) % 2 else [])
    return counts[0] if counts else Const(0)


class _Window:
    """The decoder's view of a run."""

    def __init__(self, size: int) -> None:
        self.view = Signal(8 * size, name="view")
        self.at = Signal(ceil_log2(size))
        #: The whole view has arrived; the run's last piece has.
        self.there = Signal(name="window_there")
        self.ended = Signal()
        self.empty = Signal()
        #: Strobe: consume bytes: `fixed` of them; or, with `counts`, the escapes, and `fixed` too only with `both`.
        self.go = Signal()
        self.fixed = Signal(range(size + 1))
        self.counts = Signal()
        self.escapes = Signal(range(size + 1))
        self.both = Signal()
        #: Discard the run, up to its last piece.
        self.drop = Signal()


class _Block:
    """The width of a block: which field bits exist, bytes of a row's planes, most escapes that fit beside those."""

    def __init__(self, plane: int, view: int) -> None:
        self._plane, self._view = plane, view
        self.has = Signal(WIDEST)
        self.size = Signal(range(WIDEST * plane + 1))
        self.most_escapes = Signal(range(view + 1))

    def begin(self, header: Value) -> list[Any]:
        """Decode a header's first byte."""
        width = Mux(header[3], WIDEST, header[:3])
        size = multiple(width, self._plane)
        return [self.has.eq(Cat(width > bit for bit in range(WIDEST))), self.size.eq(size),
                self.most_escapes.eq(self._view - size)]


class _Row:
    """The next row."""

    def __init__(self, cols: int, plane: int, view: int) -> None:
        self.block = _Block(plane, view)
        self.flags = Signal(cols)
        self.values = [Signal(8, name=f"field{lane}") for lane in range(cols)]
        self.escapes = Signal(range(cols + 1))
        #: Strobe: take planes from the front of the view.
        self.load = Signal()
        #: The next row's planes are consumed together with this row's escapes.
        self.both = Signal()
