"""Replay of a stream in program order, byte by byte: every operation must read the contents that the graph requires."""

from functools import lru_cache
from operator import itemgetter

import numpy as np

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.ir.meaning import LookUp, Part, Scratch, Streams, Sums, Terms, Tile, Walk
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import block_count
from tq_hw.compiler.stream.stream import FoldWrite, Operation, Stream, UopWrite
from tq_hw.compiler.stream.uses import Uses, body_of, register_span, uses
from tq_hw.compiler.verify.coded import DecodedRows
from tq_hw.compiler.verify.contents import Contents, size_of, states
from tq_hw.compiler.verify.machine import Buffers, Machine
from tq_hw.compiler.verify.moved import look_up, move_program
from tq_hw.compiler.verify.moves import load, store
from tq_hw.compiler.verify.numbers import Bytes, Numbers
from tq_hw.compiler.verify.products import moved_bytes, product_terms
from tq_hw.compiler.verify.programs import load_table
from tq_hw.compiler.verify.slots import tile_order
from tq_hw.compiler.verify.streams import program
from tq_hw.compiler.verify.windows import window_part
from tq_hw.isa.layout import Unit, VectorKind
from tq_hw.isa.program import REGION_ARENA, REGION_IMAGE, REGION_STATE
from tq_hw.model.errors import DataflowError

__all__ = ["Replay"]

#: Most layers before the latest one that can still have operations.
_ALTERNATING = 16
_LOOPS = ("count0", "count1", "count2", "count3")
#: Fields that must be at least 1.
_COUNTS = {Unit.LOAD: itemgetter(*_LOOPS), Unit.STORE: itemgetter(*_LOOPS),
           Unit.ARRAY: itemgetter("slots", "out_cols", "out_blocks", "tile_slots"),
           Unit.VECTOR: itemgetter("slots", "cols", "out_blocks", "tile_slots", "chunk_slots", "repeat1", "repeat2")}


#: The fields that, in addition to the micro-operations, determine the use of registers.
_USED = itemgetter("first", "last", "body_first", "body_last", "use_acc", "chunk_slots", "tile_slots", "slots")


def _scratch_bytes(stream: Stream) -> int:
    """Return the number of intermediate bytes of layers."""
    found: dict[int, int] = {}
    for operation in stream.operations:
        meaning = operation.meaning
        walks = (meaning.a, meaning.b, meaning.out) if isinstance(meaning, Streams) else ()
        for walk in walks:
            if isinstance(walk, Walk) and isinstance(walk.of, Scratch):
                found[id(walk.of)] = walk.of.size_bytes
    return sum(found.values())


@lru_cache(maxsize=1024)
def _cover(kernel: tuple[int, ...], parts: tuple[tuple[tuple[int, int], ...], ...]) -> bool:
    """Whether parts of a kernel (ranges of rows, columns and blocks) cover each tap exactly once."""
    taps = np.zeros(kernel, np.int64)
    for part in parts:
        taps[tuple(slice(*axis) for axis in part)] += 1
    return bool((taps == 1).all())


class Replay:
    """A model's emission, and the machine that replays its stream, after another stream or from a cold start."""

    def __init__(self, emitter: Emitter, stream: Stream, earlier: Machine | None = None) -> None:
        self.emitter, self.stream, self.config = emitter, stream, emitter.config
        self.names = [f"operator {layer.index} ({layer.op})" for layer in emitter.graph.layers]
        image = bytes(emitter.image.data)
        # The runs of the first stream, which include those of a later one: numbers stay the same.
        rows = DecodedRows(emitter.stream, image, self.config)
        self.numbers = Numbers(image, size_of(emitter.graph) + _scratch_bytes(stream), rows.data)
        self.contents = Contents(emitter.graph, self.numbers, self.names, self._constant)
        self.machine = Machine(self.config, self.numbers, self.contents, self.names, rows)
        sizes = {REGION_ARENA: emitter.arena_bytes, REGION_STATE: len(emitter.state)}
        for number, size in sizes.items():
            self.machine.add_region(number, size)
        if earlier is not None:
            self.machine.pad.put(np.arange(self.config.scratchpad_words), 0, earlier.left())
        self._layer = -1
        self._uses: dict[tuple[int, ...], Uses] = {}
        for value in self._roots():
            if value.initial is not None or any(port.root is value for port in emitter.graph.inputs):
                region, offset = emitter.memory_of(value)
                self.machine.regions[region].bytes.fill(offset, self.contents.first(value))

    def _roots(self) -> list[Value]:
        """Return the roots that are in memory."""
        graph = self.emitter.graph
        values = [*graph.inputs, *graph.outputs, *(v for layer in graph.layers for v in (*layer.inputs, layer.output))]
        return list({id(v.root): v.root for v in values if self.emitter.has_place(v)}.values())

    def _constant(self, value: Value) -> int:
        """Return the number of a constant tensor's first byte; the image must have its bytes at its offset."""
        assert value.data is not None
        region, offset = self.emitter.memory_of(value)
        data = value.data.tobytes()
        if region != REGION_IMAGE or self.numbers.image[offset:offset + len(data)] != data:
            raise DataflowError(f"the image does not hold the constant {value.name!r}")
        return self.numbers.constant(offset)

    def run(self) -> None:
        """Replay all operations; DataflowError names the first with other contents or an unordered access."""
        machine = self.machine
        for item in self.stream.items:
            match item:
                case Operation():
                    machine.begin(item)
                    self._forget(item.layer)
                    try:
                        self._operation(item)
                    except DataflowError as error:
                        raise DataflowError(f"{machine.title()}: {error}") from None
                    except (ArithmeticError, AssertionError, LookupError, ValueError) as error:
                        raise DataflowError(f"{machine.title()}: its fields do not fit its purpose: "
                                            f"{error}") from None
                case FoldWrite():
                    machine.folds[item.step] = item.feeds
                    machine.versions["folds"] += 1
                case UopWrite():
                    machine.uops[item.index] = item.values
                    machine.versions["uops"] += 1
        self._finish()

    def _forget(self, layer: int) -> None:
        """Forget the contents for layers far before: at most the layers of a group alternate."""
        if layer > self._layer:
            self._layer = layer
            self.contents.follow(layer)
            self.contents.drop(layer - _ALTERNATING)

    def _operation(self, operation: Operation) -> None:
        machine = self.machine
        machine.order.begin(operation)
        counts = _COUNTS[operation.unit](machine.fields)
        if min(counts) < 1:
            raise DataflowError(f"one of its counts is {next(count for count in counts if count < 1)}")
        if operation.unit is Unit.LOAD:
            load(machine)
        elif operation.unit is Unit.STORE:
            store(machine)
        elif operation.unit is Unit.ARRAY:
            self._array(operation)
        elif machine.fields["kind"] == VectorKind.LOAD_TABLE:
            load_table(machine)
        else:
            self._vector(operation)
        machine.end()

    def _array(self, operation: Operation) -> None:
        f, machine, meaning = self.machine.fields, self.machine, operation.meaning
        sums: Sums | None = None
        moved: Bytes | None = None
        if isinstance(meaning, Part):
            window_part(machine, meaning)
            sums = meaning.tile
        elif isinstance(meaning, Terms):
            product_terms(machine, meaning)
            sums = meaning.sums
        else:
            moved = moved_bytes(machine)
        parts = [meaning] if isinstance(meaning, Part | Terms) else []
        order = tile_order(f["out_blocks"], f["slots"], f["tile_slots"], bool(f["blocks_inner"]))
        buffers = Buffers(*order, sums, moved, parts)
        before, machine.open = machine.open, None
        if not f["acc_first"]:
            if before is None or sums is None or before.sums is not sums or not all(
                    map(np.array_equal, (before.block, before.first, before.last), order)):
                raise DataflowError("it adds to sums that are not those of its tile")
            buffers.parts[:0] = before.parts
        if not f["acc_last"]:
            machine.open = buffers
            return
        if sums is not None:
            self._check_whole(sums, buffers.parts)
        machine.full.append(buffers)

    def _check_whole(self, sums: Sums, parts: list[Part | Terms]) -> None:
        """Check that the operations on some buffers complete their sums: every part exactly once."""
        if not isinstance(sums, Tile):
            if sorted(part.part for part in parts if isinstance(part, Terms)) != list(range(sums.parts)):
                raise DataflowError(f"{len(parts)} operations add to sums of {sums.parts} parts")
            return
        layer, windows = sums.layer, [part for part in parts if isinstance(part, Part)]
        single = layer.depthwise or windows[0].fold is not None
        blocks = 1 if single else block_count(layer.inputs[0].shape[3], self.config)
        if not _cover((*layer.kernel, blocks), tuple((part.rows, part.cols, part.blocks) for part in windows)):
            raise DataflowError("the operations on a tile do not cover each tap of its kernel once")

    def _vector(self, operation: Operation) -> None:
        machine, meaning, f = self.machine, operation.meaning, self.machine.fields
        if isinstance(meaning, Streams | LookUp):
            uops, key = meaning.code.uops, id(meaning.code)
        else:
            uops = tuple(machine.uops.get(index, {}) for index in range(f["first"], f["last"] + 1))
            key = -machine.versions["uops"]
        parts = key, *_USED(f)
        found = self._uses.get(parts)
        if found is None:
            found = self._uses[parts] = uses(uops, body_of(f), register_span(f, self.config))
        if isinstance(meaning, Streams):
            program(machine, meaning, found)
        elif isinstance(meaning, LookUp):
            look_up(machine, meaning, found)
        else:
            move_program(machine, uops, found)

    def _finish(self) -> None:
        """Check the final state: outputs, states, unread accumulators."""
        graph, machine = self.emitter.graph, self.machine
        if machine.full or machine.open:
            raise DataflowError("accumulator buffers are never read")
        for value in [*graph.outputs, *states(graph)]:
            if value.root.data is not None:
                continue
            region, offset = self.emitter.memory_of(value)
            wanted, memory = self.contents.left(value), machine.regions[region].bytes
            at = memory.differs(offset, wanted)
            if at is not None:
                there, should = (machine.numbers.describe(int(number)) for number in (
                    memory.slice(offset + at, 1)[0], wanted[at]))
                raise DataflowError(f"byte {at} of {value.name!r} is {there} in the end, "
                                    f"{machine.writer_of(region, offset + at)}; it should be {should}")


