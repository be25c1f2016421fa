"""Radiona ULX3S with an LFE5U-85F."""

from tq_hw.boards.catalog.board import Board, Device, OnChip, Sdr, Toolchain
from tq_hw.isa.config import Config

__all__ = ["BOARD"]

BOARD = Board(
    name="ulx3s_85f",
    title="Radiona ULX3S 85F",
    platform="amaranth_boards.ulx3s:ULX3S_85F_Platform",
    device=Device("LFE5U-85F-6BG381", luts=83640, flip_flops=83640, multipliers=156, block_rams=208),
    toolchain=Toolchain.ECP5,
    # 128 products a cycle and four lanes, in 144 multipliers. The SDRAM's rate is the limit, so weights are compressed.
    config=Config("ulx3s_85f", 16, 8, 4, 64 << 10, acc_words=64, compressed_weights=1),
    clock_hz=100_000_000,
    memories=(Sdr("MT48LC16M16", 32 << 20, clock_hz=83_333_333), OnChip(128 << 10)),
    loader=("-b", "ulx3s"),
    soc_clock_hz=50_000_000,
    # 100.5 MHz; the SDRAM controller reaches 87.5 MHz, its target is 83.3. With some seeds nextpnr does not finish:
    # another netlist needs a search with --seeds.
    seed=1,
)
