"""Programs with a row in each lane (`Columns`): many rows share each wait of the chain that follows a row's sum.

The words are in the scratchpad, between two transposes, or are loaded from memory for some lanes at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tq_hw.compiler.emit.emitter import Emitter, Rect
from tq_hw.compiler.emit.flat import Elements
from tq_hw.compiler.emit.long_rows import once_through, reserve, row_operation, write_first
from tq_hw.compiler.ir.meaning import Scratch, Walk
from tq_hw.compiler.ir.staged import Columns
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import View, block_count, even_cuts, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.rows import (
    TERM,
    RowCode,
    difference,
    each_lane,
    maximum,
    parts_of,
    scalars_of,
    start,
    summand,
)
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.latency import UOP_WAIT_CYCLES
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Destination

__all__ = ["emit_columns"]

_INT8 = 0


@dataclass(frozen=True)
class _Stream:
    """Words of an element as rows of slots: addresses and their meaning.

    Members
    -------
    base, row_step, element_step : first word; words from one row of slots to the next, from one element to the next
    walk : meaning of the first element
    col_step : words from one slot of a row to the next
    """

    base: int
    row_step: int
    element_step: int
    walk: Walk
    access: Access
    col_step: int = 1

    def fields(self, name: str) -> dict[str, int]:
        """Return the fields of the stream for one element."""
        return {f"{name}_base": self.base, f"{name}_col_step": signed_step(self.col_step),
                f"{name}_row_step": signed_step(self.row_step)}

    def elements(self, name: str, rows: int, copies: int) -> tuple[dict[str, int], Walk]:
        """Return fields and walk with a block for each element of `rows` bytes, or for `copies` of them, a row each."""
        if copies == 1:
            return {**self.fields(name), f"{name}_block_step": signed_step(self.element_step)}, replace(
                self.walk, block=rows)
        return {**self.fields(name), f"{name}_row_step": signed_step(self.element_step),
                f"{name}_block_step": signed_step(copies * self.element_step)}, replace(
                    self.walk, row=rows, block=copies * rows)


@dataclass
class _Columns:
    emitter: Emitter
    layer: Columns
    plan: LayerPlan

    def __post_init__(self) -> None:
        config = self.config = self.emitter.config
        parts = parts_of(self.layer.program, self.layer.numbers)
        _, matrices, rows, self.width = self.layer.output.shape
        #: Elements of a row; matrices of rows; bytes from one element to the next.
        self.count, self.height = self.layer.elements, matrices if self.layer.upright else rows
        self.element_bytes = self.width if self.layer.upright else self.height * self.width
        clear, step, rest = each_lane(start()), each_lane(maximum(False)), each_lane(difference(parts))
        adds, code = each_lane(summand(parts, False)), scalars_of(parts)
        self.has_maximum = parts.less is None
        self.maxima = RowCode([clear[0], *step], (1, len(step)), self.count)
        self.sums = RowCode([clear[1], *rest, *adds], (1, len(rest) + len(adds)), self.count)
        # With few words, a term is added while the next element's term is computed.
        term, add = adds
        none = {**clear[1], "d_register": TERM}
        self.few_sums = RowCode([clear[1], none, *rest, add, term, add], (2, len(rest) + 2), self.count)
        self.scalars = RowCode(each_lane(code.uops), code.body, code.repeats)
        self.apply = once_through(rest + each_lane(parts.apply))
        #: Elements less the maximum, kept in the results' words if the program reads them from there.
        self.differences = None
        if parts.kept is not None:
            adds, apply = parts.kept
            self.sums = self.few_sums = RowCode([clear[1], *each_lane(adds)], (1, len(adds)), self.count)
            self.apply = once_through(each_lane(apply))
            self.differences = once_through([{**rest[0], "destination": Destination.OUTPUT}])
            self.scratch = Scratch(f"{self.layer.output.name} (differences)", self.layer.output.size_bytes, _INT8)
        #: Words of a register.
        self.limit = max(1, config.vector_register_words // config.beats_per_word)

    def run(self) -> None:
        """Emit all lanes."""
        if self.differences is None:
            # The number of words decides which program adds.
            reserve(self.emitter, (self.maxima, self.few_sums, self.scalars, self.apply))
        else:
            write_first(self.emitter, (self.maxima, self.differences, self.sums, self.scalars, self.apply))
        self.emitter.tables(self.layer.tables)
        source, target = (self.emitter.resident(value) for value in (self.layer.inputs[0], self.layer.output))
        if source is None or target is None:
            self._from_memory()
            return
        blocks = block_count(self.width, self.config)
        for cols, part in self._tiles():
            high, wide = cols[1] - cols[0], part[1] - part[0]
            row = wide if self.layer.upright else high if self.height > 1 else high * wide
            self._tile(row, high * wide, *(
                self._resident(value, view, cols[0], part[0])
                for value, view in ((self.layer.inputs[0], source), (self.layer.output, target))))
        _, rows, width, _ = self.layer.output.shape
        self.emitter.finish(self.layer, target, Rect(0, (0, rows), (0, width), (0, blocks)))

    def _tiles(self) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Columns and blocks that fit in registers: whole blocks, if one fits."""
        blocks = block_count(self.width, self.config)
        for part in even_cuts(0, blocks, max(1, self.limit // self.height)):
            for cols in even_cuts(0, self.height, self.limit):
                yield cols, part

    def _resident(self, value: Value, view: View, col: int, block: int) -> _Stream:
        """Words of a resident value: an element is a row, block after block, or a column, matrix after matrix."""
        lanes, blocks = self.config.block, block_count(self.width, self.config)
        if self.layer.upright:
            whole = self.count * self.width
            walk = Walk(value, self.width, col * whole, block * lanes, row=whole, col=lanes)
            return _Stream(view.address(col, block, 0), view.row_pitch, view.col_pitch, walk, view.access(
                (0, self.height), (0, blocks)), view.block_pitch)
        walk = Walk(value, self.width, col * self.width, block * lanes, row=lanes,
                    col=self.width if self.height > 1 else lanes)
        return _Stream(view.address(0, block, col), view.block_pitch, view.row_pitch, walk, view.access(
            (0, self.count), (0, blocks)))

    def _from_memory(self) -> None:
        """Process the rows of all matrices, or of one upright matrix after the other."""
        whole = self.count * self.width
        if self.layer.upright:
            for matrix in range(self.height):
                self._some_from_memory(matrix * whole, self.width)
        else:
            self._some_from_memory(0, self.height * self.width)

    def _some_from_memory(self, start: int, rows: int) -> None:
        """Process as many lanes as fit in the scratchpad, in two buffers if that takes fewer cycles.

        The first of the `rows` rows begins at byte `start`.
        """
        emitter, count, block, room = self.emitter, self.count, self.config.block, self.plan.out_words // self.count
        slots = ceil_div(rows, block)
        ways = [(tile, buffers) for buffers in (1, 2) for tile in range(1, min(self.limit, slots, room // buffers) + 1)]
        tile, buffers = min(ways, key=lambda way: self._cycles(slots, *way))
        source, target = (Elements(emitter, value, _INT8) for value in (self.layer.inputs[0], self.layer.output))
        for number, first in enumerate(range(0, slots, tile)):
            width = min(tile, slots - first)
            base = self.plan.out_bases[0] + number % buffers * tile * count
            low, lanes = first * block, min(rows - first * block, width * block)
            access = source.load(start + low, lanes, base, count, rows)
            self._tile(width, width, *(_Stream(base, 0, width, elements.walk(low, rows, start), access)
                                       for elements in (source, target)))
            target.store(start + low, lanes, base, count, rows)

    def _cycles(self, slots: int, tile: int, buffers: int) -> float:
        """Estimate the cycles of all tiles: a maximum or sum waits for the one before it, a result for its element."""
        beats, tiles = tile * self.config.beats_per_word, ceil_div(slots, tile)
        waits = max(UOP_WAIT_CYCLES, beats)
        program = self.count * (2 * waits + 2 * beats + max(waits, 2 * beats)) + len(self.scalars.uops) * waits
        moved = 2 * tile * self.count * self.config.block / self.config.bus_bytes
        return tiles * max(program, moved) + moved if buffers > 1 else tiles * (program + moved)

    def _copies(self, slots: int) -> int:
        """Number of elements whose results are computed at once, which reduces waits for earlier micro-operations.

        Each needs its own copy of the row's scalars, so these are computed as many times.
        """
        chain = len(self.scalars.uops) + self.scalars.body[1] * (self.scalars.repeats - 1)

        def cycles(copies: int) -> float:
            beats = copies * slots * self.config.beats_per_word
            return self.count * (max(UOP_WAIT_CYCLES, beats) + UOP_WAIT_CYCLES + 2 * beats
                                 + (2 * max(UOP_WAIT_CYCLES, beats) + beats) / copies) + chain * beats / 2
        return min((number for number in range(1, self.limit // slots + 1) if self.count % number == 0), key=cycles)

    def _tile(self, cols: int, slots: int, source: _Stream, target: _Stream) -> None:
        """Emit maxima, sums, scalars and results; with few words, several copies of the slots are rows."""
        emitter = self.emitter
        copies = self._copies(slots) if cols == slots else 1
        registers = {"cols": cols, "slots": copies * slots, "chunk_slots": copies * slots}
        few = copies * slots * self.config.beats_per_word < UOP_WAIT_CYCLES
        if self.has_maximum:
            self._collect(self.maxima, registers, source, cols == slots)
        if self.differences is not None:
            kept = replace(target, walk=replace(target.walk, of=self.scratch))
            self._each(self.differences, registers, copies, source, kept)
            source = kept
        self._collect(self.few_sums if few else self.sums, registers, source, cols == slots)
        row_operation(emitter, self.scalars, registers, ())
        self._each(self.apply, registers, copies, source, target)

    def _collect(self, code: RowCode, registers: dict[str, int], source: _Stream, again: bool) -> None:
        """Visit all elements of each row; rows of slots have different elements, or with `again` the same."""
        walk = registers | source.fields("a") | ({"a_row_step": 0} if again else {}) | {
            "a_repeat1_step": signed_step(source.element_step)}
        row_operation(self.emitter, code, walk, (source.access,), replace(
            source.walk, repeat1=self.element_bytes, row=0 if again else source.walk.row))

    def _each(self, code: RowCode, registers: dict[str, int], copies: int, source: _Stream, target: _Stream) -> None:
        """Apply a program to each element."""
        (fields, taken), (out_fields, made) = (stream.elements(name, self.element_bytes, copies)
                                               for stream, name in ((source, "a"), (target, "out")))
        row_operation(self.emitter, code, registers | fields | out_fields | {"out_blocks": self.count // copies},
                      (source.access,), taken, made, (target.access,))


def emit_columns(emitter: Emitter, layer: Columns, plan: LayerPlan) -> None:
    """Emit for each tile of lanes: maxima, sums, scalars, results."""
    _Columns(emitter, layer, plan).run()
