"""Digilent Arty A7 with an XC7A35T."""

from tq_hw.boards.catalog.board import Board, Ddr3, Device, OnChip, Toolchain
from tq_hw.isa.config import Config

__all__ = ["BOARD", "DDR3"]

DDR3 = Ddr3("MT41K128M16", "A7DDRPHY", 256 << 20, 100_000_000, options=(
    ("iodelay_clk_freq", 200e6), ("speedgrade", -1), ("cmd_latency", 0), ("rtt_nom", "60ohm"), ("rtt_wr", "60ohm"),
    ("ron", "34ohm")))

BOARD = Board(
    name="arty_a7",
    title="Digilent Arty A7-35T",
    platform="amaranth_boards.arty_a7:ArtyA7_35Platform",
    device=Device("XC7A35TI-1LCSG324", luts=20800, flip_flops=41600, multipliers=90, block_rams=50),
    toolchain=Toolchain.XILINX,
    # 64 multipliers in the array, with two products each, 16 in four lanes. LUTs are the scarcest resource.
    config=Config("arty_a7", 16, 8, 4, 64 << 10, dsp_packing=2, few_counters=1, block_uops=1, few_luts=1),
    clock_hz=100_000_000,
    memories=(DDR3, OnChip(8 << 10)),
    loader=("-b", "arty"),
)
