"""Programs over rows that do not fit in a register: in pieces (`LongRows`).

Vector registers keep their contents between operations: maxima, sums and scalars stay there. Results overwrite the
elements.
"""

from dataclasses import dataclass, replace

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.flat import Elements
from tq_hw.compiler.ir.meaning import Streams, Walk
from tq_hw.compiler.ir.staged import LongRows
from tq_hw.compiler.plan.layout import block_count
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.rows import RowCode, difference, maximum, parts_of, scalars_of, start, summand
from tq_hw.compiler.programs.words import program_fields
from tq_hw.compiler.stream.stream import Access

__all__ = ["emit_long_rows", "once_through", "reserve", "row_operation", "write_first"]

Uop = dict[str, int]
_INT8 = 0


def row_operation(emitter: Emitter, code: RowCode, fields: dict[str, int], accesses: tuple[Access, ...],
                  source: Walk | None = None, target: Walk | None = None,
                  writes: tuple[Access, ...] | None = None) -> None:
    """Emit one vector operation; without stream A it works only on registers; results go to `writes`, or in place."""
    placed = emitter.program(code.uops)
    body = code.body if code.body[1] else None
    emitter.vector({"out_blocks": 1, "tile_slots": fields["slots"], **fields,
                    **program_fields(placed, body), "repeat1": code.repeats}, accesses,
                   () if target is None else accesses if writes is None else writes,
                   Streams(placed, source, out=target, body=code.body, repeats=code.repeats))


def once_through(uops: list[Uop]) -> RowCode:
    """Return a program without repeats."""
    return RowCode(uops, (len(uops), 0), 1)


def reserve(emitter: Emitter, codes: tuple[RowCode, ...]) -> None:
    """Make sure that the programs of a layer do not overwrite each other, if the vector unit has room for all."""
    total = sum(len(code.uops) for code in codes)
    if total <= emitter.config.uops:
        emitter.reserve_program(total)


def write_first(emitter: Emitter, codes: tuple[RowCode, ...]) -> None:
    """Write all programs of a layer, if there is room: the vector unit must be idle, once and not before each."""
    reserve(emitter, codes)
    if sum(len(code.uops) for code in codes) <= emitter.config.uops:
        for code in codes:
            emitter.program(code.uops)


@dataclass
class _LongRows:
    emitter: Emitter
    layer: LongRows
    plan: LayerPlan

    def __post_init__(self) -> None:
        """Cut rows into stretches that fit in the scratchpad, and these into chunks that fit in a register."""
        config = self.config = self.emitter.config
        parts = parts_of(self.layer.program, self.layer.numbers)
        self.has_maximum = parts.less is None
        self.start, self.maximum = once_through(start()), once_through(maximum(True))
        self.sum = once_through(difference(parts) + summand(parts, True))
        self.scalars, self.apply = scalars_of(parts), once_through(difference(parts) + parts.apply)
        self.channels = self.layer.output.shape[3]
        self.slots = block_count(self.channels, config)
        room = self.plan.out_words
        self.chunk = max(1, min(room, config.vector_register_words // config.beats_per_word))
        self.stretch = self.slots if self.slots <= room else max(room // 2 // self.chunk, 1) * self.chunk
        self.buffers = max(1, min(2, room // self.stretch))
        self.loaded = 0
        self.source = Elements(self.emitter, self.layer.inputs[0], _INT8)
        self.target = Elements(self.emitter, self.layer.output, _INT8)

    def run(self) -> None:
        """Emit all rows."""
        self.emitter.tables(self.layer.tables)
        largest = (self.maximum,) if self.has_maximum else ()
        write_first(self.emitter, (self.start, *largest, self.sum, self.scalars, self.apply))
        n, h, w, _ = self.layer.output.shape
        for row in range(n * h):
            for col in range(w):
                self._row(row, col)

    def _row(self, row: int, col: int) -> None:
        values = (self.layer.inputs[0], self.layer.output)
        places = [value.place for value in values]
        pixel = (row * values[0].shape[2] + col) * self.channels
        source, target = (Walk(value, self.channels, pixel, col=self.config.block) for value in values)
        starts = [row * place.row_bytes + col * place.pixel_bytes for place in places]
        whole = self._load(starts[0], 0) if self.stretch >= self.slots else None
        row_operation(self.emitter, self.start, {"cols": 1, "slots": 1, "chunk_slots": 1}, ())
        for code in (self.maximum, self.sum) if self.has_maximum else (self.sum,):
            for first in range(0, self.slots, self.stretch):
                self._reduce(code, first, whole or self._load(starts[0], first), source)
        row_operation(self.emitter, self.scalars, {"cols": 1, "slots": 1, "chunk_slots": 1}, ())
        for first in range(0, self.slots, self.stretch):
            access = whole or self._load(starts[0], first)
            slots = min(self.stretch, self.slots - first)
            row_operation(self.emitter, self.apply, self._fields(access.low, slots), (access,), self._at(source, first),
                       self._at(target, first))
            self.target.store(starts[1] + first * self.config.block, self._elements(first), access.low)

    def _at(self, walk: Walk, first: int) -> Walk:
        """Return the walk from slot `first` of the row on."""
        return replace(walk, at=first * self.config.block)

    def _elements(self, first: int) -> int:
        block = self.config.block
        return min(self.channels, (first + self.stretch) * block) - first * block

    def _load(self, start: int, first: int) -> Access:
        self.loaded += 1
        base = self.plan.out_bases[0] + self.loaded % self.buffers * self.stretch
        return self.source.load(start + first * self.config.block, self._elements(first), base)

    def _fields(self, base: int, slots: int) -> dict[str, int]:
        return {"a_base": base, "a_col_step": 1, "out_base": base, "out_col_step": 1, "cols": slots, "slots": slots,
                "chunk_slots": min(self.chunk, slots)}

    def _reduce(self, code: RowCode, first: int, access: Access, source: Walk) -> None:
        """Reduce whole chunks, then the last chunk, whose last word has empty lanes."""
        slots = min(self.stretch, self.slots - first)
        left = self.channels % self.config.block if first + slots == self.slots else 0
        last = (slots - 1) // self.chunk * self.chunk if left else slots
        if last:
            row_operation(self.emitter, code, self._fields(access.low, last), (access,), self._at(source, first))
        if left:
            row_operation(self.emitter, code, self._fields(access.low + last, slots - last) | {"valid_lanes": left},
                       (access,), self._at(source, first + last))


def emit_long_rows(emitter: Emitter, layer: LongRows, plan: LayerPlan) -> None:
    """Emit each row: maximum, sum, scalars, results; a row in pieces is loaded again for each of these passes."""
    _LongRows(emitter, layer, plan).run()
