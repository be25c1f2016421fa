"""Scripts for Vivado, and device tree snippets with the same addresses and interrupts."""

from dataclasses import dataclass

from tq_hw.cli.package.bench import filled
from tq_hw.cli.package.facts import Core
from tq_hw.isa.control import WINDOW_BYTES

__all__ = ["ULTRASCALE", "ZYNQ_7000", "Family", "vivado_files"]


@dataclass(frozen=True)
class Family:
    """A family of chips with processors.

    Members
    -------
    part : default part
    base : byte address of the registers, at the general-purpose port
    interrupt : of the first line from the logic, as numbered in the device tree (shared interrupts from 0)
    most_port_bits : maximum width of the high-performance ports
    bus, controller : labels of bus and interrupt controller in Linux's device tree
    address_cells : number of cells of an address there
    """

    part: str
    base: int
    interrupt: int
    most_port_bits: int
    bus: str
    controller: str
    address_cells: int

    def cells(self, value: int) -> str:
        """Return an address or a size in the device tree's notation."""
        return " ".join([*["0x0"] * (self.address_cells - 1), hex(value)])

    def port_bits(self, bus_bits: int) -> int:
        """Return the width of the memory port: that of the core's bus, if the port supports it."""
        return min(max(bus_bits, 32), self.most_port_bits)


ZYNQ_7000 = Family("xc7z020clg400-1", 0x43C00000, 29, 64, "amba", "intc", 1)
ULTRASCALE = Family("xczu3eg-sbva484-1-e", 0xA0000000, 89, 128, "axi", "gic", 2)


def vivado_files(core: Core) -> dict[str, bytes]:
    """Return the files by name. Only cores with AXI on both sides get a block design."""
    files = " ".join(f"[file join $here .. {name.replace('/', ' ')}]" for name in (*core.sources, *core.models))
    texts = {"vivado/project.tcl": filled("vivado_project.tcl.in", NAME=core.name, PART=ZYNQ_7000.part, FILES=files)}
    for suffix, family in (("_zynq7000", ZYNQ_7000), ("", ULTRASCALE)):
        texts[f"sw/{core.name}{suffix}.dtsi"] = filled(
            "dts.in", NODE=core.name.lower(), BUS=family.bus, CONTROLLER=family.controller,
            UNIT=f"{family.base:x}", BASE=family.cells(family.base), WINDOW=family.cells(WINDOW_BYTES),
            INTERRUPT=str(family.interrupt), BUFFER=family.cells(0x1000000))
    if (core.control, core.memory_bus) == ("axi4lite", "axi4"):
        texts["vivado/block_design.tcl"] = _block_design(core, files)
    return {name: text.encode() for name, text in texts.items()}


def _block_design(core: Core, files: str) -> str:
    bits = 8 * core.config.bus_bytes
    return filled(
        "vivado_block.tcl.in", NAME=core.name, PART=ZYNQ_7000.part, FILES=files, CONTROL="s_axi", MEMORY="m_axi",
        CLOCK="aclk", RESET="aresetn", INTERRUPT="interrupt", WINDOW=f"{WINDOW_BYTES >> 10}K",
        US_BITS=str(ULTRASCALE.port_bits(bits)), US_BASE=f"0x{ULTRASCALE.base:08X}",
        Z7_BITS=str(ZYNQ_7000.port_bits(bits)), Z7_BASE=f"0x{ZYNQ_7000.base:08X}")
