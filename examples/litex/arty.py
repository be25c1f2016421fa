"""The accelerator in LiteX's SoC for the Arty A7-35 (DDR3): python examples/litex/arty.py [--build].

LiteX's BIOS levels the DDR3 before it loads the program.
"""

from typing import Any

from board import main

CLOCK_HZ = 80_000_000


def make_soc() -> Any:
    """Return LiteX's own SoC for the board, with a timer that the program counts cycles with."""
    from litex_boards.targets.digilent_arty import BaseSoC

    return BaseSoC(variant="a7-35", toolchain="vivado", sys_clk_freq=CLOCK_HZ, integrated_rom_size=0x10000,
                   timer_uptime=True)


if __name__ == "__main__":
    main("arty", "n8", make_soc)
