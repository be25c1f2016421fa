"""The work of each unit for an operation, in pieces between which other units may work."""

from collections import deque
from collections.abc import Callable

import numpy as np

from tq_hw.isa.layout import Unit, VectorKind
from tq_hw.isa.operations import Operation
from tq_hw.sim.executor import move
from tq_hw.sim.executor.array import array_tiles
from tq_hw.sim.executor.machine import AccBuffer, Index, Machine
from tq_hw.sim.executor.micropass import note_blocks
from tq_hw.sim.executor.queues import Progress
from tq_hw.sim.executor.vector import load_table, run_tiles, vector_tiles

__all__ = ["Units"]


class Units:
    """Load, store, array and vector unit of a machine.

    A piece of work is a whole operation of the load or store unit, or a tile of the other units. `read_tile` is called
    with the words that a tile of the array reads.
    """

    def __init__(self, machine: Machine, read_tile: Callable[[Index], None]) -> None:
        self._machine, self._read_tile = machine, read_tile
        #: Clocks at which the free accumulator buffers were released.
        self._freed: deque[tuple[int, ...]] = deque([(0, 0, 0, 0)] * machine.config.acc_buffers)
        self._work = {Unit.LOAD: self._load, Unit.STORE: self._store, Unit.ARRAY: self._array,
                      Unit.VECTOR: self._vector}

    def begin(self, operation: Operation) -> Progress:
        """Return the work on an operation; each piece yields what it waits for, or None."""
        return self._work[operation.unit](operation)

    def _tick(self, operation: Operation) -> None:
        if self._machine.races is not None:
            self._machine.races.tick(operation.unit, operation.run)

    def _load(self, operation: Operation) -> Progress:
        self._tick(operation)
        move.load(self._machine, operation.fields)
        yield None

    def _store(self, operation: Operation) -> Progress:
        self._tick(operation)
        move.store(self._machine, operation.fields)
        yield None

    def _array(self, operation: Operation) -> Progress:
        machine, races = self._machine, self._machine.races
        left_open: list[AccBuffer] = []
        # Weights are read before the accumulator buffer is available, so the buffer does not order these reads.
        self._tick(operation)
        for tile in array_tiles(machine, operation.fields, operation.folds):
            if machine.open:
                buffer = machine.open.pop(0)
            else:
                while not self._freed:
                    yield "a free accumulator buffer"
                clock = self._freed.popleft()
                if races is not None:
                    races.join(Unit.ARRAY, clock)
                buffer = AccBuffer(machine.noise_int32(*tile.values.shape), np.ones(tile.values.shape, bool))
            machine.promise(buffer.values.shape == tile.values.shape,
                            f"the open accumulator buffer has {len(buffer.values)} slots, the tile {len(tile.values)}")
            buffer = _of_slots(machine, buffer, len(tile.values))
            self._tick(operation)
            if tile.words is not None:
                self._read_tile(tile.words)
            buffer.values = tile.values.copy() if tile.first else buffer.values + tile.values
            buffer.unknown = tile.unknown.copy() if tile.first else buffer.unknown | tile.unknown
            if tile.last:
                if races is not None:
                    buffer.clock = races.snapshot(Unit.ARRAY)
                machine.full.append(buffer)
            else:
                left_open.append(buffer)
            yield None
        machine.open = left_open

    def _vector(self, operation: Operation) -> Progress:
        machine, fields, uops, races = self._machine, operation.fields, operation.uops, self._machine.races
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
        # Parameters, too, are read before the accumulator buffer is full.
        self._tick(operation)
        note_blocks(machine, fields)
        for tile in tiles:
            while not machine.full:
                yield "a full accumulator buffer"
            buffer = machine.full.pop(0)
            slots = tile.last - tile.first
            machine.promise(len(buffer.values) == slots,
                            f"a tile has {slots} slots, the accumulator buffer {len(buffer.values)}")
            buffer = _of_slots(machine, buffer, slots)
            if races is not None:
                races.join(Unit.VECTOR, buffer.clock)
            self._tick(operation)
            run_tiles(machine, fields, uops, [tile], buffer.values, buffer.unknown)
            self._freed.append((0, 0, 0, 0) if races is None else races.snapshot(Unit.VECTOR))
            yield None


def _of_slots(machine: Machine, buffer: AccBuffer, slots: int) -> AccBuffer:
    """Return a buffer with this many slots; additional slots are undefined."""
    missing = slots - len(buffer.values)
    if missing <= 0:
        return AccBuffer(buffer.values[:slots], buffer.unknown[:slots], buffer.clock)
    cols = buffer.values.shape[1]
    return AccBuffer(np.concatenate([buffer.values, machine.noise_int32(missing, cols)]),
                     np.concatenate([buffer.unknown, np.ones((missing, cols), bool)]), buffer.clock)
