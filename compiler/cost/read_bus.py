"""Reads of the system memory, with a model of each command burst: fetch and loads alternate on the bus.

Memory answers in order. Fetch has few outstanding bursts, and requests the next one when the words of an earlier one
are dealt, one a cycle. Its beats therefore come before those of a load, and between those of a long load.
"""

from collections import deque
from collections.abc import Mapping

from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import Config
from tq_hw.isa.encode import WORD_BYTES
from tq_hw.isa.latency import FETCH_TO_BEAT_CYCLES, FETCH_TO_WORD_CYCLES
from tq_hw.isa.layout import BURST_BYTES, FETCH_BYTES, LOAD_BURSTS
from tq_hw.isa.memory import Memory
from tq_hw.isa.sizes import ceil_div

__all__ = ["ReadBus"]


class ReadBus:
    """Times of reads; `place` is the offset and size of the commands in their region, `reach` the result of `reaches`.

    Members
    -------
    free : cycle up to which beats are known
    """

    def __init__(self, config: Config, memory: Memory, reach: Mapping[int, int], place: tuple[int, int]) -> None:
        self._config, self._memory, self._reach = config, memory, reach
        self._rate = min(1.0, memory.bytes_per_cycle / config.bus_bytes)
        self._offset, self._left_bytes = place
        self._asked_bytes = 0
        #: Command words that the queues have room for.
        self._room = 0
        #: Bursts of fetch whose words are not dealt: their end in the commands, their arrival, their words.
        self._undealt: deque[tuple[int, int, int]] = deque()
        self._dealt = 0
        #: Bursts that fetch requests together if there is room for all.
        self._together = FETCH_BYTES // BURST_BYTES
        self._bursts: deque[tuple[int, int]] = deque()
        self._window = 0.0
        self.free = 0

    def _next(self) -> int | None:
        """Return when fetch requests bursts again: when at most one is left; None if it does not."""
        while len(self._undealt) > 1:
            end, comes, words = self._undealt[0]
            if end > self._room:
                return None
            self._undealt.popleft()
            self._dealt = max(self._dealt, comes) + words
        return self._dealt if self._left_bytes > 0 else None

    def _fetch(self, begin: int) -> int:
        """Return the cycle after the bursts of fetch whose beats begin in a cycle."""
        for _ in range(self._together):
            size = min(self._left_bytes, BURST_BYTES - (self._offset + self._asked_bytes) % BURST_BYTES)
            if size:
                end = begin + self._memory.cycles(self._config, ceil_div(size, self._config.bus_bytes))
                self._left_bytes -= size
                self._asked_bytes += size
                self._undealt.append((self._asked_bytes // WORD_BYTES,
                                      begin + FETCH_TO_WORD_CYCLES - FETCH_TO_BEAT_CYCLES, size // WORD_BYTES))
                self._bursts.append((begin, end))
                begin = end
        self._together = FETCH_BYTES // BURST_BYTES - 1
        return begin

    def _until(self, operation: Operation, at: int) -> None:
        """Advance fetch to a cycle, in which an operation is taken."""
        while (asks := self._next()) is not None and asks <= at:
            self.free = self._fetch(max(self.free, asks + FETCH_TO_BEAT_CYCLES + self._memory.latency_cycles))
        room = self._reach[id(operation)]
        if room > self._room:
            if asks is None:  # fetch was waiting for room in the queues, and continues now
                self._dealt = max(self._dealt, at)
            self._room = room

    def load(self, operation: Operation, asks: int, beats: int, bursts: int) -> tuple[int, int]:
        """Return the cycle of a load's first beat, and the cycle after its last; it requests bursts from `asks` on."""
        config, memory = self._config, self._memory
        self._until(operation, asks)
        first = begin = max(self.free, asks + memory.latency_cycles)
        each = max(1, beats // bursts)
        most = min(LOAD_BURSTS * BURST_BYTES // config.bus_bytes, memory.bursts * each)
        came = 0
        while (ask := self._next()) is not None:
            # Earlier requests of the load are answered first.
            passed = int(max(0, ask - begin) * self._rate)
            ahead = min((ask - asks) * each, came + passed + most)
            if ahead >= beats:
                break
            ahead = max(ahead, came)
            begin = self._fetch(begin + memory.cycles(config, ahead - came))
            came = ahead
        # The rate of many short bursts is limited by memory's answers.
        whole = memory.burst_cycles
        self._window = max(self._window, first - whole) + bursts * whole / memory.bursts
        self.free = max(begin + memory.cycles(config, beats - came), round(self._window))
        return first, self.free

    def fetched_between(self, operation: Operation, begin: int, end: int) -> int:
        """Return the beats of fetch that arrive from `begin` to `end`, while those of a store leave."""
        if self.free <= end:
            self._until(operation, end)
        while self._bursts and self._bursts[0][1] <= begin:
            self._bursts.popleft()
        return sum(max(0, min(end, high) - max(begin, low)) for low, high in self._bursts)
