"""Integration of the accelerator into a LiteX SoC. Needs the extra `litex`.

    from tq_hw.litex import add_tq_hw
    add_tq_hw(soc, config="n9x8")       # after soc.add_sdram, or with integrated main RAM

`add_tq_hw` adds the registers to the bus, the interrupt to the processor, and a path to the main memory: a port of
LiteDRAM's crossbar, or a master on the bus. LiteX then generates

    mem.h   TQ_HW_BASE, the registers of docs/reference/isa.md; TQ_HW_MEMORY_BASE and _SIZE, reserved for models
    soc.h   TQ_HW_INTERRUPT
        csr.h   tq_hw_ev_status_read(), tq_hw_ev_enable_write(), ...: the interrupt, high from the end of a run

`class MySoC(WithTqHw, SoCCore)` has the same function as a method: `soc.add_tq_hw(config="n9x8")`.

The driver of firmware/driver uses mem.h and soc.h unchanged; see docs/guide/litex.md.
"""

from pathlib import Path
from typing import Any

from litedram.frontend.axi import LiteDRAMAXI2Native
from litex.gen import ClockSignal, LiteXModule, ResetSignal
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect import axi, wishbone
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import Instance, Signal

from tq_hw.hdl.netlist.names import legal
from tq_hw.hdl.top import Top, top_members
from tq_hw.hdl.verilog import to_readable_verilog
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.control import WINDOW_BYTES
from tq_hw.model.errors import OptionError

__all__ = ["MEMORIES", "TqHw", "WithTqHw", "add_tq_hw"]

#: Paths to the main memory.
MEMORIES = ("auto", "dram", "bus")
#: Every LiteX SoC has this bus, or an adapter to it.
_CONTROL = "wishbone"
#: Alignment of regions, in bytes.
_ALIGN = 256


class TqHw(LiteXModule):
    """The accelerator as a LiteX module; `add_tq_hw` puts it into a SoC.

    Parameters
    ----------
    platform : on finalization the Verilog is written into its output folder and added to its sources
    config : a preset's name, a path that ends in .toml, or a Config
    name : of the Verilog module

    Members
    -------
    bus : Wishbone slave of 32 bits, classic cycles; `adr` counts words, only its low ten bits are decoded
    axi : AXI4 master of the configuration's bus width
    interrupt : high from the end of a run, or its error, until the next start or stop
    ev : LiteX's event `done`, triggered by the level of `interrupt`
    """

    # LiteX creates these on first access.
    comb: Any
    specials: Any

    def __init__(self, platform: Any, config: str | Config = "n8", name: str = "tq_hw") -> None:
        self.platform, self.module_name = platform, name
        self.config = load_config(config) if isinstance(config, str) else config
        if legal(name) != name:
            raise OptionError(f"name {name!r}: expected a Verilog module name that is not a keyword")
        self.bus = wishbone.Interface(data_width=32, address_width=32, addressing="word")
        self.axi = axi.AXIInterface(data_width=8 * self.config.bus_bytes, address_width=32, id_width=1)
        self.interrupt = Signal()
        self.ev = EventManager()
        self.ev.done = EventSourceLevel(description="the last run has ended, or stopped with an error")
        self.ev.finalize()
        self.comb += self.ev.done.trigger.eq(self.interrupt)
        self.specials += Instance(name, **self._ports())

    def _ports(self) -> dict[str, Any]:
        """Return the ports of the instance by LiteX's names, with the prefix `i_` or `o_`."""
        ports: dict[str, Any] = {}
        for port, member in top_members(self.config, _CONTROL).items():
            way = "i" if member.flow.name == "In" else "o"
            ports[f"{way}_{port}"] = self._signal(port)
        return ports

    def _signal(self, port: str) -> Any:
        if port in ("aclk", "aresetn"):
            return ClockSignal("sys") if port == "aclk" else ~ResetSignal("sys")
        if port == "interrupt":
            return self.interrupt
        if port.startswith("s_wb_"):
            signal = getattr(self.bus, port.removeprefix("s_wb_"))
            return signal[:WINDOW_BYTES.bit_length() - 3] if port == "s_wb_adr" else signal
        name = port.removeprefix("m_axi_")
        channel = name[:2] if name[0] == "a" else name[0]
        return getattr(getattr(self.axi, channel), name.removeprefix(channel))

    def do_finalize(self) -> None:
        """Write the Verilog. Every run writes the same bytes."""
        folder = Path(self.platform.output_dir or "build") / "gateware"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.module_name}.v"
        path.write_text(to_readable_verilog(Top(self.config, _CONTROL), self.module_name).text, encoding="utf-8")
        self.platform.add_source(str(path))


def add_tq_hw(soc: Any, config: str | Config = "n8", *, name: str = "tq_hw", memory: str = "auto",
              origin: int | None = None, memory_bytes: int = 1 << 20) -> TqHw:
    """Add the accelerator to a LiteX SoC as `soc.NAME` and return it.

    Parameters
    ----------
    config : a preset's name, a path that ends in .toml, or a Config
    name : of the module and of its register region; also the prefix in the generated headers
    memory : "dram": a port of LiteDRAM's crossbar. "bus": a master on `soc.dma_bus` if there is one, else on `soc.bus`.
        "auto": the first if the SoC has SDRAM, else the second. Only "bus" goes through the L2 cache
    origin : address of the registers, a page; None: LiteX chooses an uncached address
    memory_bytes : memory reserved for models, which the headers name; a power of 2, at least 256. It lies at the end of
        the main memory, below that of accelerators added earlier

    Raises OptionError if the SoC has no main memory or not enough of it, or if the name is taken.
    """
    if memory not in MEMORIES:
        raise OptionError(f"memory must be one of {', '.join(MEMORIES)}, not {memory!r}")
    main = soc.bus.regions.get("main_ram")
    if main is None:
        raise OptionError("the SoC has no main_ram: call soc.add_sdram first, or build it with "
                          "integrated_main_ram_size")
    # Place the memory below that of the accelerators already in the SoC.
    end = min([main.origin + main.size, *(
        soc.bus.regions[f"{key}_memory"].origin for key, unit in vars(soc).items() if isinstance(unit, TqHw))])
    if memory_bytes < _ALIGN or memory_bytes & memory_bytes - 1 or memory_bytes > end - main.origin:
        raise OptionError(f"memory_bytes must be a power of 2 from {_ALIGN} to the {end - main.origin} bytes of "
                          f"main_ram, not {memory_bytes}")
    sdram = getattr(soc, "sdram", None)
    if memory == "dram" and sdram is None:
        raise OptionError('memory="dram": the SoC has no sdram; use "bus"')
    if hasattr(soc, name):
        raise OptionError(f"name {name!r}: the SoC has a part of this name; give the accelerator another one")
    unit = TqHw(soc.platform, config, name)
    soc.add_module(name=name, module=unit)
    soc.bus.add_slave(name=name, slave=unit.bus, region=SoCRegion(
        origin=soc.mem_map.get(name) if origin is None else origin, size=WINDOW_BYTES, cached=False))
    if sdram is not None and memory != "bus":
        port = sdram.crossbar.get_port(data_width=unit.axi.data_width)
        soc.add_module(name=f"{name}_port", module=LiteDRAMAXI2Native(unit.axi, port, base_address=main.origin))
    else:
        getattr(soc, "dma_bus", soc.bus).add_master(name=name, master=unit.axi)
    if soc.irq.enabled:
        soc.irq.add(name, use_loc_if_exists=True)
    # A linker region may overlap another region.
    soc.bus.add_region(f"{name}_memory", SoCRegion(origin=end - memory_bytes, size=memory_bytes, linker=True))
    return unit


class WithTqHw:
    """A LiteX SoC with a method for the accelerator: `class MySoC(WithTqHw, SoCCore)`, then `soc.add_tq_hw(...)`."""

    #: `add_tq_hw` of this module, with the SoC as its first argument.
    add_tq_hw = add_tq_hw
