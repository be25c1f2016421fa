"""Radiona ULX3S with an LFE5U-85F."""

from tq_hw.boards.catalog.board import Board, Device, OnChip, Sdr, Toolchain
from tq_hw.isa.config import PRESETS

__all__ = ["BOARD"]

BOARD = Board(
    name="ulx3s_85f",
    title="Radiona ULX3S 85F",
    platform="amaranth_boards.ulx3s:ULX3S_85F_Platform",
    device=Device("LFE5U-85F-6BG381", luts=83640, flip_flops=83640, multipliers=156, block_rams=208),
    toolchain=Toolchain.ECP5,
    config=PRESETS["n9x8"],
    clock_hz=100_000_000,
    memories=(Sdr("MT48LC16M16", 32 << 20, clock_hz=87_500_000), OnChip(128 << 10)),
    loader=("-b", "ulx3s"),
    soc_clock_hz=50_000_000,
    # 106.5 MHz, and 91.3 for the SDRAM's core. With another name of one register, 94.5 and 78.8: another netlist needs
    # a search with --seeds.
    seed=2,
)
