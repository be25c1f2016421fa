"""The accelerator as an IP block: standard buses, `aclk`, `aresetn`, `interrupt`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth import ClockDomain, ClockSignal, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.bus.apb import ApbBridge, apb_members
from tq_hw.hdl.bus.axi import read_members, write_members
from tq_hw.hdl.bus.axi_lite import AxiLiteBridge, axi_lite_members
from tq_hw.hdl.bus.pass_through import pass_through
from tq_hw.hdl.bus.wishbone import WishboneBridge, wishbone_members
from tq_hw.hdl.bus.wishbone_master import WishboneMaster, wishbone_master_members
from tq_hw.hdl.control.registers import host_members
from tq_hw.hdl.machine import machine
from tq_hw.isa.config import Config

__all__ = ["CONTROLS", "MEMORY_BUSES", "Control", "Core", "MemoryBus", "Top", "top_members"]

_REGISTER_BUS = ("reg_addr", "reg_write_en", "reg_write_data", "reg_read_data")


@dataclass(frozen=True)
class Control:
    """A bus to the registers: its signals seen from the slave, its outer names, and the bridge."""

    members: Callable[[], dict[str, wiring.Member]]
    prefix: str
    bridge: Callable[[], Any] | None


@dataclass(frozen=True)
class MemoryBus:
    """A bus to memory: its signals seen from the master, its outer names, and the bridge."""

    members: Callable[[Config], dict[str, wiring.Member]]
    prefix: str
    bridge: Callable[[Config], Any] | None


def _plain_members() -> dict[str, wiring.Member]:
    members = host_members()
    return {name.removeprefix("reg_"): members[name] for name in _REGISTER_BUS}


#: Buses that lead to the registers, by name.
CONTROLS = {
    "axi4lite": Control(axi_lite_members, "s_axi_", AxiLiteBridge),
    "wishbone": Control(wishbone_members, "s_wb_", WishboneBridge),
    "apb": Control(apb_members, "s_apb_", ApbBridge),
    "plain": Control(_plain_members, "reg_", None),
}


def _axi_members(config: Config) -> dict[str, wiring.Member]:
    return read_members(config) | write_members(config)


#: Buses that lead to memory, by name.
MEMORY_BUSES = {
    "axi4": MemoryBus(_axi_members, "m_axi_", None),
    "wishbone": MemoryBus(wishbone_master_members, "m_wb_", WishboneMaster),
}


def top_members(config: Config, control: str, memory_bus: str = "axi4") -> dict[str, wiring.Member]:
    """Return the ports of `Top`, in their order."""
    bus, memory = CONTROLS[control], MEMORY_BUSES[memory_bus]
    return {
        "aclk": In(1), "aresetn": In(1),
        **{f"{bus.prefix}{name}": member for name, member in bus.members().items()},
        **{f"{memory.prefix}{name}": member for name, member in memory.members(config).items()},
        "interrupt": Out(1),
    }


class Core(wiring.Component):
    """`Top` in the clock and reset domain of its user: the boards build this.

    Parameters
    ----------
    config, control, memory_bus : as of `Top`

    Members
    -------
    m_axi_* or m_wb_*, s_axi_*, s_wb_*, s_apb_* or reg_*, interrupt : as of `Top`
    """

    interrupt: Signal

    def __init__(self, config: Config, control: str = "plain", memory_bus: str = "axi4") -> None:
        self._config, self._control, self._memory = config, CONTROLS[control], MEMORY_BUSES[memory_bus]
        super().__init__({name: member for name, member in top_members(config, control, memory_bus).items()
                          if name not in ("aclk", "aresetn")})

    def elaborate(self, platform: object) -> Module:
        """The machine and its bridges only."""
        m = Module()
        _connect(m, self, self._config, self._control, self._memory)
        return m


class Top(wiring.Component):
    """A machine between a memory bus and a register bus, with an active-low reset.

    One clock. `aresetn` is sampled with it, and may be low for a single cycle. Reset abandons all transfers, so memory
    and masters must be reset too, unless no transfer is in progress: after a stop, once `status` is 0. Outputs are
    registers, inverses of one, or constants: there is no combinational path from an input to an output.

    Parameters
    ----------
    config : of the machine
    control : bus to the registers, one of CONTROLS; "plain" is the machine's own
    memory_bus : one of MEMORY_BUSES

    Members
    -------
    aclk, aresetn : In(1)
    m_axi_* : AXI4 master of hdl/bus/axi.py, or m_wb_* : Wishbone master of hdl/bus/wishbone_master.py
    s_axi_*, s_wb_*, s_apb_* or reg_* : the signals that `Control.members` names
    interrupt : Out(1), high from done or error to the next start or stop
    """

    aclk: Signal
    aresetn: Signal
    interrupt: Signal

    def __init__(self, config: Config, control: str, memory_bus: str = "axi4") -> None:
        self._config, self._control, self._memory = config, CONTROLS[control], MEMORY_BUSES[memory_bus]
        super().__init__(top_members(config, control, memory_bus))

    def elaborate(self, platform: object) -> Module:
        """Register the reset, and put the bridges between machine and buses."""
        m = Module()
        m.domains.sync = ClockDomain()
        reset = Signal(init=1, reset_less=True)
        m.d.sync += reset.eq(~self.aresetn)
        m.d.comb += [ClockSignal().eq(self.aclk), ResetSignal().eq(reset)]
        _connect(m, self, self._config, self._control, self._memory)
        return m


def _connect(m: Module, outer: Any, config: Config, control: Control, memory: MemoryBus) -> None:
    """Put the machine of a configuration between its buses, which are ports of `outer`."""
    m.submodules.accelerator = accelerator = machine(config)
    m.d.comb += outer.interrupt.eq(accelerator.interrupt)
    members = memory.members(config)
    if memory.bridge is None:
        m.d.comb += pass_through(members, outer, accelerator, memory.prefix, "m_axi_")
    else:
        m.submodules.memory_bridge = bridge = memory.bridge(config)
        m.d.comb += pass_through(_axi_members(config), bridge.axi, accelerator, inner_prefix="m_axi_")
        m.d.comb += pass_through(members, outer, bridge.bus, memory.prefix)
    members = control.members()
    if control.bridge is None:
        m.d.comb += pass_through(members, outer, accelerator, "reg_", "reg_")
        return
    m.submodules.bridge = bridge = control.bridge()
    m.d.comb += pass_through(members, outer, bridge.bus, control.prefix)
    m.d.comb += pass_through({name: host_members()[name] for name in _REGISTER_BUS}, bridge, accelerator)
