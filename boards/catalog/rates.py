"""What a board's memory gives its accelerator: latency and rate in the accelerator's cycles."""

from tq_hw.boards.catalog.board import Board, Ddr3, Memory, OnChip, Sdr
from tq_hw.isa.layout import BURST_BYTES
from tq_hw.isa.memory import Memory as Rate

__all__ = ["DDR3_PHYS", "memory_rate"]

#: Blocks of BURST_BYTES that are read one after the other, refresh included; tests/boards/gateware/test_dram_rate.py
#: simulates LiteDRAM's cores. Of an SDR chip of 16 bits, in the core's cycles:
_SDR_BYTES_PER_CYCLE = 1.93
#: Of a DDR3 of 16 bits, by PHY: at four and at two clocks of the chip in a cycle of the core; and what refreshes leave
#: of a bus that is narrower than that.
_DDR3_BYTES_PER_CYCLE, _DDR3_SHARE = {"A7DDRPHY": 14.23, "ECP5DDRPHY": 6.86}, 0.969
#: PHYs whose rate is known.
DDR3_PHYS = tuple(_DDR3_BYTES_PER_CYCLE)
_DRAM_LATENCY_CYCLES = 30
#: Block RAM answers after its registers and those of the bus, and takes two cycles more for a burst than it has beats.
_BLOCK_LATENCY_CYCLES, _BURST_CYCLES = 6, 2


def memory_rate(board: Board, memory: Memory) -> Rate:
    """Return the system memory that schedules are searched for and cycles estimated with."""
    if isinstance(memory, Sdr):
        return Rate(_DRAM_LATENCY_CYCLES, round(_SDR_BYTES_PER_CYCLE * memory.clock_hz / board.clock_hz, 2))
    if isinstance(memory, Ddr3):
        of_core = min(_DDR3_BYTES_PER_CYCLE[memory.phy], _DDR3_SHARE * board.config.bus_bytes)
        return Rate(_DRAM_LATENCY_CYCLES, round(of_core * memory.clock_hz / board.clock_hz, 2))
    beats = BURST_BYTES // board.config.bus_bytes
    width = board.config.bus_bytes if isinstance(memory, OnChip) else 4
    return Rate(_BLOCK_LATENCY_CYCLES, round(width * beats / (beats + _BURST_CYCLES), 2))
