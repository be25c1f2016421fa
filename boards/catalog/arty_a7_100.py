"""Digilent Arty A7 with an XC7A100T."""

from dataclasses import replace

from tq_hw.boards.catalog.arty_a7 import BOARD as SMALLER
from tq_hw.boards.catalog.arty_a7 import DDR3
from tq_hw.boards.catalog.board import Device, OnChip
from tq_hw.isa.config import Config

__all__ = ["BOARD"]

BOARD = replace(
    SMALLER,
    name="arty_a7_100",
    title="Digilent Arty A7-100T",
    platform="amaranth_boards.arty_a7:ArtyA7_100Platform",
    device=Device("XC7A100TI-1LCSG324", luts=63400, flip_flops=126800, multipliers=240, block_rams=135),
    # 256 MACs per cycle in 128 multipliers, 64 in sixteen lanes.
    config=Config("arty_a7_100", 16, 16, 16, 128 << 10, dsp_packing=2, few_luts=1),
    memories=(DDR3, OnChip(128 << 10)),
)
