"""Timing of the load and store units, and of the bus that they share with fetch."""

from collections.abc import Mapping

from tq_hw.compiler.cost.banks import BankLog, walk_banks
from tq_hw.compiler.cost.control_clock import Controls
from tq_hw.compiler.cost.operation_cycles import moved_bytes, run_beats
from tq_hw.compiler.cost.read_bus import ReadBus
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import Config
from tq_hw.isa.latency import (
    CODED_WORD_CYCLES,
    LOAD_GAP_CYCLES,
    LOAD_TAKE_GAP_CYCLES,
    LOAD_TO_BURST_CYCLES,
    SENT_TO_DONE_CYCLES,
    STORE_AHEAD_CYCLES,
    STORE_GAP_CYCLES,
    STORE_TO_READ_CYCLES,
    beat_to_word_cycles,
    read_to_pack_cycles,
)
from tq_hw.isa.layout import BURST_BYTES
from tq_hw.isa.memory import Memory
from tq_hw.isa.sizes import ceil_div

__all__ = ["Mover"]


_LOOPS = (("count0", "step0"), ("count1", "step1"), ("count2", "step2"), ("count3", "step3"))


class Mover:
    """Loads and stores in the order of their computation; `waits` has the bank delays of each.

    Members
    -------
    written : first and last cycle of the newest store's beats
    """

    def __init__(self, config: Config, memory: Memory, controls: Controls, reads: ReadBus, log: BankLog,
                 waits: Mapping[int, int]) -> None:
        self._config, self._memory, self._controls, self._reads = config, memory, controls, reads
        self._log, self._waits = log, waits
        self._beats_in = 0
        self._writes = _Window(memory)
        self._load_free, self._store_free = 0, 0
        self._last_word: int | None = None
        self._packed = 0
        self.written = (0, 0)

    def load(self, operation: Operation, behind: int) -> None:
        """Compute the times of a load, which begins at `behind` at the earliest."""
        f, config, memory = operation.fields, self._config, self._memory
        runs = f["count2"] * f["count3"]
        count = f["count0"] * f["count1"] * runs
        taken = max(self._controls.offered(operation), self._load_free, behind)
        self._load_free = taken + runs + LOAD_TAKE_GAP_CYCLES
        to_word = beat_to_word_cycles(config) + (CODED_WORD_CYCLES if f.get("coded") else 0)
        first_word = taken + LOAD_TO_BURST_CYCLES + to_word
        beats = last_beat = 0
        if f.get("run_bytes", 0):
            beats = run_beats(f, config)
            bursts = runs * ceil_div(f["run_bytes"], BURST_BYTES)
            first_beat, end = self._reads.load(operation, taken + LOAD_TO_BURST_CYCLES, beats, bursts)
            # Loads and stores share the memory's bandwidth.
            shared = memory.slowed(config, max(0, min(self.written[1], end) - max(self.written[0], first_beat)))
            self._reads.free += shared
            self.written = (self.written[0], self.written[1] + shared)
            first_word, last_beat = first_beat + to_word, end + shared - 1
        # One beat enters a cycle, after those of the load before.
        self._beats_in = max(self._beats_in + beats, last_beat)
        if self._last_word is not None:
            first_word = max(first_word, self._last_word + LOAD_GAP_CYCLES)
        banks = walk_banks(f, _LOOPS, f["destination"])
        self._log.walk(self._log.loads, id(operation), first_word, count, count, banks)
        words = count + self._waits.get(id(operation), 0)
        self._last_word = max(first_word + words - 1, self._beats_in + to_word)
        self._controls.take(operation, taken)
        self._controls.end(operation, self._last_word + 1)

    def store(self, operation: Operation) -> None:
        """Compute the times of a store: words are read and packed into beats, which leave in whole bursts."""
        f, config, memory = operation.fields, self._config, self._memory
        runs = f["count2"] * f["count3"]
        words = f["count0"] * f["count1"] * runs
        per_run = moved_bytes(operation) // runs
        beats = run_beats(f | {"run_bytes": per_run}, config)
        taken = max(self._controls.offered(operation), self._store_free)
        begin = max(taken + STORE_TO_READ_CYCLES + read_to_pack_cycles(config), self._packed)
        pack = max(words, beats)
        self._log.walk(self._log.stores, id(operation), begin, pack, words, walk_banks(f, _LOOPS, f["source"]))
        pack += self._waits.get(id(operation), 0)
        self._packed = begin + pack
        self._store_free = max(taken + words + STORE_GAP_CYCLES, self._packed - STORE_AHEAD_CYCLES)
        first, last = _bursts(f["memory_offset_bytes"], beats // runs, beats, config)
        start = max(begin + pack * first // beats, self.written[1])
        send = memory.cycles(config, beats)
        send = max(send, self._writes.beats(start, runs * ceil_div(per_run, BURST_BYTES)))
        each = send / beats
        end = max(start + send, self._packed + round(last * each),
                  begin + pack * (beats - last) // beats + round((first + last) * each) if beats > last else 0)
        shared = memory.slowed(config, max(0, min(self._reads.free - start, send)))
        self._reads.free += shared
        shared = max(shared, memory.slowed(config, self._reads.fetched_between(operation, start, end)))
        self.written = (start, end + shared)
        self._controls.take(operation, taken)
        self._controls.end(operation, end + shared + SENT_TO_DONE_CYCLES + memory.latency_cycles)


class _Window:
    """The bursts that memory serves at the same time, which limit the rate of short bursts."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._busy = 0.0

    def beats(self, first: int, bursts: int) -> int:
        """Return the least cycles from the first beat, in cycle `first`, to the last beat of `bursts` bursts."""
        whole = self._memory.burst_cycles
        self._busy = max(self._busy, first - whole) + bursts * whole / self._memory.bursts
        return round(self._busy) - first


def _bursts(offset: int, of_run: int, beats: int, config: Config) -> tuple[int, int]:
    """Return the beats of the first and of the last burst, where runs have `of_run` beats."""
    most = BURST_BYTES // config.bus_bytes
    at = offset // config.bus_bytes % most
    first = min(of_run, most - at)
    last = (at + of_run - 1) % most + 1 if of_run > first else first
    return max(1, first), max(1, min(last, beats))
