"""When every operation begins and ends: the units, their queues, tokens, accumulator buffers and the bus, tile by tile.

The figures are those of docs/units; the memory is a parameter.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.command_queues import beats_needed, held_up, uop_words
from tq_hw.compiler.operation_cycles import (
    activation_cycles,
    keeps_to_two_banks,
    moved_bytes,
    program_cycles,
    read_beside,
    tile_cycles,
    tile_program_cycles,
    tile_sizes,
)
from tq_hw.compiler.stream import Commands, Operation, Stream
from tq_hw.isa.config import Config
from tq_hw.isa.encode import WORD_BYTES
from tq_hw.isa.layout import QUEUE_WORDS, Unit, VectorKind
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import UnsupportedError

__all__ = ["Timeline", "layer_cycles", "run_times"]

#: By unit, the cycles in which each RUN begins and is done: [runs, 2].
Timeline = dict[Unit, npt.NDArray[np.int64]]

#: From a load's start to its first burst, from a beat to its word, from the last word to `done`.
_LOAD_BEGIN, _LOAD_END = 7, 9
#: From a store's start to its first word, from its last beat to `done`.
_STORE_BEGIN, _STORE_END = 6, 12
#: From the last slot of an array operation to sums that can be read.
_ARRAY_END = 28
#: Start of an array operation, beside the rows of weights, when they are not fetched under the one before.
_ARRAY_BEGIN = 8
#: From a slot of the array to its sum's addition.
_ADD_DELAY = 22
#: From a beat of the vector unit to its result; from an operation's last beat to the first of one that reads a stream.
_VECTOR_END, _DRAIN = 30, 26
#: From an operation of the vector unit to the next, at least.
_VECTOR_LEAST = 7
#: Start of a program over streams; of one behind micro-operations, beside a cycle for each word of commands.
_PROGRAM_BEGIN, _UOP_BEGIN = 6, 16
#: From the end of outputs to a table's first entry; start of parameters, if nothing is under way meanwhile.
_TABLE_BEGIN, _PARAMS_BEGIN = 2, 12
#: One entry of a table in so many is late while the array reads.
_TABLE_CONTENDED = 6
#: From tokens to the operation they let go.
_TOKEN = 4
#: Commands reach the units so many cycles after the start, beside the memory's latency.
_FIRST = 38
#: What the queues of array and vector unit hold of commands.
_QUEUES_BYTES = 2 * QUEUE_WORDS * WORD_BYTES
#: One word in so many of a load of windows is refused.
_CONTENDED = 4


@dataclass
class _Tile:
    """A tile on its way: cycles of the array, whether it opens and closes a buffer, rows of weights of a step.

    In `adds` of the cycles it adds to what is there. It is tile `number` of its operation; `together`: of several whose
    buffers are open at once.
    """

    number: int
    cycles: int
    opens: bool
    closes: bool
    operation: int
    ready: int
    rows: int
    last: bool
    steps: int
    even: bool
    adds: int
    together: bool


@dataclass
class _Clock:
    config: Config
    commands: Commands
    memory: Memory
    names: Sequence[str] = ()
    #: Beats of commands that are fetched already, and those up to each load.
    fetched: int = 0
    needed: dict[int, int] = field(default_factory=dict)
    #: By load: operations that must have begun, for its commands are behind theirs in full queues.
    behind: dict[int, list[Operation]] = field(default_factory=dict)
    began: dict[int, int] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    free: dict[Unit, int] = field(init=False)
    bus: int = 0
    words: int = 0
    tiles: deque[_Tile] = field(default_factory=deque)
    sums: deque[int] = field(default_factory=deque)
    released: deque[int] = field(default_factory=deque)
    buffers: int = 0
    drained: int = 0
    written: int = 0
    storing: tuple[int, int] = (0, 0)
    queues: dict[Unit, deque[Operation]] = field(default_factory=dict)
    #: By tile, when the array adds to it, from and to, and in how many of these cycles.
    adding: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    #: Tiles, from and to; those whose input words stay in two banks.
    under_way: deque[tuple[int, int]] = field(default_factory=deque)
    even: deque[tuple[int, int]] = field(default_factory=deque)
    filled: int = 0
    emptied: int = 0

    def __post_init__(self) -> None:
        """No unit begins before there are commands."""
        self.free = dict.fromkeys(Unit, _FIRST + self.memory.latency_cycles)

    def tokens(self, operation: Operation) -> int:
        """When everything that an operation waits for is done."""
        return max((self.done[id(other)] + _TOKEN for other in operation.after if id(other) in self.done), default=0)

    def load(self, operation: Operation) -> None:
        f = operation.fields
        queues = max((self.began[id(other)] for other in self.behind[id(operation)]), default=0)
        start = max(self.tokens(operation), self.free[Unit.LOAD], queues)
        size = moved_bytes(operation)
        first = start + _LOAD_BEGIN + self.memory.latency_cycles if size else start
        first_beat = max(self.bus, first)
        beats = -(-size // self.config.bus_bytes)
        runs = f["count2"] * f["count3"]
        took = self.memory.cycles(self.config, beats, runs, size // runs)
        # Commands take turns with the data; what came while the bus was idle costs nothing.
        needed = self.needed.get(id(operation), 0)
        if self.bus:
            most = min(needed + _QUEUES_BYTES // self.config.bus_bytes,
                       len(self.commands.data) // self.config.bus_bytes)
            self.fetched = max(self.fetched, min(most, self.fetched + first_beat - self.bus))
        fetch = min(max(0, needed - self.fetched), beats)
        self.fetched += fetch
        self.bus = first_beat + took + self.memory.cycles(self.config, fetch)
        # Loads and stores share the memory.
        shared = self.memory.slowed(
            self.config, max(0, min(self.storing[1], self.bus) - max(self.storing[0], first_beat)))
        self.bus += shared
        self.storing = (self.storing[0], self.storing[1] + shared)
        count = f["count0"] * f["count1"] * f["count2"] * f["count3"]
        # Windows of which a beat gives two or more meet the vector unit's words at the banks.
        count += count // _CONTENDED if count >= 2 * beats else 0
        self.words = max(self.words, first, self.bus - count) + count
        self.free[Unit.LOAD] = start + runs
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
        took = self.memory.cycles(self.config, beats, runs, per_run)
        shared = self.memory.slowed(self.config, max(0, min(self.bus - begin, took)))
        self.bus += shared
        self.storing = (begin, begin + took + shared)
        self.free[Unit.STORE] = max(begin + count, self.storing[1])
        self.began[id(operation)] = start
        self.done[id(operation)] = self.free[Unit.STORE] + _STORE_END + self.memory.latency_cycles // 2

    def run(self, stream: Stream) -> None:
        """Let every unit go on as far as what it waits for is known, until all are through."""
        self.names = stream.names
        for unit, operations in stream.by_unit.items():
            self.queues[unit] = deque(operations)
        uops = uop_words(stream, self.commands)
        self.needed = beats_needed(stream, self.config, self.commands)
        self.behind = held_up(stream, self.commands)
        while any(self.queues.values()):
            moved = self._advance()
            if self._known(Unit.VECTOR):
                operation = self.queues[Unit.VECTOR].popleft()
                if id(operation) in uops:
                    # Micro-operations are written when nothing is in flight.
                    self.free[Unit.VECTOR] = max(
                        self.free[Unit.VECTOR], self.drained + _UOP_BEGIN) + uops[id(operation)] + (
                        self.config.param_words + _PARAMS_BEGIN if operation.fields.get("use_params") else 0)
                self.vector(operation)
            elif not moved:
                raise self._stuck(next(queue for queue in self.queues.values() if queue)[0])

    def _stuck(self, operation: Operation) -> UnsupportedError:
        """Return the error about an operation that never starts."""
        name = self.names[operation.layer] if self.names else f"layer {operation.layer}"
        return UnsupportedError(f"{name} has commands that wait for others which wait for them, a fault of the "
                                "compiler; another configuration may cut the layer in another way")

    def _known(self, unit: Unit) -> bool:
        """Whether all that the unit's next operation waits for has been worked out."""
        queue = self.queues[unit]
        return bool(queue) and all(id(other) in self.done for other in queue[0].after) and (
            unit is not Unit.LOAD or all(id(other) in self.began for other in self.behind[id(queue[0])]))

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
        sizes, steps = tile_cycles(f, self.config)
        for number, (cycles, slots) in enumerate(zip(sizes, tile_sizes(f), strict=True)):
            self.tiles.append(_Tile(
                number, cycles, bool(f["acc_first"]), bool(f["acc_last"]), id(operation), ready, f["weight_rows"],
                number == len(sizes) - 1, steps, keeps_to_two_banks(f), (steps - f["acc_first"]) * slots,
                len(sizes) > 1 and not (f["acc_first"] and f["acc_last"])))

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
            self.under_way.append((start, start + tile.cycles))
            if tile.even:
                self.even.append(self.under_way[-1])
            if tile.steps > 1 or not tile.opens:
                first = start + (tile.cycles // tile.steps if tile.opens else 0)
                filling = self.filled + (0 if tile.closes else tile.number)
                begins = first + _ADD_DELAY, 0, 0
                low, _, adds = begins if tile.together else self.adding.get(filling, begins)
                self.adding[filling] = (low, start + tile.cycles + _ADD_DELAY, adds + tile.adds)
            self.filled += tile.closes
            if tile.closes:
                self.sums.append(start + tile.cycles + _ARRAY_END)
            if tile.last:
                self.done[tile.operation] = start + tile.cycles + _ARRAY_END

    def _refused(self, start: int, end: int) -> int:
        """Cycles that a program over streams waits for the array's input, which keeps to the same banks."""
        return _overlap(self.even, start, end) // (2 * self.config.beats_per_word)

    def vector(self, operation: Operation) -> None:
        f, config = operation.fields, self.config
        at = max(self.tokens(operation) + 2, self.free[Unit.VECTOR])
        self.began[id(operation)] = at
        if f.get("kind") == VectorKind.LOAD_TABLE:
            at = max(at, self.written + _TABLE_BEGIN)
            at += f["slots"] + _overlap(self.under_way, at, at + f["slots"]) // _TABLE_CONTENDED
        elif f.get("use_acc"):
            for size in tile_sizes(f):
                while not self.sums:
                    if not self._advance():
                        raise self._stuck(operation)
                at = max(at, self.sums.popleft())
                took = max(2, tile_program_cycles(operation, size, config.beats_per_acc_word, config))
                # A buffer cannot be read while the array adds to another one in the same memory.
                self._run_array()
                at = read_beside(at, took, *self.adding.pop(self.emptied + 2, (0, 0, 0)))
                self.emptied += 1
                self.released.append(at + 4)
        else:
            at = max(at, self.drained) + _PROGRAM_BEGIN
            cycles = program_cycles(operation, config)
            at += cycles + self._refused(at, at + cycles)
        later = activation_cycles(operation, config)
        self.drained = at + later + _DRAIN
        if f.get("kind") != VectorKind.LOAD_TABLE:
            self.written = self.drained
        self.free[Unit.VECTOR] = max(at, self.free[Unit.VECTOR] + _VECTOR_LEAST)
        self.done[id(operation)] = at + later + _VECTOR_END


def _overlap(tiles: deque[tuple[int, int]], start: int, end: int) -> int:
    """Cycles from `start` to `end` in which one of the tiles runs; those that end before are forgotten."""
    while tiles and tiles[0][1] <= start:
        tiles.popleft()
    return sum(max(0, min(high, end) - max(low, start)) for low, high in tiles)


def run_times(stream: Stream, config: Config, commands: Commands, memory: Memory) -> Timeline:
    """Return when each RUN begins and is done, from a cold start; `commands` is what the stream assembles to."""
    clock = _Clock(config, commands, memory)
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
