"""Timing of the load and store units, word by word and burst by burst."""

from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial

from tq_hw.compiler.cost.events.banks import BankLog
from tq_hw.compiler.cost.events.bus_clock import Arrival, BusClock
from tq_hw.compiler.cost.events.control_clock import EventControls
from tq_hw.compiler.cost.events.in_order import InOrder
from tq_hw.compiler.cost.events.walks import bank_masks
from tq_hw.compiler.cost.operation_cycles import moved_bytes
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.latency import (
    CODED_WORD_CYCLES,
    LOAD_GAP_CYCLES,
    LOAD_TAKE_GAP_CYCLES,
    LOAD_TO_BURST_CYCLES,
    SENT_TO_DONE_CYCLES,
    STORE_GAP_CYCLES,
    STORE_TO_READ_CYCLES,
    STORE_WORDS_AHEAD,
    beat_to_word_cycles,
    read_to_pack_cycles,
    shares_ports,
)
from tq_hw.isa.layout import BURST_BYTES
from tq_hw.isa.memory import Memory
from tq_hw.isa.sizes import ceil_div

__all__ = ["LoadClock", "StoreClock", "WordClock"]


class LoadClock:
    """Takes loads and requests their beats; `words` writes them."""

    def __init__(self, config: Config, controls: EventControls, bus: BusClock, words: "WordClock",
                 operations: Iterable[Operation]) -> None:
        self._config, self._controls, self._bus, self._words = config, controls, bus, words
        self.queue = deque(operations)
        self._free = 0

    def __len__(self) -> int:
        """Number of operations that are not taken."""
        return len(self.queue)

    def time(self) -> int | None:
        """Return when the next load is taken; None: not before another unit advances."""
        if not self.queue or not self._controls.known(self.queue[0]):
            return None
        fits = self._bus.takes_load()
        return None if fits is None else max(self._controls.offered(self.queue[0]), self._free, fits)

    def go(self, horizon: int) -> None:
        """Take the next load."""
        taken = self.time()
        assert taken is not None
        operation = self.queue.popleft()
        f, config = operation.fields, self._config
        self._free = taken + f["count2"] * f["count3"] + LOAD_TAKE_GAP_CYCLES
        at, run_bytes = taken + LOAD_TO_BURST_CYCLES, f.get("run_bytes", 0)
        runs = [_run_bursts(place % BURST_BYTES, run_bytes, config) for place in _run_places(f)] if run_bytes else []
        words = self._words.add(operation, sum(map(sum, runs)))
        for bursts in runs:
            for number, beats in enumerate(bursts):
                self._bus.load(beats, at, words.arrival(beats), ends_run=number == len(bursts) - 1)
                at += 1
        if not runs:
            words.fill(at)
        self._controls.take(operation, taken)


class _Words:
    """Words of a load.

    Members
    -------
    banks : bit masks of the banks in which the vector unit's writes delay its words
    there : arrivals of bursts, the words up to their end, and their beats
    last : arrival of its last beat, None if not known yet
    """

    def __init__(self, config: Config, operation: Operation, beats: int) -> None:
        f = operation.fields
        self.operation = operation
        self.banks = bank_masks(f["destination"], *((f[f"count{level}"], f.get(f"step{level}", 0))
                                                    for level in range(4)))
        if shares_ports(config):
            self.banks = bytes([(1 << BANKS) - 1]) * len(self.banks)
        self._beats, self._came = beats, 0
        self._to_word = beat_to_word_cycles(config) + (CODED_WORD_CYCLES if f.get("coded") else 0)
        self.there: deque[tuple[int, int, int]] = deque()
        self.last: int | None = None

    def fill(self, at: int) -> None:
        """Make all words available some cycles after a cycle: a fill reads nothing."""
        self.last = at + self._to_word
        self.there.append((self.last, len(self.banks), 0))

    def arrival(self, beats: int) -> Arrival:
        """Return the callbacks of a burst."""
        def begins(at: int) -> None:
            self._came += beats
            self.there.append((at + self._to_word, len(self.banks) * self._came // self._beats, beats))

        def ends(at: int) -> None:
            if self._came == self._beats:
                self.last = at - 1 + self._to_word
        return begins, ends


class WordClock:
    """Writes the words of loads, which have lower priority than those of the vector unit."""

    def __init__(self, config: Config, controls: EventControls, log: BankLog, bus: BusClock) -> None:
        self._config, self._controls, self._log, self._bus = config, controls, log, bus
        self._queue: deque[_Words] = deque()
        #: For the oldest load: the next word, and when it may be written.
        self._number, self._at = 0, 0

    def __len__(self) -> int:
        """Number of loads that are taken and not done."""
        return len(self._queue)

    def add(self, operation: Operation, beats: int) -> _Words:
        """Queue a load."""
        self._queue.append(_Words(self._config, operation, beats))
        return self._queue[-1]

    def time(self) -> int | None:
        """Return when the next word is written or the load ends."""
        if not self._queue:
            return None
        words = self._queue[0]
        if words.there:
            return max(self._at, words.there[0][0])
        return words.last and max(self._at - 1, words.last) if self._number == len(words.banks) else None

    def go(self, horizon: int) -> None:
        """Write the words of a burst, up to a cycle."""
        words = self._queue[0]
        if not words.there:
            assert words.last is not None
            last = max(self._at - 1, words.last)
            self._queue.popleft()
            self._number, self._at = 0, last + LOAD_GAP_CYCLES
            self._controls.end(words.operation, last + 1)
            return
        begin, end, beats = words.there[0]
        at, number, banks, taken = max(self._at, begin), self._number, words.banks, self._log.writes.banks
        known = len(taken)
        if at + end - number <= horizon and self._log.writes.quiet(at, at + end - number):
            at, number = at + end - number, end
        while number < end and at <= horizon:
            while at < known and taken[at] & banks[number]:
                at += 1
            at, number = at + 1, number + 1
        self._number, self._at = number, at
        if number == end:
            words.there.popleft()
            self._bus.used(beats)


class StoreClock(InOrder):
    """Reads the words of stores, with the lowest priority, and packs them into beats, which leave in whole bursts."""

    def __init__(self, config: Config, memory: Memory, controls: EventControls, bus: BusClock, log: BankLog,
                 operations: Iterable[Operation]) -> None:
        super().__init__(controls, operations)
        self._config, self._memory, self._bus, self._log = config, memory, bus, log
        self._banks = b""
        self._number = 0
        self._taken = 0
        self._at = 0
        self._pace = 1.0
        self._bursts: deque[tuple[int, int]] = deque()
        self._free = 0
        self._stalls = False
        #: Times at which the newest words are packed, and at which the beats of all are.
        self._packs: deque[int] = deque([0] * STORE_WORDS_AHEAD, maxlen=STORE_WORDS_AHEAD)
        self._packed = 0.0
        self._to_pack = read_to_pack_cycles(config)

    def time(self) -> int | None:
        """Return when the unit requests its next word; None: not before another unit advances."""
        if not self._under_way():
            return None
        if self._bus.full:
            self._stalls = True
            return None
        if self._stalls:
            self._stalls, self._at = False, max(self._at, self._bus.now)
        return self._at

    def _begin(self, operation: Operation) -> None:
        f = operation.fields
        self._number = 0
        self._banks = bank_masks(f["source"], *((f[f"count{level}"], f.get(f"step{level}", 0)) for level in range(4)))
        self._bursts = self._burst_ends(f, moved_bytes(operation) // (f["count2"] * f["count3"]))
        self._pace = max(1.0, sum(beats for _, beats in self._bursts) / len(self._banks))
        self._taken = max(self._controls.offered(operation), self._free)
        self._at = self._taken + STORE_TO_READ_CYCLES

    def _burst_ends(self, f: Mapping[str, int], run_bytes: int) -> deque[tuple[int, int]]:
        """Return, for each burst, the words after which it is packed, and its beats."""
        found: deque[tuple[int, int]] = deque()
        words = f["count0"] * f["count1"]
        for number, place in enumerate(_run_places(f)):
            bursts, came = _run_bursts(place % BURST_BYTES, run_bytes, self._config), 0
            for beats in bursts:
                came += beats
                found.append((number * words + ceil_div(words * came, sum(bursts)), beats))
        return found

    def go(self, horizon: int) -> None:
        """Request words up to a cycle."""
        assert self._operation is not None
        at, packs, packed, pace, bursts = self._at, self._packs, self._packed, self._pace, self._bursts
        array, reads = self._log.array.banks, self._log.reads.banks
        arrays, readings = len(array), len(reads)
        for number in range(self._number, len(self._banks)):
            at = max(at, packs[0] + 1)
            if at > horizon:
                self._number, self._at, self._packed = number, at, packed
                return
            bank = self._banks[number]
            while at < arrays and array[at] & bank or at < readings and reads[at] & bank:
                at += 1
            packed = max(packed, at + self._to_pack)
            packs.append(int(packed))
            packed += pace
            at += 1
            while bursts[0][0] == number + 1 and len(bursts) > 1:
                self._bus.store(bursts.popleft()[1], round(packed), _nothing)
            if self._bus.full:
                self._number, self._at, self._packed = number + 1, at, packed
                return
        self._bus.store(bursts.popleft()[1], round(packed), partial(self._sent, self._operation))
        self._packed = packed
        self._free = at - 1 + STORE_GAP_CYCLES
        self._controls.take(self._operation, self._taken)
        self._operation = None

    def _sent(self, operation: Operation, at: int) -> None:
        """Record that the last beat of an operation has left."""
        self._controls.end(operation, at + SENT_TO_DONE_CYCLES + self._memory.latency_cycles)


def _run_places(f: Mapping[str, int]) -> list[int]:
    """Return the offsets of the runs."""
    return [f["memory_offset_bytes"] + outer * f.get("stride3_bytes", 0) + inner * f.get("stride2_bytes", 0)
            for outer in range(f["count3"]) for inner in range(f["count2"])]


@lru_cache(maxsize=1 << 12)
def _run_bursts(place: int, run_bytes: int, config: Config) -> tuple[int, ...]:
    found, end = [], place + run_bytes
    while place < end:
        stop = min(end, (place // BURST_BYTES + 1) * BURST_BYTES)
        found.append(ceil_div(stop, config.bus_bytes) - place // config.bus_bytes)
        place = stop
    return tuple(found)


def _nothing(at: int) -> None:
    """Ignore the event."""
