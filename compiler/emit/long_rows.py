"""Programs over rows that a register does not hold: in pieces (`LongRows`), or with a row in each lane (`Columns`).

Vector registers keep their contents from operation to operation: maxima, sums and what is made of them stay there.
Results are written where the elements were.
"""

from dataclasses import dataclass, replace

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.flat import Elements
from tq_hw.compiler.ir.meaning import Streams, Walk
from tq_hw.compiler.ir.staged import Columns, LongRows
from tq_hw.compiler.plan.layout import block_count
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.rows import RowCode, difference, each_lane, maximum, parts_of, scalars_of, start, summand
from tq_hw.compiler.programs.words import program_fields
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.sizes import ceil_div

__all__ = ["emit_columns", "emit_long_rows"]

Uop = dict[str, int]
#: Beats of a tile at which a micro-operation need not wait for the one before.
_NO_WAIT_BEATS = 23
_INT8 = 0


def _operation(emitter: Emitter, code: RowCode, fields: dict[str, int], accesses: tuple[Access, ...],
               source: Walk | None = None, target: Walk | None = None) -> None:
    """Emit one vector operation; without stream A it works on registers alone."""
    placed = emitter.program(code.uops)
    body = code.body if code.body[1] else None
    emitter.vector({"out_blocks": 1, "tile_slots": fields["slots"], **fields,
                    **program_fields(placed, body), "repeat1": code.repeats}, accesses,
                   accesses if target is not None else (),
                   Streams(placed, source, out=target, body=code.body, repeats=code.repeats))


def _once_through(uops: list[Uop]) -> RowCode:
    return RowCode(uops, (len(uops), 0), 1)


def _reserve(emitter: Emitter, codes: tuple[RowCode, ...]) -> None:
    total = sum(len(code.uops) for code in codes)
    if total <= emitter.config.uops:
        emitter.reserve_program(total)


@dataclass
class _LongRows:
    emitter: Emitter
    layer: LongRows
    plan: LayerPlan

    def __post_init__(self) -> None:
        """Cut rows into stretches that the scratchpad holds, chunks that a register holds."""
        config = self.config = self.emitter.config
        parts = parts_of(self.layer.program, self.layer.numbers)
        self.has_maximum = parts.less is None
        self.start, self.maximum = _once_through(start()), _once_through(maximum(True))
        self.sum = _once_through(difference(parts) + summand(parts, True))
        self.scalars, self.apply = scalars_of(parts), _once_through(difference(parts) + parts.apply)
        self.channels = self.layer.output.shape[3]
        self.slots = block_count(self.channels, config)
        self.chunk = max(1, config.vector_register_words // config.beats_per_word)
        room = self.plan.out_words
        self.stretch = self.slots if self.slots <= room else max(room // 2 // self.chunk, 1) * self.chunk
        self.buffers = max(1, min(2, room // self.stretch))
        self.loaded = 0
        self.source = Elements(self.emitter, self.layer.inputs[0], _INT8)
        self.target = Elements(self.emitter, self.layer.output, _INT8)

    def run(self) -> None:
        """Emit all rows."""
        self.emitter.tables(self.layer.tables)
        _reserve(self.emitter, (self.start, self.maximum, self.sum, self.scalars, self.apply))
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
        _operation(self.emitter, self.start, {"cols": 1, "slots": 1, "chunk_slots": 1}, ())
        for code in (self.maximum, self.sum) if self.has_maximum else (self.sum,):
            for first in range(0, self.slots, self.stretch):
                self._reduce(code, first, whole or self._load(starts[0], first), source)
        _operation(self.emitter, self.scalars, {"cols": 1, "slots": 1, "chunk_slots": 1}, ())
        for first in range(0, self.slots, self.stretch):
            access = whole or self._load(starts[0], first)
            slots = min(self.stretch, self.slots - first)
            _operation(self.emitter, self.apply, self._fields(access.low, slots), (access,), self._at(source, first),
                       self._at(target, first))
            self.target.store(starts[1] + first * self.config.block, self._elements(first), access.low)

    def _at(self, walk: Walk, first: int) -> Walk:
        """The same from slot `first` of the row on."""
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
        """Reduce whole chunks, then the last one, of whose last word some lanes are empty."""
        slots = min(self.stretch, self.slots - first)
        left = self.channels % self.config.block if first + slots == self.slots else 0
        last = (slots - 1) // self.chunk * self.chunk if left else slots
        if last:
            _operation(self.emitter, code, self._fields(access.low, last), (access,), self._at(source, first))
        if left:
            _operation(self.emitter, code, self._fields(access.low + last, slots - last) | {"valid_lanes": left},
                       (access,), self._at(source, first + last))


def emit_long_rows(emitter: Emitter, layer: LongRows, plan: LayerPlan) -> None:
    """Emit each row: its maximum, its sum, what follows from it, its results; a row in pieces comes once for each."""
    _LongRows(emitter, layer, plan).run()


def emit_columns(emitter: Emitter, layer: Columns, plan: LayerPlan) -> None:
    """Emit, per tile of lanes: maxima, sums, what follows from them, results."""
    config = emitter.config
    _, count, _, rows = layer.output.shape
    parts = parts_of(layer.program, layer.numbers)
    clear, step, rest = each_lane(start()), each_lane(maximum(False)), each_lane(difference(parts))
    adds = each_lane(summand(parts, False))
    code = scalars_of(parts)
    maxima = RowCode([clear[0], *step], (1, len(step)), count)
    sums = RowCode([clear[1], *rest, *adds], (1, len(rest) + len(adds)), count)
    scalars = RowCode(each_lane(code.uops), code.body, code.repeats)
    apply = _once_through(rest + each_lane(parts.apply))
    emitter.tables(layer.tables)
    _reserve(emitter, (maxima, sums, scalars, apply))
    limit, slots = max(1, config.vector_register_words // config.beats_per_word), ceil_div(rows, config.block)
    tile, buffers = min(limit, slots, plan.out_words // count), 1
    half = min(tile, plan.out_words // count // 2)
    if half and (half == tile or half * config.beats_per_word >= _NO_WAIT_BEATS):
        tile, buffers = half, 2
    tile = ceil_div(slots, ceil_div(slots, tile))
    source, target = Elements(emitter, layer.inputs[0], _INT8), Elements(emitter, layer.output, _INT8)
    for number, first in enumerate(range(0, slots, tile)):
        width = min(tile, slots - first)
        base = plan.out_bases[0] + number % buffers * tile * count
        low, lanes = first * config.block, min(rows - first * config.block, width * config.block)
        access = source.load(low, lanes, base, count, rows)
        registers = {"cols": width, "slots": width, "chunk_slots": width}
        walk = registers | {"a_base": base, "a_col_step": 1, "a_repeat1_step": width}
        lane, result = source.walk(low, rows, repeat=rows), replace(target.walk(low, rows), row=rows)
        if parts.less is None:
            _operation(emitter, maxima, walk, (access,), lane)
        _operation(emitter, sums, walk, (access,), lane)
        _operation(emitter, scalars, registers, ())
        _operation(emitter, apply, registers | {
            "slots": width * count, "a_base": base, "a_col_step": 1, "a_row_step": width, "out_base": base,
            "out_col_step": 1, "out_row_step": width}, (access,), replace(lane, row=rows), result)
        target.store(low, lanes, base, count, rows)
