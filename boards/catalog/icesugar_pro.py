"""MuseLab iCESugar-pro with an LFE5U-25F."""

from tq_hw.boards.catalog.board import Board, Device, OnChip, Sdr, Toolchain
from tq_hw.isa.config import Config

__all__ = ["BOARD"]

BOARD = Board(
    name="icesugar_pro",
    title="MuseLab iCESugar-pro",
    platform="amaranth_boards.icesugar_pro:ICESugarProPlatform",
    device=Device("LFE5U-25F-6BG256", luts=24288, flip_flops=24288, multipliers=28, block_rams=56),
    toolchain=Toolchain.ECP5,
    # All that fits next to the link: what does not grow with the array takes most of this FPGA.
    config=Config("icesugar_pro", 4, 4, 1, 16 << 10, acc_words=32, acc_buffers=2, bus_bytes=4, fold_steps=4, uops=32,
                  vector_words=128),
    clock_hz=50_000_000,
    memories=(OnChip(32 << 10), Sdr("IS42S16160", 32 << 20, clock_hz=50_000_000)),
    loader=("-c", "cmsisdap"),
    led="rgb_led",
)
