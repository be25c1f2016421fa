"""What a board's memory gives its accelerator: latency and rate in the accelerator's cycles."""

from tq_hw.boards.catalog.board import Board, Ddr3, Memory, OnChip, Sdr
from tq_hw.isa.layout import BURST_BYTES
from tq_hw.isa.memory import Memory as Rate

__all__ = ["memory_rate"]

#: Of SDR chips of 16 bits behind LiteDRAM's core, in its cycles: simulated with the core.
_SDR_BYTES_PER_CYCLE = 1.93
#: Of DDR3 chips of 16 bits at four times the rate of the core's user port: three quarters of the peak.
_DDR3_BYTES_PER_CYCLE = 12.0
_DRAM_LATENCY_CYCLES = 30
#: Block RAM answers after its registers and those of the bus, and takes two cycles more for a burst than it has beats.
_BLOCK_LATENCY_CYCLES, _BURST_CYCLES = 6, 2


def memory_rate(board: Board, memory: Memory) -> Rate:
    """Return the system memory that schedules are searched for and cycles estimated with."""
    if isinstance(memory, Sdr):
        return Rate(_DRAM_LATENCY_CYCLES, round(_SDR_BYTES_PER_CYCLE * memory.clock_hz / board.clock_hz, 2))
    if isinstance(memory, Ddr3):
        return Rate(_DRAM_LATENCY_CYCLES, _DDR3_BYTES_PER_CYCLE * memory.clock_hz / board.clock_hz)
    beats = BURST_BYTES // board.config.bus_bytes
    width = board.config.bus_bytes if isinstance(memory, OnChip) else 4
    return Rate(_BLOCK_LATENCY_CYCLES, round(width * beats / (beats + _BURST_CYCLES), 2))
