"""MuseLab iCESugar-pro with an LFE5U-25F."""

from tq_hw.boards.board import Board, Device, OnChip, Sdr, Toolchain
from tq_hw.isa.config import Config

__all__ = ["BOARD"]

BOARD = Board(
    name="icesugar_pro",
    title="MuseLab iCESugar-pro",
    platform="amaranth_boards.icesugar_pro:ICESugarProPlatform",
    device=Device("LFE5U-25F-6BG256", luts=24288, flip_flops=24288, multipliers=28, block_rams=56),
    toolchain=Toolchain.ECP5,
    config=Config("icesugar_pro", 4, 4, 2, 32 << 10, acc_words=64, bus_bytes=4),
    clock_hz=75_000_000,
    memories=(Sdr("IS42S16160", 32 << 20), OnChip(32 << 10)),
    loader=("-c", "cmsisdap"),
    led="rgb_led",
)
