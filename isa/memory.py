"""The system memory: one record for the schedule search, the estimate of cycles, and the RTL simulation."""

from dataclasses import KW_ONLY, dataclass

from tq_hw.isa.config import Config

__all__ = ["YARDSTICK", "Memory"]

#: From a burst's last beat to the next burst in its queue entry.
_NEXT = 2


@dataclass(frozen=True)
class Memory:
    """The timing of a memory; defaults are those of the yardsticks. `sim.rtl.bench` refuses what it cannot simulate.

    Members
    -------
    latency_cycles : from a read's address to its first beat, and from a write's last beat to its response
    bytes_per_cycle : of reads and writes together; may be a fraction
    bursts : outstanding bursts that it accepts, reads and writes each
    stalls : seed of random pauses on all channels, None for none; estimates ignore them
    """

    latency_cycles: int = 30
    bytes_per_cycle: float = 8.0
    _: KW_ONLY
    bursts: int = 16
    stalls: int | None = None

    def cycles(self, config: Config, beats: int) -> int:
        """Cycles of this many beats in one direction, as long as the other moves nothing and bursts are answered."""
        return round(beats * max(1.0, config.bus_bytes / self.bytes_per_cycle))

    @property
    def burst_cycles(self) -> int:
        """Cycles from a burst's first beat to that of the burst that takes its queue entry."""
        return self.latency_cycles + _NEXT

    def slowed(self, config: Config, overlap: int) -> int:
        """Cycles lost while both directions are active for `overlap` cycles."""
        rate = min(float(config.bus_bytes), self.bytes_per_cycle)
        return round(overlap * max(0.0, 2 * rate / self.bytes_per_cycle - 1))


#: The memory that cycles are compared with: benches/yardsticks.py.
YARDSTICK = Memory()
