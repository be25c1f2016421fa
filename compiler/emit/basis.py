"""Services for the emission of every layer: memory offsets, constants in the ring, operations, micro-operations."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tq_hw.compiler.emit.arena import Arena, lives
from tq_hw.compiler.emit.coded import coded_rows
from tq_hw.compiler.emit.image import Image
from tq_hw.compiler.emit.ring import Constants, Ring
from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.ir.meaning import Code, Meaning
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.places import Choice, Plan, alternates
from tq_hw.compiler.stream.stream import Access, Operation, Stream
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import ALIGN_BYTES, REGION_ARENA, REGION_IMAGE, REGION_STATE
from tq_hw.isa.program_rules import MOST_MEMORY_BYTES
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import UnsupportedError

__all__ = ["Basis"]


@dataclass
class Basis:
    """State of one emission.

    Members
    -------
    memory : the system memory that the schedule is made for
    choices : the cuts of layers that differ from the rules, by index
    buffers : by buffer number, name and kind ("tensor", "rolling" or "strip")
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
    buffers: list[tuple[str, str]] = field(default_factory=list)
    _holds: bool = False
    _uops: dict[tuple[frozenset[tuple[str, int]], ...], Code] = field(default_factory=dict)
    _uop_at: int = 0
    #: Constants in the ring that another layer may use.
    _kept: dict[bytes, Constants] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Allocate inputs and outputs first, so that their offsets do not depend on the plan."""
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
                    raise UnsupportedError(f"{self.stream.names[self.layer_index]} raises the activations to "
                                           f"{self.arena_bytes:,} bytes of memory, at most {MOST_MEMORY_BYTES:,} fit; "
                                           "use smaller tensors")
        region, offset = self._memory[id(root)]
        return region, offset + value.place.offset_bytes

    def has_place(self, value: Value) -> bool:
        """Whether a value's bytes have an offset in memory."""
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
        """Keep constants loaded inside in the ring until the end of this scope, or of an outer one with `hold`."""
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
        """Words of the ring during this layer."""
        return self.config.scratchpad_words - self.plan.ring_bases[self.layer_index]

    def holds(self, *pieces: int) -> bool:
        """Whether pieces of constants of these sizes fit the ring of this layer together."""
        return self._ring.holds(pieces, self.plan.ring_bases[self.layer_index])

    def room_words(self) -> int:
        """Words of the longest piece of constants that currently fits the ring of this layer."""
        return self._ring.room(self.plan.ring_bases[self.layer_index])

    def place(self, data: bytes, row_bytes: int) -> Constants:
        """Allocate rows of `row_bytes` bytes, one a word, in the image and in the ring, without loading them."""
        words = len(data) // row_bytes
        base = self._ring.take(words, self.plan.ring_bases[self.layer_index], held=self._holds)
        if base is None:
            raise AssertionError(f"{words} words of constants do not fit the ring of {self.ring_words()}")
        if not self.config.compressed_weights:
            self.image.add(data)
        return Constants(base, words, data, row_bytes)

    def bring(self, constants: Constants, first: int, last: int) -> Access:
        """Load words `first` to `last` of allocated constants; return the written access."""
        return self.bring_each(constants, first, last, 1, 0)[0]

    def bring_each(self, constants: Constants, first: int, last: int, count: int, step: int) -> tuple[Access, ...]:
        """Load words `first` to `last` and the same range every `step` words, `count` ranges in all."""
        words, size = last - first, constants.row_bytes
        at = [constants.base + first + number * step for number in range(count)]
        accesses = tuple(Access("pad", base, base + words) for base in at)
        data = constants.data
        wanted = data[first * size:last * size] if count == 1 else b"".join(
            data[(first + number * step) * size:(last + number * step) * size] for number in range(count))
        coded = coded_rows(wanted, size, self.config, self.memory)
        if coded is not None:
            more = {"memory_offset_bytes": self.image.add(coded), "run_bytes": len(coded), "coded": 1, "count1": count,
                    "step1": step, "count2": 1}
        else:
            more = {"memory_offset_bytes": self.image.add(data) + first * size, "run_bytes": words * size, "count1": 1,
                    "count2": count, **({"step2": step, "stride2_bytes": step * size} if count > 1 else {})}
        self.load({"region": REGION_IMAGE, "destination": at[0], "emit_bytes": size, "advance_bytes": size,
                   "last_emit_bytes": size, "last_advance_bytes": size, "count0": words, "step0": 1, "count3": 1,
                   **more}, (), accesses)
        return accesses

    def constant(self, data: bytes, row_bytes: int) -> tuple[int, Access]:
        """Load rows of `row_bytes` bytes, one a word, into the ring; return the first word and the written access."""
        placed = self.place(data, row_bytes)
        return placed.base, self.bring(placed, 0, placed.words)

    def keep(self, constants: Constants) -> None:
        """Record that constants remain in the ring until they are overwritten."""
        self._kept[constants.data] = constants

    def kept(self, data: bytes) -> Constants | None:
        """Return constants that are still in the ring of this layer, and hold them there; None if they are not."""
        found = self._kept.get(data)
        if found is None or found.base < self.plan.ring_bases[self.layer_index]:
            return None
        self._ring.live.append((found.base, found.base + found.words))
        return found

    def _written(self, writes: tuple[Access, ...]) -> None:
        """Forget constants that these writes overwrite."""
        over = [data for data, at in self._kept.items() for access in writes
                if access.space == "pad" and access.low < at.base + at.words and at.base < access.high]
        for data in over:
            self._kept.pop(data, None)

    # Operations

    def load(self, fields: Mapping[str, int], reads: tuple[Access, ...], writes: tuple[Access, ...]) -> Operation:
        """Emit a load."""
        self._written(writes)
        self._ring.touch(writes)
        return self.stream.add(Unit.LOAD, fields, reads, writes, self.layer_index)

    def array(self, fields: Mapping[str, int], reads: tuple[Access, ...], meaning: Meaning | None = None) -> Operation:
        """Emit an array operation."""
        self._ring.touch(reads)
        return self.stream.add(Unit.ARRAY, fields, reads, (), self.layer_index, meaning)

    def vector(self, fields: Mapping[str, int], reads: tuple[Access, ...], writes: tuple[Access, ...],
               meaning: Meaning | None = None) -> Operation:
        """Emit a vector operation."""
        self._written(writes)
        self._ring.touch((*reads, *writes))
        return self.stream.add(Unit.VECTOR, fields, reads, writes, self.layer_index, meaning)

    def choice(self) -> Choice:
        """Return the choice for this layer; a layer that alternates with the one before it has that one's choice."""
        number, layers = self.layer_index, self.graph.layers
        if number and alternates(layers[number - 1], layers[number]):
            number -= 1
        return self.choices.get(number, Choice())

    def new_buffer(self, name: str, kind: str = "strip") -> int:
        """Return a new number for a scratchpad buffer of (a part of) tensor `name`."""
        self.buffers.append((name, kind))
        return len(self.buffers) - 1

    @property
    def arena_bytes(self) -> int:
        """Size of the arena."""
        return self.arena.size_bytes

    def places(self) -> list[tuple[str, int, int, int, tuple[int, int]]]:
        """Name, region, first byte, size, first and last layer of every tensor in system memory.

        Two tensors whose layers do not overlap may share bytes.
        """
        roots = {id(v.root): v.root for layer in self.graph.layers for v in (*layer.inputs, layer.output)}
        roots |= {id(v.root): v.root for v in (*self.graph.inputs, *self.graph.outputs)}
        return [(roots[key].name, region, offset, roots[key].size_bytes, self._lives[key])
                for key, (region, offset) in self._memory.items()]

    # Micro-operations

    def has_program_room(self, count: int) -> bool:
        """Whether programs of `count` micro-operations in all fit in addition to the present ones."""
        return self._uop_at + count <= self.config.uops

    def reserve_program(self, count: int) -> None:
        """Make sure that the next programs, `count` micro-operations in all, do not overwrite each other."""
        if not self.has_program_room(count):
            self._uops.clear()
            self._uop_at = 0

    def program(self, uops: Sequence[Mapping[str, int]]) -> Code:
        """Write a program to the micro-operation memory, unless it is already there."""
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
