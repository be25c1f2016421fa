"""The system memory that schedules are searched and cycles are estimated for."""

from dataclasses import dataclass

from tq_hw.isa.config import Config
from tq_hw.isa.layout import BURST_BYTES

__all__ = ["Memory"]

#: Bursts that a memory works on at once.
_BURSTS = 16
#: From a burst's last beat to the next burst in its place.
_NEXT = 2


@dataclass(frozen=True)
class Memory:
    """What a memory gives, as `tq-hw sim` simulates it; the defaults are those of the yardsticks.

    Members
    -------
    latency_cycles : from a request to the first data
    bytes_per_cycle : of reads and writes together
    """

    latency_cycles: int = 30
    bytes_per_cycle: float = 8.0

    def cycles(self, config: Config, beats: int, runs: int = 0, run_bytes: int = 0) -> int:
        """Cycles of so many beats in one direction, as long as the other moves nothing; they are of `runs` runs.

        Beats come as fast as bus and memory let them; short runs as bursts are answered.
        """
        bursts = runs * -(-run_bytes // BURST_BYTES)
        return max(round(beats * max(1.0, config.bus_bytes / self.bytes_per_cycle)),
                   bursts * (self.latency_cycles + _NEXT) // _BURSTS)

    def slowed(self, config: Config, overlap: int) -> int:
        """Cycles that are lost where both directions are under way for `overlap` cycles."""
        rate = min(float(config.bus_bytes), self.bytes_per_cycle)
        return round(overlap * max(0.0, 2 * rate / self.bytes_per_cycle - 1))
