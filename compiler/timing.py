"""When every operation begins and ends: the units, their queues, tokens, accumulator buffers and the bus, tile by tile.

The figures are those of docs/units, with a memory of `bus_bytes` per cycle and the latency that the yardsticks have.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.stream import Operation, Stream
from tq_hw.isa.config import Config
from tq_hw.isa.layout import ArrayMode, Unit, VectorKind

__all__ = ["Timeline", "layer_cycles", "moved_bytes", "run_times"]

#: By unit, the cycles in which each RUN begins and is done: [runs, 2].
Timeline = dict[Unit, npt.NDArray[np.int64]]

#: Cycles of memory latency that estimates are made for.
_LATENCY = 30
#: From a load's start to its first burst, from a beat to its word, from the last word to `done`.
_LOAD_BEGIN, _LOAD_END = 7, 9
#: From a store's start to its first word, from its last beat to `done`.
_STORE_BEGIN, _STORE_END = 6, 12
#: From the last slot of an array operation to sums that can be read.
_ARRAY_END = 28
#: Start of an array operation, beside the rows of weights, when they are not fetched under the one before; least
#: cycles between operations.
_ARRAY_BEGIN, _ARRAY_LEAST = 8, 10
_STEP_LEAST, _TILE_LEAST = 5, 7
#: From a slot of the array to its sum's addition.
_ADD_DELAY = 22
#: From a beat of the vector unit to its result, from one micro-operation to the next that reads it, a reduction.
_VECTOR_END, _UOP_GAP, _REDUCE_GAP = 30, 23, 30
_VECTOR_LEAST = 7
#: Start of a program over streams; words of a micro-operation's command.
_PROGRAM_BEGIN, _UOP_WRITE = 6, 4
#: From tokens to the operation they let go.
_TOKEN = 4
#: Commands reach the units so many cycles after the start.
_FIRST = 68
#: Bytes of commands that are fetched ahead of the load that is begun; they take turns with its data on the bus.
_AHEAD_BYTES = 1600
#: What the units' queues hold of commands, as far as it is used.
_QUEUES_BYTES = 4096
#: One word in so many of a load of windows is refused.
_CONTENDED = 4


@dataclass
class _Tile:
    """A tile on its way: cycles of the array, whether it opens and closes a buffer, rows of weights of a step."""

    cycles: int
    opens: bool
    closes: bool
    operation: int
    ready: int
    rows: int
    last: bool
    steps: int


@dataclass
class _Clock:
    config: Config
    command_bytes: int = 0
    #: Beats of commands that are fetched already, and those up to each load.
    fetched: int = 0
    needed: dict[int, int] = field(default_factory=dict)
    began: dict[int, int] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    free: dict[Unit, int] = field(default_factory=lambda: dict.fromkeys(Unit, _FIRST))
    bus: int = 0
    words: int = 0
    tiles: deque[_Tile] = field(default_factory=deque)
    sums: deque[int] = field(default_factory=deque)
    released: deque[int] = field(default_factory=deque)
    buffers: int = 0
    drained: int = 0
    storing: tuple[int, int] = (0, 0)
    queues: dict[Unit, deque[Operation]] = field(default_factory=dict)
    adding: dict[int, tuple[int, int]] = field(default_factory=dict)
    filled: int = 0
    emptied: int = 0

    def tokens(self, operation: Operation) -> int:
        """When everything that an operation waits for is done."""
        return max((self.done[id(other)] + _TOKEN for other in operation.after if id(other) in self.done), default=0)

    def load(self, operation: Operation) -> None:
        f = operation.fields
        start = max(self.tokens(operation), self.free[Unit.LOAD])
        size = moved_bytes(operation)
        first = start + _LOAD_BEGIN + _LATENCY if size else start
        first_beat = max(self.bus, first)
        beats = -(-size // self.config.bus_bytes)
        # Commands take turns with the data; what came while the bus was idle costs nothing.
        needed = self.needed.get(id(operation), 0)
        if self.bus:
            most = min(needed + _QUEUES_BYTES // self.config.bus_bytes, self.command_bytes // self.config.bus_bytes)
            self.fetched = max(self.fetched, min(most, self.fetched + first_beat - self.bus))
        fetch = min(max(0, needed - self.fetched), beats)
        self.fetched += fetch
        self.bus = first_beat + beats + fetch
        # Loads and stores share the bus: what overlaps takes twice as long.
        shared = max(0, min(self.storing[1], self.bus) - max(self.storing[0], first_beat))
        self.bus += shared
        self.storing = (self.storing[0], self.storing[1] + shared)
        count = f["count0"] * f["count1"] * f["count2"] * f["count3"]
        # Windows of which a beat gives two or more meet the vector unit's words at the banks.
        count += count // _CONTENDED if count >= 2 * beats else 0
        self.words = max(self.words, first, self.bus - count) + count
        self.free[Unit.LOAD] = start + f["count2"] * f["count3"]
        self.began[id(operation)] = start
        self.done[id(operation)] = max(self.bus, self.words) + _LOAD_END

    def store(self, operation: Operation) -> None:
        f = operation.fields
        start = max(self.tokens(operation), self.free[Unit.STORE])
        runs = f["count2"] * f["count3"]
        count = f["count0"] * f["count1"] * runs
        per_run = moved_bytes(operation) // runs
        beats = runs * (-(-per_run // self.config.bus_bytes) + (per_run % self.config.bus_bytes != 0))
        begin = max(start + _STORE_BEGIN, self.storing[1])
        shared = max(0, min(self.bus - begin, beats))
        self.bus += shared
        self.storing = (begin, begin + beats + shared)
        self.free[Unit.STORE] = max(begin + count, self.storing[1])
        self.began[id(operation)] = start
        self.done[id(operation)] = self.free[Unit.STORE] + _STORE_END + _LATENCY // 2

    def run(self, stream: Stream) -> None:
        """Let every unit go on as far as what it waits for is known, until all are through."""
        for unit, operations in stream.by_unit.items():
            self.queues[unit] = deque(operations)
        writes, count = {}, 0
        for kind, item in stream.items:
            if kind == "uop":
                count += 1
            elif isinstance(item, Operation) and item.unit is Unit.VECTOR:
                writes[id(item)], count = count, 0
        self._commands(stream)
        while any(self.queues.values()):
            moved = self._advance()
            if self._known(Unit.VECTOR):
                operation = self.queues[Unit.VECTOR].popleft()
                if writes[id(operation)]:
                    # Micro-operations are written when nothing is in flight.
                    self.free[Unit.VECTOR] = max(self.free[Unit.VECTOR], self.drained) + (
                        _UOP_WRITE * writes[id(operation)])
                self.vector(operation)
            elif not moved:
                raise AssertionError("commands wait for each other")

    def _commands(self, stream: Stream) -> None:
        """Work out how much of the commands is fetched when each load begins."""
        each = self.command_bytes / max(1, len(stream.items))
        for number, (_, item) in enumerate(stream.items):
            if isinstance(item, Operation) and item.unit is Unit.LOAD:
                fetched = min(self.command_bytes, (number + 1) * each + _AHEAD_BYTES)
                self.needed[id(item)] = int(fetched) // self.config.bus_bytes

    def _known(self, unit: Unit) -> bool:
        """Whether all that the unit's next operation waits for has been worked out."""
        queue = self.queues[unit]
        return bool(queue) and all(id(other) in self.done for other in queue[0].after)

    def _advance(self) -> bool:
        """Let load, array and store go on; whether one of them did."""
        before = self._waiting()
        while self._known(Unit.LOAD):
            self.load(self.queues[Unit.LOAD].popleft())
        while self._known(Unit.ARRAY):
            self.array(self.queues[Unit.ARRAY].popleft())
        self._run_array()
        while self._known(Unit.STORE):
            self.store(self.queues[Unit.STORE].popleft())
        return self._waiting() != before

    def _waiting(self) -> tuple[int, int]:
        """Operations, of all units, and tiles that have not been worked out."""
        return sum(map(len, self.queues.values())), len(self.tiles)

    def array(self, operation: Operation) -> None:
        f = operation.fields
        ready = self.tokens(operation)
        sizes, steps = _tile_cycles(f, self.config)
        for number, cycles in enumerate(sizes):
            self.tiles.append(_Tile(cycles, bool(f["acc_first"]), bool(f["acc_last"]), id(operation), ready,
                                    f["weight_rows"], number == len(sizes) - 1, steps))

    def _run_array(self) -> None:
        """Run the tiles whose buffers are known to become free."""
        while self.tiles:
            tile = self.tiles[0]
            start = max(self.free[Unit.ARRAY], tile.ready + _ARRAY_BEGIN + tile.rows)
            if tile.opens:
                if self.buffers >= self.config.acc_buffers:
                    if not self.released:
                        return
                    start = max(start, self.released.popleft())
                else:
                    self.buffers += 1
            self.tiles.popleft()
            self.began.setdefault(tile.operation, start)
            self.free[Unit.ARRAY] = start + tile.cycles
            if tile.steps > 1 or not tile.opens:
                first = start + (tile.cycles // tile.steps if tile.opens else 0)
                low = self.adding.get(self.filled, (first, 0))[0]
                self.adding[self.filled] = (low + _ADD_DELAY, start + tile.cycles + _ADD_DELAY)
            self.filled += tile.closes
            if tile.closes:
                self.sums.append(start + tile.cycles + _ARRAY_END)
            if tile.last:
                self.done[tile.operation] = start + tile.cycles + _ARRAY_END

    def vector(self, operation: Operation) -> None:
        f, config = operation.fields, self.config
        at = max(self.tokens(operation) + 2, self.free[Unit.VECTOR])
        self.began[id(operation)] = at
        if f.get("kind") == VectorKind.LOAD_TABLE:
            at += f["slots"]
        elif f.get("use_acc"):
            for size in _tiles(f):
                while not self.sums:
                    if not self._advance():
                        raise AssertionError("a tile waits for what comes behind its requantization")
                at = max(at, self.sums.popleft())
                took = max(2, size * config.beats_per_acc_word)
                # A buffer cannot be read while the array adds to another one in the same memory.
                low, high = self.adding.pop(self.emptied + 2, (0, 0))
                at = max(at, high) if low <= at else at
                at += took + (high - low if at < low < at + took else 0)
                self.emptied += 1
                self.released.append(at + 4)
        else:
            at = max(at, self.drained) + _PROGRAM_BEGIN + _program_cycles(operation, config)
        self.drained = at + _UOP_GAP
        self.free[Unit.VECTOR] = max(at, self.free[Unit.VECTOR] + _VECTOR_LEAST)
        self.done[id(operation)] = at + _VECTOR_END


def _tiles(f: Mapping[str, int]) -> list[int]:
    """Slots of each tile in turn."""
    whole, rest = divmod(f["slots"], f["tile_slots"])
    return ([f["tile_slots"]] * whole + [rest] * (rest > 0)) * f["out_blocks"] if not f["blocks_inner"] else [
        size for size in [f["tile_slots"]] * whole + [rest] * (rest > 0) for _ in range(f["out_blocks"])]


def _tile_cycles(f: Mapping[str, int], config: Config) -> tuple[list[int], int]:
    """Cycles of each tile, and steps of one."""
    rows = f["weight_rows"]
    least = max(rows, _STEP_LEAST)
    found = []
    steps = 1
    for size in _tiles(f):
        slots = size
        if f["mode"] == ArrayMode.DEPTHWISE:
            steps = -(-f["kernel_rows"] // config.groups) * -(-f["kernel_cols"] // 3)
            slots = size // f["out_cols"] * f["period"]
        else:
            steps = f["kernel_rows"] * f["kernel_cols"] * f["kernel_blocks"] * f["slices"]
        # Weights and input meet in a bank once, then go on out of step; with several taps, in every row of the image.
        taps = f["kernel_rows"] * f["kernel_cols"]
        refused = 0 if steps == 1 or size == 1 else 1 if taps == 1 else min(-(-size // f["out_cols"]), rows // 4)
        found.append(max(steps * max(slots, least + refused), _TILE_LEAST))
    found[0] = max(found[0], _ARRAY_LEAST)
    return found, steps


def _program_cycles(operation: Operation, config: Config) -> int:
    """Cycles of a program over streams: every micro-operation takes its beats, or the way to its result."""
    f = operation.fields
    beats, elements = config.beats_per_word, (1, 2, 4, 1)
    slowest = max(elements[f.get(name, 0)] for name in ("a_type", "b_type", "out_type"))
    per_slot = beats * (1 if slowest == 1 else -(-config.requantize_lanes * slowest // config.word_bytes))

    def chunk_cycles(slots: int) -> int:
        return _chunk_cycles(f, operation.uops, slots * per_slot)

    def tile_cycles(slots: int) -> int:
        return _in_parts(slots, f["chunk_slots"], chunk_cycles)
    return _in_parts(f["slots"], f["tile_slots"], tile_cycles) * f["out_blocks"]


def _in_parts(slots: int, limit: int, cycles: Callable[[int], int]) -> int:
    """Cycles of slots that are worked on `limit` at a time."""
    whole, rest = divmod(slots, limit)
    return (whole * cycles(limit) if whole else 0) + (cycles(rest) if rest else 0)


def _chunk_cycles(f: Mapping[str, int], uops: Sequence[Mapping[str, int]], beats: int) -> int:
    count = f["last"] - f["first"] + 1
    body = f["body_last"] - f["body_first"] + 1
    if count == 1 and body <= 0:
        return beats
    if len(uops) != count:
        return beats * (count + body * (f["repeat1"] * f["repeat2"] - 1))
    first = f["body_first"] - f["first"]
    order = [*range(first), *list(range(first, first + body)) * (f["repeat1"] * f["repeat2"]),
             *range(first + body, count)]
    written: dict[int, int] = {}
    at = 0
    for number in order:
        uop = uops[number]
        at = max([at, *(written.get(uop.get(f"{name}_register", 0), 0) for name in "ab"
                        if uop.get(f"{name}_source") == 1)])
        took = 1 if uop.get("once") else beats
        reduces = uop.get("destination") == 2
        if uop.get("destination", 0) != 1:
            written[uop.get("d_register", 0)] = at + (took + _REDUCE_GAP - 1 if reduces else _UOP_GAP)
        at += took
    return at


def moved_bytes(operation: Operation) -> int:
    """Bytes that a load or store moves."""
    f = operation.fields
    if operation.unit is Unit.LOAD:
        return f.get("run_bytes", 0) * f["count2"] * f["count3"]
    if operation.unit is Unit.STORE:
        pixel = (f["count0"] - 1) * f["take_bytes"] + f["last_take_bytes"]
        return pixel * f["count1"] * f["count2"] * f["count3"]
    return 0


def run_times(stream: Stream, config: Config, command_bytes: int = 0) -> Timeline:
    """Return when each RUN begins and is done, from a cold start; `command_bytes` of the assembled stream."""
    clock = _Clock(config, command_bytes)
    clock.run(stream)
    return {unit: np.array([(clock.began[id(operation)], clock.done[id(operation)]) for operation in operations],
                           np.int64).reshape(-1, 2) for unit, operations in stream.by_unit.items()}


def layer_cycles(stream: Stream, times: Timeline, indices: Sequence[int]) -> dict[int, int]:
    """By operator (`indices` has it for each layer) the time from the end of what ended before to its own end.

    The operators are in the order of their ends.
    """
    ends: dict[int, int] = {}
    for unit, operations in stream.by_unit.items():
        for operation, done in zip(operations, times[unit][:, 1].tolist(), strict=True):
            index = indices[operation.layer]
            ends[index] = max(ends.get(index, 0), done)
    found, before = {}, 0
    for layer, end in sorted(ends.items(), key=lambda item: item[1]):
        found[layer] = end - before
        before = end
    return found
