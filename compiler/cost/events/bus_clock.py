"""The bus to the system memory, burst by burst: fetch and loads alternate in reading, while stores write.

Memory answers reads in order. Loads request a burst a cycle while there is room for the requested beats. Fetch requests
when at most one of its bursts is left, and gets its turn after some bursts of a load.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tq_hw.compiler.cost.events.command_queues import CommandQueues
from tq_hw.compiler.cost.events.fetch_clock import FetchClock
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import Config
from tq_hw.isa.latency import ASKED_TO_TAKE_CYCLES, RUNS_AHEAD
from tq_hw.isa.layout import BURST_BYTES, LOAD_BURSTS, LOAD_SHARES
from tq_hw.isa.memory import Memory
from tq_hw.isa.sizes import ceil_div

__all__ = ["Arrival", "BusClock"]

#: Most bursts and beats of stores in the write queue.
_WRITES_WAITING, _BEATS_WAITING = 14, 508
#: Read addresses that wait in order before a memory that accepts no more.
_ADDRESSES_WAITING = 2
#: Parts of a beat: rates are integers in this unit, so that every cycle makes progress.
_BEAT = 1 << 20
#: Callbacks of a load's burst: with the cycle of its first beat, and with the cycle after its last.
Arrival = tuple[Callable[[int], None], Callable[[int], None]]


@dataclass
class _Burst:
    """Beats; when it may be requested, later when it may begin; its callbacks, None: fetch; whether it ends a run."""

    beats: int
    at: int
    tell: Arrival | None
    ends_run: bool = False


class BusClock:
    """Moves bursts in order of time.

    Members
    -------
    fetch : the clock of command reads
    now : cycle of the latest begin or end
    """

    def __init__(self, config: Config, memory: Memory, queues: CommandQueues, place: tuple[int, int]) -> None:
        self._memory, self._queues = memory, queues
        self._longest = BURST_BYTES // config.bus_bytes
        self.fetch = FetchClock(place, config, queues.room)
        total = _BEAT * memory.bytes_per_cycle / config.bus_bytes
        #: Parts of a beat a cycle: for one direction alone, for each of two.
        self._alone, self._shared = (max(1, min(_BEAT, round(rate))) for rate in (total, total / 2))
        #: Bursts of loads that are not requested yet; requested bursts, in order; beats of loads that occupy room.
        self._loads: deque[_Burst] = deque()
        self._reads: deque[_Burst] = deque()
        self._claimed = 0
        #: Runs of loads that are not fully requested; cycle from which they are few enough to take a load.
        self._runs, self._runs_fit = 0, 0
        self._next_ask = 0
        self._in_a_row = 0
        self._writes: deque[_Burst] = deque()
        self._waiting_beats = 0
        self._answers: deque[int] = deque([0] * memory.bursts, maxlen=memory.bursts)
        self.now = 0
        #: Cycle of the next begin or end, None if it must be recomputed.
        self._next: int | None = None
        self._changed = True
        #: Rest of the current read burst and of the current write burst, in parts of a beat; 0: none.
        self._read_left, self._write_left = 0, 0

    def load(self, beats: int, at: int, tell: Arrival, *, ends_run: bool) -> None:
        """Queue a burst of a load, which may be requested from a cycle on."""
        self._changed = True
        self._loads.append(_Burst(beats, at, tell, ends_run))
        self._runs += ends_run

    def takes_load(self) -> int | None:
        """Return the cycle from which a load's runs have room, so that it may be taken; None: not known yet."""
        return self._runs_fit if self._runs <= RUNS_AHEAD else None

    def used(self, beats: int) -> None:
        """Free the room of beats."""
        self._changed = True
        self._claimed -= beats

    def store(self, beats: int, at: int, tell: Callable[[int], None]) -> None:
        """Queue a burst whose beats are all packed in a cycle; `tell` is called with the cycle after its last beat."""
        self._changed = True
        self._writes.append(_Burst(beats, at, (_nothing, tell)))
        self._waiting_beats += beats

    @property
    def full(self) -> bool:
        """Whether the write queue is full."""
        return len(self._writes) >= _WRITES_WAITING or self._waiting_beats >= _BEATS_WAITING

    def take(self, operation: Operation, at: int) -> None:
        """Record that an operation is taken: its unit reads the next command."""
        self._changed = True
        self.fetch.allow(self._queues.taken(operation), at)

    def end(self, operation: Operation, at: int) -> None:
        """Record that an operation is done."""
        self._changed = True
        self.fetch.allow(self._queues.ended(operation), at)

    def dealt(self, operation: Operation) -> int | None:
        """Return when the last word of an operation's command is dealt; None if not known yet."""
        return self.fetch.dealt(self._queues.words[id(operation)].end)

    def time(self) -> int | None:
        """Return the cycle of the next begin or end."""
        if self._changed:
            found, self._changed = self._ask_time(), False
            for time in (self._read_time(), self._write_time()):
                if time is not None and (found is None or time < found):
                    found = time
            self._next = found
        return self._next

    def go(self, horizon: int) -> None:
        """Process the next begin or end."""
        at = self.time()
        assert at is not None
        self._changed = True
        both = self._read_left > 0 and self._write_left > 0
        moved = max(0, at - self.now) * (self._shared if both else self._alone)
        self.now = max(self.now, at)
        if self._read_left > 0:
            self._read_left -= moved
            if self._read_left <= 0:
                self._end_read(at)
        if self._write_left > 0:
            self._write_left -= moved
            if self._write_left <= 0:
                self._end_write(at)
        ask = self._ask_time()
        if ask is not None and ask <= at:
            self._ask(at)
        if self._read_left <= 0 and self._reads and self._reads[0].at <= at:
            self._begin_read(at)
        if self._write_left <= 0 and self._writes and max(self._writes[0].at, self._answers[0]) <= at:
            self._write_left = _BEAT * self._writes[0].beats

    def _rate(self) -> int:
        return self._shared if self._read_left > 0 and self._write_left > 0 else self._alone

    def _read_time(self) -> int | None:
        if self._read_left > 0:
            return self.now + ceil_div(self._read_left, self._rate())
        return max(self.now, self._reads[0].at) if self._reads else None

    def _write_time(self) -> int | None:
        if self._write_left > 0:
            return self.now + ceil_div(self._write_left, self._rate())
        return max(self.now, self._writes[0].at, self._answers[0]) if self._writes else None

    def _load_may_ask(self) -> bool:
        return bool(self._loads) and self._claimed + self._loads[0].beats <= LOAD_BURSTS * self._longest

    def _ask_time(self) -> int | None:
        if len(self._reads) >= self._memory.bursts + _ADDRESSES_WAITING:
            return None
        fetch = self.fetch.ask_time(self._next_ask)
        if not self._load_may_ask():
            return fetch
        load = max(self._next_ask, self._loads[0].at)
        return load if fetch is None or load < fetch else fetch

    def _ask(self, at: int) -> None:
        """Append a burst to the order of reads."""
        fetch = self.fetch.ask_time(at) == at
        load = self._load_may_ask() and self._loads[0].at <= at
        share = LOAD_SHARES[0 if self._queues.short(self.fetch.words) else 1] if fetch else 0
        if load and not (fetch and self._in_a_row >= share):
            self._in_a_row = self._in_a_row + 1 if fetch else 0
            burst = self._loads.popleft()
            self._claimed += burst.beats
            self._runs -= burst.ends_run
            if burst.ends_run and self._runs == RUNS_AHEAD:
                self._runs_fit = at + ASKED_TO_TAKE_CYCLES
        else:
            self._in_a_row = 0
            burst = _Burst(self.fetch.ask(at), 0, None)
        self._reads.append(burst)
        if len(self._reads) <= self._memory.bursts:
            burst.at = at + self._memory.latency_cycles
        self._next_ask = at + 1

    def _begin_read(self, at: int) -> None:
        burst = self._reads[0]
        self._read_left = _BEAT * burst.beats
        if burst.tell is None:
            self.fetch.comes(at)
        else:
            burst.tell[0](at)

    def _end_read(self, at: int) -> None:
        self._read_left = 0
        burst = self._reads.popleft()
        if len(self._reads) >= self._memory.bursts:
            # Memory accepts the oldest waiting address.
            self._reads[self._memory.bursts - 1].at = at + self._memory.latency_cycles
        if burst.tell is not None:
            burst.tell[1](at)

    def _end_write(self, at: int) -> None:
        self._write_left = 0
        burst = self._writes.popleft()
        self._waiting_beats -= burst.beats
        self._answers.append(at + self._memory.burst_cycles)
        assert burst.tell is not None
        burst.tell[1](at)


def _nothing(at: int) -> None:
    """Ignore the event."""
