"""The executor: four unit queues, tokens, accumulator handover, and the checks of a whole stream."""

import random
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.control import Status
from tq_hw.isa.layout import QUEUE_WORDS, Unit
from tq_hw.isa.operations import Operation, read_stream
from tq_hw.isa.program import Program
from tq_hw.model.errors import OptionError
from tq_hw.sim import edges
from tq_hw.sim.executor.machine import Bytes, Fault, Index, Machine
from tq_hw.sim.executor.queues import MAX_TOKENS, Queue, Tokens
from tq_hw.sim.executor.races import UNITS_IN_ORDER, Race, RaceChecker
from tq_hw.sim.executor.result import ExecutionResult
from tq_hw.sim.executor.units import Units
from tq_hw.sim.faults import SimulationError, located

__all__ = ["ExecutionResult", "Executor", "execute"]

Array = npt.NDArray[Any]
class Executor:
    """Runs one program once.

    Units run whole operations, or tiles if they hand over accumulators, in an order that the tokens allow. Seed 0
    follows the stream's order as far as possible. Other seeds draw a random order, so that a missing token is likely to
    give a wrong result. `check_races` detects it in any order.
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
        self._stream = read_stream(program.commands, program.config)
        self._operations = self._stream.operations
        self._queues = {unit: Queue(unit) for unit in UNITS_IN_ORDER}
        self._to_deal = deque(sorted((o for found in self._operations.values() for o in found),
                                     key=lambda operation: operation.position))
        self._tokens = {(giver, taker): Tokens() for giver in UNITS_IN_ORDER for taker in UNITS_IN_ORDER}
        self._units = Units(self.machine, self._read_tile)
        self._random = random.Random(seed)

    def run(self, inputs: Sequence[Array], *, keep: bool = False) -> ExecutionResult:
        """Run the program on one array per input port.

        Raises OptionError for inputs that do not fit, SimulationError for whatever stops the machine: an error status,
        commands that wait for each other, a race (`check_races`), accumulators that are never read.
        """
        self._check_stream()
        self._place_inputs(inputs)
        self._run_all()
        self._check_end()
        return self._result(keep)

    def _check_stream(self) -> None:
        """Raise SimulationError for a malformed stream."""
        for error in (self._stream.end, *self._stream.refused.values()):
            if error is not None:
                run = None if error.unit is Unit.CONTROL else len(self._operations[error.unit])
                raise SimulationError(f"{self.program.name}: {error.status.name}: {error}", error.status, error.unit,
                                      run)

    def _place_inputs(self, inputs: Sequence[Array]) -> None:
        edges.check_inputs(self.program, inputs)
        machine = self.machine
        for port, array in zip(self.program.inputs, inputs, strict=True):
            data = np.frombuffer(edges.to_port(port, array), np.uint8)
            machine.memory[port.region][port.region_offset_bytes:port.region_offset_bytes + data.size] = data

    def _run_all(self) -> None:
        """Run the units until none of them can continue."""
        order = list(self._queues.values())
        while True:
            self._deal()
            if self.seed and self._random.random() < 0.125:
                self._random.shuffle(order)
            elif not self.seed:
                order.sort(key=_position)
            if not any(self._step(queue) for queue in order):
                break

    def _result(self, keep: bool) -> ExecutionResult:
        machine = self.machine
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
        """Move commands to the units' queues in the stream's order; a full queue blocks all later commands.

        An operation's words leave its queue when the operation before it is done; hardware frees them no later.
        """
        while self._to_deal:
            operation = self._to_deal[0]
            queue = self._queues[operation.unit]
            idle = not queue.waiting and queue.active is None
            # The serial machine has no queues.
            limited = self.program.config.design == "parallel" and not idle
            if limited and queue.words + operation.words > QUEUE_WORDS:
                return
            queue.words += 0 if idle else operation.words
            queue.waiting.append(self._to_deal.popleft())

    def _step(self, queue: Queue) -> bool:
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
            self._stop(queue, operation, fault)
            return False
        except Race as race:
            first, second = (located(self.program, *who) for who in (race.first, race.second))
            raise SimulationError(f"race: {first} {race.did} and {second} {race.does} {race.where}, and no token "
                                  "orders them", None, *race.second) from None

    def _stop(self, queue: Queue, operation: Operation, fault: Fault) -> None:
        """End the run with the fault of a unit."""
        what = "undefined" if fault.status is None else fault.status.name
        raise SimulationError(f"{located(self.program, queue.unit, operation.run)}: {what}: {fault}", fault.status,
                              queue.unit, operation.run) from None

    def _start(self, queue: Queue) -> bool:
        if not queue.waiting:
            return False
        operation = queue.waiting[0]
        wanted = {giver: operation.fields[f"wait_{giver.name.lower()}"] for giver in UNITS_IN_ORDER
                  if giver is not queue.unit}
        if any(self._tokens[giver, queue.unit].count < count for giver, count in wanted.items()):
            return False
        for giver, count in wanted.items():
            self._take(giver, queue.unit, count)
        queue.waiting.popleft()
        queue.active = operation
        queue.progress = self._units.begin(operation)
        return True

    def _take(self, giver: Unit, taker: Unit, count: int) -> None:
        for clock in self._tokens[giver, taker].take(count):
            if self.machine.races is not None:
                self.machine.races.join(taker, clock)

    def _finish(self, queue: Queue, operation: Operation) -> None:
        queue.active = queue.progress = queue.blocked_by = None
        if queue.waiting:
            queue.words -= queue.waiting[0].words
        for taker in UNITS_IN_ORDER:
            count = operation.fields[f"post_{taker.name.lower()}"]
            if count:
                self._give(queue, operation, taker, count)

    def _give(self, queue: Queue, operation: Operation, taker: Unit, count: int) -> None:
        races, tokens = self.machine.races, self._tokens[queue.unit, taker]
        tokens.count += count
        tokens.gifts.append((count, (0, 0, 0, 0) if races is None else races.snapshot(queue.unit)))
        if tokens.count > MAX_TOKENS:
            self._overflow(queue, operation, taker, tokens.count)

    def _overflow(self, queue: Queue, operation: Operation, taker: Unit, count: int) -> None:
        self._stop(queue, operation, Fault(
            Status.TOKEN_OVERFLOW, f"the {taker.name.lower()} unit would hold {count} tokens, at most {MAX_TOKENS} are "
            "allowed"))

    def _read_tile(self, words: Index) -> None:
        """Record the reads of a tile."""
        self.machine.note_read(words)

    def _check_end(self) -> None:
        """Raise SimulationError unless every unit has done all its commands."""
        stuck = [self._why(queue) for queue in self._queues.values() if queue.waiting or queue.active]
        if self._to_deal:
            held = self._to_deal[0]
            stuck.append(f"the queue of the {held.unit.name.lower()} unit ({QUEUE_WORDS} words) is full and blocks the "
                         f"commands from word {held.word_index} on")
        if stuck:
            raise SimulationError(f"{self.program.name}: the commands wait for each other forever: "
                                  + "; ".join(stuck), Status.DEADLOCK, *self._first_to_wait())
        if self.machine.full or self.machine.open:
            count = len(self.machine.full) + len(self.machine.open)
            raise SimulationError(f"{self.program.name}: {count} accumulator buffers are never read")

    def _first_to_wait(self) -> tuple[Unit, int]:
        """Return the RUN that the hardware's watchdog names: of the first unit that waits for tokens, or else waits."""
        tokens = [(queue.unit, queue.waiting[0].run) for queue in self._queues.values()
                  if queue.waiting and queue.active is None]
        under_way = [(queue.unit, queue.active.run) for queue in self._queues.values() if queue.active is not None]
        return (tokens + under_way)[0]

    def _why(self, queue: Queue) -> str:
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


def _position(queue: Queue) -> int:
    if queue.active is not None:
        return queue.active.position
    return queue.waiting[0].position if queue.waiting else 1 << 62


def execute(program: Program, inputs: Sequence[Array], *, seed: int = 0, check_races: bool = False, keep: bool = False,
            state: bytes | None = None, scratchpad: Bytes | None = None) -> ExecutionResult:
    """Run `program` once on one array per input; see `Executor` and `Executor.run`.

    `state` is the initial contents of region 2, by default the program's state image, which has the same size;
    `scratchpad` is what an earlier run left there, by default undefined.
    """
    return Executor(program, seed=seed, check_races=check_races, state=state, scratchpad=scratchpad).run(
        inputs, keep=keep)
