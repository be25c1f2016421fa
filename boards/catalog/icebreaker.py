"""1BitSquared iCEBreaker with an iCE40UP5K."""

from tq_hw.boards.catalog.board import Board, Device, Spram, Toolchain
from tq_hw.isa.config import PRESETS

__all__ = ["BOARD"]

BOARD = Board(
    name="icebreaker",
    title="1BitSquared iCEBreaker",
    platform="amaranth_boards.icebreaker:ICEBreakerPlatform",
    device=Device("iCE40UP5K-SG48", luts=5280, flip_flops=5280, multipliers=8, block_rams=30),
    toolchain=Toolchain.ICE40,
    config=PRESETS["serial"],
    clock_hz=12_000_000,
    memories=(Spram(),),
    loader=("-b", "ice40_generic"),
    baud=115_200,
)
