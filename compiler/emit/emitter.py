"""What every layer's emission needs: constants in the ring, rectangles in and out, micro-operations, memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from tq_hw.compiler.emit.arena import Arena, lives
from tq_hw.compiler.emit.image import Image, table_words
from tq_hw.compiler.emit.ring import Constants, Ring
from tq_hw.compiler.ir.layers import Graph, Layer
from tq_hw.compiler.ir.meaning import Code, Meaning
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.plan.cascade import Rolling
from tq_hw.compiler.plan.hosts import part_view
from tq_hw.compiler.plan.layout import GRANULE_WORDS, View, block_count, row_words
from tq_hw.compiler.plan.places import Choice, LayerPlan, Plan, alternates
from tq_hw.compiler.programs.words import program_fields
from tq_hw.compiler.stream.stream import Access, Operation, Stream
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit, VectorKind
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import ALIGN_BYTES, REGION_ARENA, REGION_IMAGE, REGION_STATE
from tq_hw.isa.program_rules import MOST_MEMORY_BYTES
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Alu, Destination, Source
from tq_hw.model.errors import UnsupportedError

__all__ = ["Emitter", "Rect"]


@dataclass(frozen=True)
class Rect:
    """Output rows, columns and channel blocks of one image of the batch."""

    image: int
    rows: tuple[int, int]
    cols: tuple[int, int]
    blocks: tuple[int, int]

    @property
    def slots(self) -> int:
        """Pixels."""
        return (self.rows[1] - self.rows[0]) * (self.cols[1] - self.cols[0])


@dataclass
class Emitter:
    """State of one emission.

    Members
    -------
    memory : the system memory that the schedule is made for
    choices : how layers are cut that are not cut by rule, by their numbers
    buffers : name and kind ("tensor", "rolling" or "strip") of what each buffer number stands for
    """

    graph: Graph
    plan: Plan
    config: Config
    memory: Memory
    choices: Mapping[int, Choice] = field(default_factory=dict)
    image: Image = field(default_factory=Image)
    arena: Arena = field(default_factory=Arena)
    state: bytearray = field(default_factory=bytearray)
    stream: Stream = field(init=False)
    layer_index: int = 0
    _ring: Ring = field(init=False)
    _lives: dict[int, tuple[int, int]] = field(init=False)
    _memory: dict[int, tuple[int, int]] = field(default_factory=dict)
    _views: dict[int, View] = field(default_factory=dict)
    _slots: dict[tuple[int, str, int], int] = field(default_factory=dict)
    buffers: list[tuple[str, str]] = field(default_factory=list)
    _holds: bool = False
    _uops: dict[tuple[frozenset[tuple[str, int]], ...], Code] = field(default_factory=dict)
    _uop_at: int = 0
    _tables: list[bytes | None] = field(default_factory=lambda: [None, None])

    def __post_init__(self) -> None:
        """Make room in memory for inputs and outputs first, so that their places do not depend on the plan."""
        names = [f"operator {layer.index} ({layer.op})" for layer in self.graph.layers]
        self.stream = Stream(self.config, names)
        self._ring = Ring(self.config.scratchpad_words)
        self._lives = lives(self.graph, self.plan)
        for value in (*self.graph.inputs, *self.graph.outputs):
            self.memory_of(value)

    # Memory

    def memory_of(self, value: Value) -> tuple[int, int]:
        """Region and byte offset of the first byte of `value`."""
        root = value.root
        if id(root) not in self._memory:
            if root.data is not None:
                self._memory[id(root)] = (REGION_IMAGE, self.image.add(root.data.tobytes()))
            elif root.initial is not None:
                self._memory[id(root)] = (REGION_STATE, len(self.state))
                data = root.initial.tobytes()
                self.state += data.ljust(ceil_div(len(data), ALIGN_BYTES) * ALIGN_BYTES, b"\0")
            else:
                self._memory[id(root)] = (REGION_ARENA, self.arena.take(root, self._lives[id(root)]))
                if self.arena_bytes > MOST_MEMORY_BYTES:
                    raise UnsupportedError(f"{self.stream.names[self.layer_index]} brings the activations to "
                                           f"{self.arena_bytes:,} bytes of memory, {MOST_MEMORY_BYTES:,} are the most; "
                                           "use smaller tensors")
        region, offset = self._memory[id(root)]
        return region, offset + value.place.offset_bytes

    def has_place(self, value: Value) -> bool:
        """Whether a value's bytes have a place in memory."""
        return id(value.root) in self._memory

    def _memory_access(self, value: Value, rows: tuple[int, int]) -> Access:
        region, offset = self.memory_of(value)
        place = value.place
        last = (value.shape[2] - 1) * place.pixel_bytes + value.shape[3]
        return Access(f"region{region}", offset + rows[0] * place.row_bytes,
                      offset + (rows[1] - 1) * place.row_bytes + last)

    # Ring

    @contextmanager
    def scope(self, hold: bool = False) -> Iterator[None]:
        """Constants loaded inside stay in the ring until the end of the scope, or of one around it that holds."""
        held, outer = len(self._ring.live), self._holds
        self._holds = outer or hold
        try:
            yield
        finally:
            if hold or not self._holds:
                del self._ring.live[held:]
            if hold:
                self._holds = outer

    def ring_words(self) -> int:
        """Size of the ring during this layer."""
        return self.config.scratchpad_words - self.plan.ring_bases[self.layer_index]

    def holds(self, *pieces: int) -> bool:
        """Whether constants of this many words, each in one piece, fit the ring of this layer together."""
        return self._ring.holds(pieces, self.plan.ring_bases[self.layer_index])

    def place(self, data: bytes, row_bytes: int) -> Constants:
        """Give rows of `row_bytes` bytes, one a word, a place in the image and in the ring; nothing is loaded."""
        words = len(data) // row_bytes
        base = self._ring.take(words, self.plan.ring_bases[self.layer_index], held=self._holds)
        if base is None:
            raise AssertionError(f"{words} words of constants do not fit the ring of {self.ring_words()}")
        return Constants(base, words, self.image.add(data), row_bytes)

    def bring(self, constants: Constants, first: int, last: int) -> Access:
        """Load words `first` to `last` of what has a place in the ring; return what was written."""
        return self.bring_each(constants, first, last, 1, 0)[0]

    def bring_each(self, constants: Constants, first: int, last: int, count: int, step: int) -> tuple[Access, ...]:
        """Load words `first` to `last`, and as many `step` words further, `count` times in all."""
        words, size = last - first, constants.row_bytes
        at = [constants.base + first + number * step for number in range(count)]
        accesses = tuple(Access("pad", base, base + words) for base in at)
        more = {"step2": step, "stride2_bytes": step * size} if count > 1 else {}
        self.load({"memory_offset_bytes": constants.offset_bytes + first * size, "region": REGION_IMAGE,
                   "run_bytes": words * size, "destination": at[0], "emit_bytes": size,
                   "advance_bytes": size, "last_emit_bytes": size, "last_advance_bytes": size, "count0": words,
                   "step0": 1, "count1": 1, "count2": count, "count3": 1, **more}, (), accesses)
        return accesses

    def constant(self, data: bytes, row_bytes: int) -> tuple[int, Access]:
        """Load rows of `row_bytes` bytes, one a word, into the ring; return the first word and what was written."""
        placed = self.place(data, row_bytes)
        return placed.base, self.bring(placed, 0, placed.words)

    # Operations

    def load(self, fields: Mapping[str, int], reads: tuple[Access, ...], writes: tuple[Access, ...]) -> Operation:
        """Emit a load."""
        self._ring.touch(writes)
        return self.stream.add(Unit.LOAD, fields, reads, writes, self.layer_index)

    def array(self, fields: Mapping[str, int], reads: tuple[Access, ...], meaning: Meaning | None = None) -> Operation:
        """Emit an array operation."""
        self._ring.touch(reads)
        return self.stream.add(Unit.ARRAY, fields, reads, (), self.layer_index, meaning)

    def vector(self, fields: Mapping[str, int], reads: tuple[Access, ...], writes: tuple[Access, ...],
               meaning: Meaning | None = None) -> Operation:
        """Emit a vector operation."""
        self._ring.touch((*reads, *writes))
        return self.stream.add(Unit.VECTOR, fields, reads, writes, self.layer_index, meaning)

    def choice(self) -> Choice:
        """How this layer is cut; one that alternates with the layer before it is cut as that."""
        number, layers = self.layer_index, self.graph.layers
        if number and alternates(layers[number - 1], layers[number]):
            number -= 1
        return self.choices.get(number, Choice())

    def new_buffer(self, name: str, kind: str = "strip") -> int:
        """Return a fresh number for a buffer of the scratchpad that holds (a part of) tensor `name`."""
        self.buffers.append((name, kind))
        return len(self.buffers) - 1

    @property
    def arena_bytes(self) -> int:
        """Size of the arena."""
        return self.arena.size_bytes

    def places(self) -> list[tuple[str, int, int, int, tuple[int, int]]]:
        """Name, region, first byte, size, first and last layer of every tensor that has a place in system memory.

        Two whose layers do not meet may have the same bytes.
        """
        roots = {id(v.root): v.root for layer in self.graph.layers for v in (*layer.inputs, layer.output)}
        roots |= {id(v.root): v.root for v in (*self.graph.inputs, *self.graph.outputs)}
        return [(roots[key].name, region, offset, roots[key].size_bytes, self._lives[key])
                for key, (region, offset) in self._memory.items()]

    # Rectangles

    def resident(self, value: Value) -> View | None:
        """View of a resident value, loaded at its first use if it comes from memory; None if it is not resident."""
        if id(value) in self.plan.parts:
            host, box = self.plan.parts[id(value)]
            view = self.resident(host)
            assert view is not None
            return part_view(view, box)
        if id(value) not in self.plan.resident:
            return None
        if id(value) not in self._views:
            n, h, w, c = value.shape
            blocks = block_count(c, self.config)
            pitch = row_words(w, blocks)
            rolling = self._rolling(value)
            words = n * h * pitch if rolling is None else rolling.rows * pitch
            kind = "tensor" if rolling is None else "rolling"
            view = View(self.new_buffer(value.name, kind), self.plan.resident[id(value)], words, pitch, w)
            self._views[id(value)] = view
            hosts = any(host is value for host, _ in self.plan.parts.values())
            if not hosts and not any(layer.output is value for layer in self.graph.layers):
                self.load_rect(value, view, (0, n * h), (0, w), (0, blocks))
        return self._views[id(value)]

    def is_resident(self, value: Value) -> bool:
        """Whether a value is whole in the scratchpad."""
        return id(value) in self.plan.resident

    def comes_back(self, value: Value) -> bool:
        """Whether a value is loaded that an earlier layer has stored."""
        return id(value) not in self.plan.resident and id(value) not in self.plan.parts and any(
            layer.output.root is value.root for layer in self.graph.layers[:self.layer_index])

    def _slot(self, kind: str, position: int, count: int) -> int:
        key = (self.layer_index, kind, position)
        self._slots[key] = (self._slots.get(key, -1) + 1) % count
        return self._slots[key]

    def strip_base(self, plan: LayerPlan, kind: str, position: int = 0) -> int:
        """Next strip buffer of an input ("in") or the output ("out")."""
        slot = self._slot(kind, position, plan.slots)
        return plan.in_bases[position][slot] if kind == "in" else plan.out_bases[slot]

    def source(self, layer: Layer, plan: LayerPlan, position: int, rows: tuple[int, int], cols: tuple[int, int],
               blocks: tuple[int, int]) -> View:
        """View of an input's rectangle (rows over all images), loading it when the input is not resident."""
        value = layer.inputs[position]
        view = self.resident(value)
        if view is None:
            view = self.strip(layer, plan, position, rows, cols, blocks)
            self.load_rect(value, view, rows, cols, blocks)
        return view

    def strip(self, layer: Layer, plan: LayerPlan, position: int, rows: tuple[int, int], cols: tuple[int, int],
              blocks: tuple[int, int]) -> View:
        """View of the next strip buffer of an input, for a rectangle of it; nothing is loaded."""
        base = self.strip_base(plan, "in", position)
        width, depth = cols[1] - cols[0], blocks[1] - blocks[0]
        pitch = row_words(width, depth)
        words = (rows[1] - rows[0]) * pitch
        assert words <= plan.in_words[position], (layer.op, words, plan.in_words)
        name = layer.inputs[position].name
        return View(self.new_buffer(name), base, words, pitch, width, rows[0], blocks[0], cols[0])

    def target(self, layer: Layer, plan: LayerPlan, rect: Rect) -> View:
        """View that a rectangle of the output is written to."""
        view = self.resident(layer.output)
        if view is not None:
            return self._rolled(layer.output, view, rect)
        base = self.strip_base(plan, "out")
        height = layer.output.shape[1]
        width, depth = rect.cols[1] - rect.cols[0], rect.blocks[1] - rect.blocks[0]
        pitch = row_words(width, depth)
        words = (rect.rows[1] - rect.rows[0]) * pitch
        assert words <= plan.out_words, (layer.op, words, plan.out_words)
        return View(self.new_buffer(layer.output.name), base, words, pitch, width, rect.image * height + rect.rows[0],
                    rect.blocks[0], rect.cols[0])

    def _rolling(self, value: Value) -> Rolling | None:
        group = self.plan.group_of(self.layer_index)
        return group.rolling.get(id(value)) if group is not None else None

    def _rolled(self, value: Value, view: View, rect: Rect) -> View:
        """Move the rows that are still needed to the front of a rolling buffer, when a strip does not fit after."""
        rolling = self._rolling(value)
        if rolling is None or rolling.origins[rect.rows[0]] == view.row0:
            return view
        first, last = rolling.origins[rect.rows[0]], rect.rows[0]
        moved = View(self.new_buffer(value.name, "rolling"), view.base, view.words, view.row_pitch, view.block_pitch,
                     first)
        self._views[id(value)] = moved
        if first < last:
            blocks = (0, block_count(value.shape[3], self.config))
            code = self.program([{"a_source": Source.STREAM, "alu": Alu.PASS, "destination": Destination.OUTPUT}])
            words = (last - first) * view.row_pitch
            self.vector({"a_base": view.address(first, 0, 0), "a_col_step": 1, "out_base": moved.base,
                         "out_col_step": 1, "cols": words, "out_blocks": 1, "slots": words, "tile_slots": words,
                         "chunk_slots": words, **program_fields(code)},
                        (view.access((first, last), blocks),), (moved.access((first, last), blocks),))
        return moved

    def finish(self, layer: Layer, view: View, rect: Rect) -> None:
        """Store a finished rectangle where system memory needs it."""
        if rect.blocks[0] < rect.blocks[1] and id(layer.output) in self.plan.stored:
            first = rect.image * layer.output.shape[1]
            self.store_rect(layer.output, view, (first + rect.rows[0], first + rect.rows[1]), rect.cols, rect.blocks)

    def _dense(self, value: Value, rows: tuple[int, int], cols: tuple[int, int], blocks: tuple[int, int],
               col_pitch: int) -> tuple[dict[str, int], int, bool]:
        """Loop fields shared by loads and stores of a rectangle, the channels of a pixel, and if rows are runs."""
        c, place = value.shape[3], value.place
        block = self.config.block
        channels = min(c, blocks[1] * block) - blocks[0] * block
        region, offset = self.memory_of(value)
        offset += rows[0] * place.row_bytes + cols[0] * place.pixel_bytes + blocks[0] * block
        fields = {"memory_offset_bytes": offset, "region": region, "count0": blocks[1] - blocks[0]}
        width, height = cols[1] - cols[0], rows[1] - rows[0]
        whole = channels == place.pixel_bytes
        if whole:
            fields |= {"count1": width, "step1": col_pitch, "count2": height, "stride2_bytes": place.row_bytes,
                       "count3": 1}
        else:
            fields |= {"count1": 1, "count2": width, "step2": col_pitch, "stride2_bytes": place.pixel_bytes,
                       "count3": height, "stride3_bytes": place.row_bytes}
        return fields, channels, whole

    def load_rect(self, value: Value, view: View, rows: tuple[int, int], cols: tuple[int, int],
                  blocks: tuple[int, int], pad_cols: tuple[int, int] = (0, 0), fill: int = 0,
                  at: tuple[int, int] | None = None) -> None:
        """Load dense rows and columns into a blocked view, at row and column `at` of it (default: the same)."""
        row, col = (rows[0], cols[0]) if at is None else at
        fields, channels, whole = self._dense(value, rows, cols, blocks, view.col_pitch)
        last = channels - (blocks[1] - blocks[0] - 1) * self.config.block
        fields |= {"run_bytes": (cols[1] - cols[0] if whole else 1) * channels, "flip": int(value.flip),
                   "destination": view.address(row, blocks[0], col),
                   "emit_bytes": self.config.block, "advance_bytes": self.config.block, "last_emit_bytes": last,
                   "last_advance_bytes": last, "step0": view.block_pitch, "fill": fill & 0xFF}
        fields["step2" if whole else "step3"] = view.row_pitch
        if any(pad_cols):
            assert whole
            fields |= {"count1": cols[1] - cols[0] + sum(pad_cols), "pad_before_bytes": pad_cols[0] * channels,
                       "pad_after_bytes": pad_cols[1] * channels}
        self.load(fields, (self._memory_access(value, rows),),
                  (view.access((row, row + rows[1] - rows[0]), blocks),))

    def store_rect(self, value: Value, view: View, rows: tuple[int, int], cols: tuple[int, int],
                   blocks: tuple[int, int]) -> None:
        """Store a rectangle of a blocked view to dense memory."""
        fields, channels, whole = self._dense(value, rows, cols, blocks, view.col_pitch)
        fields |= {"source": view.address(rows[0], blocks[0], cols[0]), "take_bytes": self.config.block,
                   "last_take_bytes": channels - (blocks[1] - blocks[0] - 1) * self.config.block,
                   "step0": view.block_pitch}
        fields["step2" if whole else "step3"] = view.row_pitch
        self.stream.add(Unit.STORE, fields, (view.access(rows, blocks),), (self._memory_access(value, rows),),
                        self.layer_index)

    # Micro-operations and tables

    def reserve_program(self, count: int) -> None:
        """Make sure that the next programs, `count` micro-operations in all, do not displace each other."""
        if self._uop_at + count > self.config.uops:
            self._uops.clear()
            self._uop_at = 0

    def program(self, uops: Sequence[Mapping[str, int]]) -> Code:
        """Place a program in the micro-operation memory, if it is not there already."""
        if len(uops) > self.config.uops:
            layer = self.graph.layers[self.layer_index]
            raise UnsupportedError(f"operator {layer.index} ({layer.op}) takes {len(uops)} micro-operations, "
                                   f"configuration {self.config.name!r} holds {self.config.uops}; set uops to 64")
        key = tuple(frozenset(uop.items()) for uop in uops)
        if key not in self._uops:
            if self._uop_at + len(uops) > self.config.uops:
                self._uops.clear()
                self._uop_at = 0
            code = Code(self._uop_at, tuple({k: int(v) for k, v in uop.items()} for uop in uops))
            for index, values in enumerate(code.uops, code.first):
                self.stream.uop(index, values)
            self._uops[key] = code
            self._uop_at += len(uops)
        return self._uops[key]

    def tables(self, contents: tuple[IntArray | None, IntArray | None]) -> None:
        """Bring the contents of tables 1 and 2 into the vector unit."""
        for number, table in enumerate(contents):
            if table is None:
                continue
            data = table_words(np.asarray(table), self.config)
            if self._tables[number] == data:
                continue
            self._tables[number] = data
            # A small scratchpad's ring holds only a part of a table at a time.
            piece = min(len(data), self.ring_words() // GRANULE_WORDS * GRANULE_WORDS * self.config.word_bytes)
            for first in range(0, len(data), piece):
                part = data[first:first + piece]
                entries = len(part) // 4
                with self.scope():
                    base, access = self.constant(part, self.config.word_bytes)
                    self.vector({"kind": VectorKind.LOAD_TABLE, "a_base": base, "a_col_step": 1, "slots": entries,
                                 "cols": entries, "out_blocks": 1, "tile_slots": entries, "chunk_slots": entries,
                                 "repeat1": 1, "repeat2": 1, "table_first": 256 * number + first // 4}, (access,), ())
