"""Sipeed Tang Primer 20K with a Gowin GW2A-18."""

from dataclasses import replace

from tq_hw.boards.catalog.board import Board, Device, OnChip, Toolchain
from tq_hw.isa.config import PRESETS

__all__ = ["BOARD"]

BOARD = Board(
    name="tang_primer_20k",
    title="Sipeed Tang Primer 20K with its dock",
    platform="amaranth_boards.tang_primer_20k:TangPrimer20kDockPlatform",
    device=Device("GW2A-LV18PG256C8/I7", luts=20736, flip_flops=15552, multipliers=48, block_rams=46),
    toolchain=Toolchain.GOWIN,
    # The smallest parallel machine needs more flip-flops than the device has. Block RAM is shared by the machine
    # (32 KiB in addition to the scratchpad), its program and the memory.
    config=replace(PRESETS["serial"], name="tang_primer_20k", scratchpad_bytes=8 << 10),
    clock_hz=27_000_000,
    memories=(OnChip(32 << 10),),
    loader=("-b", "tangprimer20k"),
)
