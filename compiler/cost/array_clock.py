"""Timing of the array and its accumulator buffers."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tq_hw.compiler.cost.array_cycles import ArrayTile, array_tiles
from tq_hw.compiler.cost.control_clock import Controls
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import Config
from tq_hw.isa.latency import (
    ARRAY_GAP_CYCLES,
    ARRAY_START_CYCLES,
    RELEASE_CYCLES,
    WEIGHTS_ASKED_CYCLES,
    add_delay_cycles,
    sums_delay_cycles,
)

__all__ = ["ArrayClock"]


@dataclass(frozen=True)
class _Waiting:
    """A queued tile, number `number` of its operation; `together`: several tiles are open at the same time."""

    operation: Operation
    number: int
    tile: ArrayTile
    first: bool
    last: bool
    together: bool

    @property
    def fields(self) -> Mapping[str, int]:
        """Fields of its operation."""
        return self.operation.fields

    @property
    def alone(self) -> bool:
        """Whether its operation is a single step."""
        return self.first and self.last and self.tile.steps == 1


class ArrayClock:
    """Runs tiles in order, as far as free buffers are known; calls `reads` for each tile with its first slot.

    Members
    -------
    sums : for each complete and unread buffer, the cycle from which its words can be read
    """

    def __init__(self, config: Config, controls: Controls, reads: Callable[[ArrayTile, int], None]) -> None:
        self._config, self._controls, self._reads = config, controls, reads
        self._waiting: deque[_Waiting] = deque()
        self._free = 0
        self._alone = 0
        self._buffers = 0
        self._released: deque[int] = deque()
        #: By complete buffer, the cycles in which the array adds to it: first, end, and how many of these.
        self._adding: dict[int, tuple[int, int, int]] = {}
        self._filled = 0
        self._emptied = 0
        self.sums: deque[int] = deque()

    def __len__(self) -> int:
        """Number of queued tiles."""
        return len(self._waiting)

    def add(self, operation: Operation) -> None:
        """Queue the tiles of an operation whose tokens are known."""
        f, tiles = operation.fields, array_tiles(operation, self._config)
        together = len(tiles) > 1 and not (f["acc_first"] and f["acc_last"])
        self._waiting.extend(
            _Waiting(operation, number, tile, number == 0, number == len(tiles) - 1, together)
            for number, tile in enumerate(tiles))

    def run(self) -> None:
        """Run the tiles for which a free buffer is known."""
        while self._waiting:
            waiting = self._waiting[0]
            f, operation = waiting.fields, waiting.operation
            if f["acc_first"] and self._buffers >= self._config.acc_buffers and not self._released:
                return
            start = self._free
            if waiting.first:
                taken = max(self._controls.offered(operation), self._alone)
                self._controls.take(operation, taken)
                start = max(start, taken + max(ARRAY_START_CYCLES, WEIGHTS_ASKED_CYCLES + f["weight_rows"]))
            if f["acc_first"]:
                if self._buffers >= self._config.acc_buffers:
                    start = max(start, self._released.popleft())
                else:
                    self._buffers += 1
            self._waiting.popleft()
            self._run(waiting, start)

    def _run(self, waiting: _Waiting, start: int) -> None:
        f, tile = waiting.fields, waiting.tile
        end = start + tile.last_slot
        self._free = start + tile.cycles
        if waiting.last:
            self._free = max(self._free, end + tile.lag + ARRAY_GAP_CYCLES)
            self._controls.end(waiting.operation, end + tile.lag + sums_delay_cycles(self._config))
        self._alone = start + 2 if waiting.alone else 0
        self._reads(tile, start)
        if tile.steps > 1 or not f["acc_first"]:
            self._add(waiting, start, end)
        self._filled += f["acc_last"]
        if f["acc_last"]:
            self.sums.append(end + sums_delay_cycles(self._config))

    def _add(self, waiting: _Waiting, start: int, end: int) -> None:
        """Record when the array adds to the tile's buffer: in all steps except one that opens it."""
        f, tile, delay = waiting.fields, waiting.tile, add_delay_cycles(self._config)
        first = start + (tile.last_slot // tile.steps if f["acc_first"] else 0)
        filling = self._filled + (0 if f["acc_last"] else waiting.number)
        begins = first + delay, 0, 0
        low, _, adds = begins if waiting.together else self._adding.get(filling, begins)
        self._adding[filling] = (low, end + delay, adds + (tile.steps - f["acc_first"]) * tile.slots)

    def added(self) -> tuple[int, int, int]:
        """Return when the array adds to the buffer in the same memory as the one read now: first, end, cycles."""
        self.run()
        return self._adding.pop(self._emptied + 2, (0, 0, 0))

    def release(self, at: int) -> None:
        """Free the oldest complete buffer, which was read up to a cycle."""
        self._emptied += 1
        self._released.append(at + RELEASE_CYCLES)
