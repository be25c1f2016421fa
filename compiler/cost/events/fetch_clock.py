"""Fetch: when it requests bursts of commands, and when their words are dealt to the queues of the units."""

from bisect import bisect_left, bisect_right
from collections import deque

from tq_hw.isa.config import Config
from tq_hw.isa.encode import WORD_BYTES
from tq_hw.isa.latency import FETCH_TO_BEAT_CYCLES, FETCH_TO_WORD_CYCLES
from tq_hw.isa.layout import BURST_BYTES
from tq_hw.isa.sizes import ceil_div

__all__ = ["FetchClock"]

#: Cycles after its last necessary request in which fetch may still request more.
_ASKED_LATE_CYCLES = 2
#: Cycles from the start to the first request of fetch, and from a beat to its words.
_START_TO_ASK_CYCLES = FETCH_TO_BEAT_CYCLES - 1
_BEAT_TO_DEAL_CYCLES = FETCH_TO_WORD_CYCLES - _START_TO_ASK_CYCLES
#: Words that have left the buffer and are not dealt yet; cycles from room for a burst in it to its request.
_WORDS_ON_THE_WAY, _ROOM_TO_ASK_CYCLES = 5, 3
#: Cycles from taking an operation, whose unit then reads its next command, to the first word dealt into that room.
_TAKEN_TO_DEAL_CYCLES = 6
_NEVER = 1 << 62


class FetchClock:
    """Reading and dealing of commands by fetch.

    `place` is the offset and size of the commands in their region, `room` the words that have room at first.

    Members
    -------
    words : dealt words, as far as known
    """

    def __init__(self, place: tuple[int, int], config: Config, room: int) -> None:
        self._config, self._room = config, room
        self._offset, self._left_bytes = place
        self._asked_bytes = 0
        #: Words of requested bursts that have not arrived; words that have arrived and are not dealt, with the time.
        self._coming: deque[int] = deque()
        self._come: deque[tuple[int, int]] = deque()
        #: First and last cycle in which it may request bursts.
        self._asks, self._asks_until = _START_TO_ASK_CYCLES, _NEVER if self._left_bytes else -1
        #: Dealt words at some times.
        self._words, self._times = [0], [0]
        self.words = 0

    def ask_time(self, at: int) -> int | None:
        """Return when it may request a burst, from a cycle on; None: not before words are dealt."""
        at = max(at, self._asks)
        return at if at <= self._asks_until else None

    def ask(self, at: int) -> int:
        """Return the beats of the next burst, which is requested in a cycle."""
        size = min(self._left_bytes, BURST_BYTES - (self._offset + self._asked_bytes) % BURST_BYTES)
        self._left_bytes -= size
        self._asked_bytes += size
        self._coming.append(size // WORD_BYTES)
        if not self._left_bytes:
            self._asks_until = -1
        elif self._asks_until == _NEVER and self._words_out(at) < self._most:
            self._asks_until = at + _ASKED_LATE_CYCLES
        return ceil_div(size, self._config.bus_bytes)

    def comes(self, at: int) -> None:
        """Record that the oldest burst begins to arrive."""
        self._come.append((self._coming.popleft(), at + _BEAT_TO_DEAL_CYCLES))
        self._deal(0)

    def allow(self, words: int | None, at: int) -> None:
        """Set the words that have room in the queues from a cycle on; None: as before."""
        if words is not None and words > self._room:
            self._room = words
            self._deal(at + _TAKEN_TO_DEAL_CYCLES)

    def dealt(self, words: int) -> int | None:
        """Return when `words` words are dealt; None if not known yet."""
        number = bisect_left(self._words, words)
        return self._times[number] - (self._words[number] - words) if number < len(self._words) else None

    def _words_at(self, at: int) -> int:
        """Return the number of words dealt at a time."""
        number = bisect_right(self._times, at)
        if number == len(self._times):
            return self.words
        return max(self._words[number - 1], self._words[number] - (self._times[number] - at))

    def _words_out(self, at: int) -> int:
        """Return the words that have left the buffer at a time: dealt words, and some more while words flow."""
        dealt = self._words_at(at)
        return dealt + _WORDS_ON_THE_WAY if dealt else 0

    def _deal(self, at: int) -> None:
        """Deal the arrived words, one a cycle, as far as they have room."""
        while self._come and self.words < self._room:
            words, comes = self._come[0]
            now = min(words, self._room - self.words)
            self._times.append(max(self._times[-1], comes, at) + now)
            self.words += now
            self._words.append(self.words)
            if now == words:
                self._come.popleft()
            else:
                self._come[0] = words - now, comes
        self._ask_again()

    @property
    def _most(self) -> int:
        """Words that must have left the buffer before a request, so that it has at most one burst."""
        return (self._asked_bytes - BURST_BYTES) // WORD_BYTES

    def _ask_again(self) -> None:
        needed = self._most - _WORDS_ON_THE_WAY
        if self._left_bytes and self._asks_until != _NEVER and self.words >= needed:
            self._asks = self._times[-1] - (self.words - needed) + _ROOM_TO_ASK_CYCLES
            self._asks_until = _NEVER
