"""The accelerator in LiteX's SoC for the ULX3S (ECP5-85F, SDRAM): python examples/litex/ulx3s.py [--build]."""

from typing import Any

from board import main

CLOCK_HZ = 50_000_000


def make_soc() -> Any:
    """Return LiteX's own SoC for the board, with a timer that the program counts cycles with."""
    from litex_boards.targets.radiona_ulx3s import BaseSoC

    return BaseSoC(device="LFE5U-85F", toolchain="trellis", sys_clk_freq=CLOCK_HZ, sdram_module_cls="MT48LC16M16",
                   integrated_rom_size=0x10000, timer_uptime=True)


if __name__ == "__main__":
    main("ulx3s", "n8", make_soc)
