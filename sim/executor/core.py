"""The executor: four unit queues, tokens, accumulator hand-over, and the checks of a whole stream."""

import random
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.control import Status
from tq_hw.isa.encode import EncodeError
from tq_hw.isa.layout import QUEUE_WORDS, Unit, VectorKind
from tq_hw.isa.operations import Operation, operations
from tq_hw.isa.program import Program
from tq_hw.model.errors import OptionError
from tq_hw.sim import edges
from tq_hw.sim.executor import move
from tq_hw.sim.executor.array import array_tiles
from tq_hw.sim.executor.machine import AccBuffer, Bytes, Fault, Machine, require
from tq_hw.sim.executor.races import UNITS_IN_ORDER, Race, RaceChecker
from tq_hw.sim.executor.vector import load_table, run_tiles, vector_tiles
from tq_hw.sim.faults import SimulationError, located

__all__ = ["ExecutionResult", "Executor", "execute"]

Array = npt.NDArray[Any]
#: What an operation under way waits for, or None when it went on.
_Progress = Generator[str | None]

_MAX_TOKENS = 255


@dataclass(frozen=True, eq=False)
class ExecutionResult:
    """Outcome of one run.

    Members
    -------
    outputs : one array per output port, as the model has it
    state : region 2 after the run; pass it to the next run of a stateful model
    runs : RUN commands done, per unit
    tokens_left : tokens that nobody took, per (giver, taker)
    memory, scratchpad : contents after the run, when asked for with `keep`
    """

    outputs: tuple[Array, ...]
    state: bytes
    runs: dict[Unit, int]
    tokens_left: dict[tuple[Unit, Unit], int]
    memory: tuple[Bytes, ...] = ()
    scratchpad: Bytes | None = None
    _writers: npt.NDArray[np.int64] | None = None
    _stores: tuple[Operation, ...] = ()

    def writer_of_word(self, word: int) -> tuple[Unit, int] | None:
        """Return (unit, RUN) that wrote a scratchpad word last; None: nobody. Needs `keep`."""
        if self._writers is None:
            raise OptionError("who wrote a word is known only of a run with keep=True")
        value = int(self._writers[word])
        return None if value < 0 else (Unit(value >> 24), value & 0xFFFFFF)

    def writer_of(self, region: int, byte: int) -> tuple[Unit, int] | None:
        """Return (unit, RUN) that wrote a byte of a region last; None: the host. Needs `keep`."""
        if self._writers is None:
            raise OptionError("who wrote a byte is known only of a run with keep=True")
        for operation in reversed(self._stores):
            if operation.fields["region"] == region and move.store_covers(operation.fields, byte):
                return Unit.STORE, operation.run
        return None


@dataclass
class _Queue:
    """One unit: the commands that were dealt to it, and what it is doing.

    `words` counts the command words that wait behind those of the next operation.
    """

    unit: Unit
    waiting: deque[Operation] = field(default_factory=deque)
    words: int = 0
    active: Operation | None = None
    progress: _Progress | None = None
    blocked_by: str | None = None


@dataclass
class _Tokens:
    """Tokens from one unit to another: how many, and the giver's clock at each gift still to be taken."""

    count: int = 0
    gifts: deque[tuple[int, tuple[int, ...]]] = field(default_factory=deque)


class Executor:
    """Runs one program once.

    Units run whole operations (tiles, where accumulators are handed over) in an order that the tokens
    allow: seed 0 keeps to the stream's order where it can, other seeds draw the order, so that a
    missing token shows as a wrong result. `check_races` finds it for certain, in any order.
    """

    def __init__(self, program: Program, *, seed: int = 0, check_races: bool = False,
                 state: bytes | None = None, scratchpad: Bytes | None = None) -> None:
        self.program, self.seed = program, seed
        if state is not None and len(state) != len(program.state):
            raise OptionError(f"{program.name}: the state has {len(program.state)} bytes, not {len(state)}")
        rng = np.random.default_rng([seed, 1])
        memory = [np.frombuffer(program.image, np.uint8).copy(),
                  rng.integers(0, 256, program.arena_bytes, np.uint8),
                  np.frombuffer(program.state if state is None else state, np.uint8).copy(),
                  np.zeros(0, np.uint8)]
        sizes: dict[object, int] = {number: region.size for number, region in enumerate(memory)}
        sizes["scratchpad"] = program.config.scratchpad_words
        self.machine = Machine(program.config, memory, seed, RaceChecker(sizes) if check_races else None)
        if scratchpad is not None:
            self.machine.scratchpad[:] = scratchpad
        try:
            self._operations = operations(program.commands, program.config)
        except EncodeError as error:
            status = Status.NO_END if "no END" in str(error) else Status.BAD_COMMAND
            raise SimulationError(f"{program.name}: {status.name}: {error}", status, Unit.CONTROL) from None
        self._queues = {unit: _Queue(unit) for unit in UNITS_IN_ORDER}
        self._to_deal = deque(sorted((o for found in self._operations.values() for o in found),
                                     key=lambda operation: operation.position))
        self._tokens = {(giver, taker): _Tokens() for giver in UNITS_IN_ORDER for taker in UNITS_IN_ORDER}
        self._freed: deque[tuple[int, ...]] = deque([(0, 0, 0, 0)] * program.config.acc_buffers)
        self._random = random.Random(seed)

    def run(self, inputs: Sequence[Array], *, keep: bool = False) -> ExecutionResult:
        """Run the program on one array per input port.

        Raises OptionError for inputs that do not fit, SimulationError for whatever stops the machine:
        an error status, commands that wait for each other, a race (`check_races`), accumulators that
        nobody reads.
        """
        edges.check_inputs(self.program, inputs)
        machine = self.machine
        for port, array in zip(self.program.inputs, inputs, strict=True):
            data = np.frombuffer(edges.to_port(port, array), np.uint8)
            machine.memory[port.region][port.region_offset_bytes:port.region_offset_bytes + data.size] = data
        order = list(self._queues.values())
        while True:
            self._deal()
            if self.seed and self._random.random() < 0.125:
                self._random.shuffle(order)
            elif not self.seed:
                order.sort(key=_position)
            if not any(self._step(queue) for queue in order):
                break
        self._check_end()
        outputs = tuple(
            edges.from_port(port, machine.memory[port.region][
                port.region_offset_bytes:port.region_offset_bytes + port.size_bytes].tobytes())
            for port in self.program.outputs)
        left = {pair: tokens.count for pair, tokens in self._tokens.items() if tokens.count}
        runs = {unit: len(found) for unit, found in self._operations.items()}
        state = machine.memory[2].tobytes()
        if not keep:
            return ExecutionResult(outputs, state, runs, left)
        return ExecutionResult(outputs, state, runs, left, tuple(machine.memory), machine.scratchpad, machine.writers,
                               tuple(self._operations[Unit.STORE]))

    def _deal(self) -> None:
        """Give the units their commands in the stream's order; a full queue holds up all commands after.

        Words leave the queue when the operation before them is done: the hardware is never slower.
        """
        while self._to_deal:
            operation = self._to_deal[0]
            queue = self._queues[operation.unit]
            idle = not queue.waiting and queue.active is None
            if not idle and queue.words + operation.words > QUEUE_WORDS:
                return
            queue.words += 0 if idle else operation.words
            queue.waiting.append(self._to_deal.popleft())

    def _step(self, queue: _Queue) -> bool:
        """Let a unit do one piece of work; return whether it did."""
        if queue.progress is None and not self._start(queue):
            return False
        assert queue.active is not None and queue.progress is not None
        machine, operation = self.machine, queue.active
        machine.unit, machine.run = queue.unit, operation.run
        try:
            queue.blocked_by = next(queue.progress)
            return queue.blocked_by is None
        except StopIteration:
            self._finish(queue, operation)
            return True
        except Fault as fault:
            where = located(self.program, queue.unit, operation.run)
            raise SimulationError(f"{where}: {fault.status.name}: {fault}", fault.status, queue.unit,
                                  operation.run) from None
        except Race as race:
            first, second = (located(self.program, *who) for who in (race.first, race.second))
            raise SimulationError(f"race: {first} {race.did} and {second} {race.does} {race.where}, and no token "
                                  "orders them", None, *race.second) from None

    def _start(self, queue: _Queue) -> bool:
        if not queue.waiting:
            return False
        operation = queue.waiting[0]
        own = queue.unit.name.lower()
        if operation.fields[f"wait_{own}"] or operation.fields[f"post_{own}"]:
            raise SimulationError(f"{located(self.program, queue.unit, operation.run)}: BAD_OPERATION: a unit gives no "
                                  "tokens to itself", Status.BAD_OPERATION, queue.unit, operation.run)
        wanted = {giver: operation.fields[f"wait_{giver.name.lower()}"] for giver in UNITS_IN_ORDER}
        if any(self._tokens[giver, queue.unit].count < count for giver, count in wanted.items()):
            return False
        for giver, count in wanted.items():
            self._take(giver, queue.unit, count)
        queue.waiting.popleft()
        queue.active = operation
        queue.progress = getattr(self, f"_run_{queue.unit.name.lower()}")(operation)
        return True

    def _take(self, giver: Unit, taker: Unit, count: int) -> None:
        tokens = self._tokens[giver, taker]
        tokens.count -= count
        while count:
            given, clock = tokens.gifts.popleft()
            if self.machine.races is not None:
                self.machine.races.join(taker, clock)
            if given > count:
                tokens.gifts.appendleft((given - count, clock))
            count -= min(given, count)

    def _finish(self, queue: _Queue, operation: Operation) -> None:
        queue.active = queue.progress = queue.blocked_by = None
        if queue.waiting:
            queue.words -= queue.waiting[0].words
        races = self.machine.races
        for taker in UNITS_IN_ORDER:
            count = operation.fields[f"post_{taker.name.lower()}"]
            if not count:
                continue
            tokens = self._tokens[queue.unit, taker]
            tokens.count += count
            tokens.gifts.append((count, (0, 0, 0, 0) if races is None else races.snapshot(queue.unit)))
            if tokens.count > _MAX_TOKENS:
                where = located(self.program, queue.unit, operation.run)
                raise SimulationError(
                    f"{where}: TOKEN_OVERFLOW: the {taker.name.lower()} unit would hold {tokens.count} tokens, at most "
                    f"{_MAX_TOKENS} are allowed", Status.TOKEN_OVERFLOW, queue.unit, operation.run)

    def _tick(self, operation: Operation) -> None:
        if self.machine.races is not None:
            self.machine.races.tick(operation.unit, operation.run)

    def _run_load(self, operation: Operation) -> _Progress:
        self._tick(operation)
        move.load(self.machine, operation.fields)
        yield None

    def _run_store(self, operation: Operation) -> _Progress:
        self._tick(operation)
        move.store(self.machine, operation.fields)
        yield None

    def _run_array(self, operation: Operation) -> _Progress:
        machine, races = self.machine, self.machine.races
        left_open: list[AccBuffer] = []
        for tile in array_tiles(machine, operation.fields, operation.folds):
            if machine.open:
                buffer = machine.open.pop(0)
            else:
                while not self._freed:
                    yield "a free accumulator buffer"
                clock = self._freed.popleft()
                if races is not None:
                    races.join(Unit.ARRAY, clock)
                buffer = AccBuffer(machine.noise_int32(*tile.values.shape))
            require(buffer.values.shape == tile.values.shape,
                    f"the open accumulator buffer has {len(buffer.values)} slots, the tile {len(tile.values)}")
            self._tick(operation)
            if tile.words is not None:
                machine.note_read(tile.words)
            buffer.values = tile.values.copy() if tile.first else buffer.values + tile.values
            if tile.last:
                if races is not None:
                    buffer.clock = races.snapshot(Unit.ARRAY)
                machine.full.append(buffer)
            else:
                left_open.append(buffer)
            yield None
        machine.open = left_open

    def _run_vector(self, operation: Operation) -> _Progress:
        machine, fields, uops, races = self.machine, operation.fields, operation.uops, self.machine.races
        require(fields["kind"] in list(VectorKind), f"kind {fields['kind']} does not exist")
        if fields["kind"] == VectorKind.LOAD_TABLE:
            self._tick(operation)
            load_table(machine, fields)
            yield None
            return
        tiles = list(vector_tiles(machine, fields))
        if not fields["use_acc"]:
            self._tick(operation)
            run_tiles(machine, fields, uops, tiles, None)
            yield None
            return
        for tile in tiles:
            while not machine.full:
                yield "a full accumulator buffer"
            buffer = machine.full.pop(0)
            require(len(buffer.values) == tile.last - tile.first,
                    f"a tile has {tile.last - tile.first} slots, the accumulator buffer {len(buffer.values)}")
            if races is not None:
                races.join(Unit.VECTOR, buffer.clock)
            self._tick(operation)
            run_tiles(machine, fields, uops, [tile], buffer.values)
            self._freed.append((0, 0, 0, 0) if races is None else races.snapshot(Unit.VECTOR))
            yield None

    def _check_end(self) -> None:
        """Raise SimulationError unless every unit has done all its commands."""
        stuck = [self._why(queue) for queue in self._queues.values() if queue.waiting or queue.active]
        if self._to_deal:
            held = self._to_deal[0]
            stuck.append(f"the queue of the {held.unit.name.lower()} unit ({QUEUE_WORDS} words) is full and holds up "
                         f"the commands from word {held.word_index} on")
        if stuck:
            raise SimulationError(f"{self.program.name}: the commands wait for each other for ever: "
                                  + "; ".join(stuck))
        if self.machine.full or self.machine.open:
            count = len(self.machine.full) + len(self.machine.open)
            raise SimulationError(f"{self.program.name}: {count} accumulator buffers are never read")

    def _why(self, queue: _Queue) -> str:
        if queue.active is not None:
            return f"{located(self.program, queue.unit, queue.active.run)} waits for {queue.blocked_by}"
        operation = queue.waiting[0]
        parts = []
        for giver in UNITS_IN_ORDER:
            wanted, held = operation.fields[f"wait_{giver.name.lower()}"], self._tokens[giver, queue.unit].count
            if held < wanted:
                parts.append(f"{wanted} tokens from {giver.name.lower()} (it has {held})")
        return (f"{located(self.program, queue.unit, operation.run)} at command word {operation.word_index} waits for "
                + " and ".join(parts))


def _position(queue: _Queue) -> int:
    if queue.active is not None:
        return queue.active.position
    return queue.waiting[0].position if queue.waiting else 1 << 62


def execute(program: Program, inputs: Sequence[Array], *, seed: int = 0, check_races: bool = False, keep: bool = False,
            state: bytes | None = None, scratchpad: Bytes | None = None) -> ExecutionResult:
    """Run `program` once on one array per input; see `Executor` and `Executor.run`.

    `state` is region 2 before the run (its size that of the program's state image, which is the default);
    `scratchpad` what an earlier run left there, undefined by default.
    """
    return Executor(program, seed=seed, check_races=check_races, state=state, scratchpad=scratchpad).run(
        inputs, keep=keep)
