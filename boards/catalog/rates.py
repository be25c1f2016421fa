"""The memory of a board as the accelerator sees it: latency and rate in the accelerator's cycles."""

from tq_hw.boards.catalog.board import Board, Ddr3, Memory, OnChip, Sdr
from tq_hw.isa.layout import BURST_BYTES
from tq_hw.isa.memory import Memory as Rate

__all__ = ["DDR3_PHYS", "memory_rate"]

#: Rates of consecutive reads of BURST_BYTES, refresh included; tests/boards/gateware/test_dram_rate.py simulates
#: LiteDRAM's controllers to measure them. For a 16-bit SDR chip, per cycle of the controller:
_SDR_BYTES_PER_CYCLE = 1.93
#: For a 16-bit DDR3, by PHY, with four and with two cycles of the chip per cycle of the controller. The share is what
#: refresh leaves of a bus that is narrower than this rate.
_DDR3_BYTES_PER_CYCLE, _DDR3_SHARE = {"A7DDRPHY": 14.23, "ECP5DDRPHY": 6.86}, 0.969
#: PHYs whose rate is known.
DDR3_PHYS = tuple(_DDR3_BYTES_PER_CYCLE)
_DRAM_LATENCY_CYCLES = 30
#: Block RAM answers after its own registers and those of the bus. A burst takes two cycles more than it has beats.
_BLOCK_LATENCY_CYCLES, _BURST_CYCLES = 6, 2


def memory_rate(board: Board, memory: Memory) -> Rate:
    """Return the memory model for schedule search and cycle estimates."""
    if isinstance(memory, Sdr):
        return Rate(_DRAM_LATENCY_CYCLES, round(_SDR_BYTES_PER_CYCLE * memory.clock_hz / board.clock_hz, 2))
    if isinstance(memory, Ddr3):
        of_core = min(_DDR3_BYTES_PER_CYCLE[memory.phy], _DDR3_SHARE * board.config.bus_bytes)
        return Rate(_DRAM_LATENCY_CYCLES, round(of_core * memory.clock_hz / board.clock_hz, 2))
    beats = BURST_BYTES // board.config.bus_bytes
    width = board.config.bus_bytes if isinstance(memory, OnChip) else 4
    return Rate(_BLOCK_LATENCY_CYCLES, round(width * beats / (beats + _BURST_CYCLES), 2))
