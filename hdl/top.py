"""The accelerator as others put it into a system: standard buses, `aclk`, `aresetn`, `interrupt`."""

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
from tq_hw.hdl.control.registers import host_members
from tq_hw.hdl.machine import machine
from tq_hw.isa.config import Config

__all__ = ["CONTROLS", "Control", "Top", "top_members"]

_REGISTER_BUS = ("reg_addr", "reg_write_en", "reg_write_data", "reg_read_data")


@dataclass(frozen=True)
class Control:
    """A bus to the registers: its signals as the slave sees them, what they are called outside, and the bridge."""

    members: Callable[[], dict[str, wiring.Member]]
    prefix: str
    bridge: Callable[[], Any] | None


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


def top_members(config: Config, control: str) -> dict[str, wiring.Member]:
    """Return the ports of `Top`, in their order."""
    bus = CONTROLS[control]
    return {
        "aclk": In(1), "aresetn": In(1),
        **{f"{bus.prefix}{name}": member for name, member in bus.members().items()},
        **{f"m_axi_{name}": member for name, member in _memory_members(config).items()},
        "interrupt": Out(1),
    }


class Top(wiring.Component):
    """The machine of a configuration between an AXI4 master and a bus to its registers, with a reset that is low.

    One clock; `aresetn` is sampled with it, and may be low for a single cycle. What was under way on any bus is
    forgotten, so memory and masters must be reset with it, unless nothing is: after a stop, once `status` is 0.
    Outputs are registers, inverses of one, or constants: no path leads from an input to an output within a cycle.

    Parameters
    ----------
    config : of the machine
    control : bus to the registers, one of CONTROLS; "plain" is the machine's own

    Members
    -------
    aclk, aresetn : In(1)
    m_axi_* : AXI4 master of hdl/bus/axi.py
    s_axi_*, s_wb_*, s_apb_* or reg_* : the signals that `Control.members` names
    interrupt : Out(1), high from done or error to the next start or stop
    """

    aclk: Signal
    aresetn: Signal
    interrupt: Signal

    def __init__(self, config: Config, control: str) -> None:
        self._config, self._control = config, CONTROLS[control]
        super().__init__(top_members(config, control))

    def elaborate(self, platform: object) -> Module:
        """Put a register on the reset, and the bridge before the registers."""
        m = Module()
        m.domains.sync = ClockDomain()
        reset = Signal(init=1, reset_less=True)
        m.d.sync += reset.eq(~self.aresetn)
        m.d.comb += [ClockSignal().eq(self.aclk), ResetSignal().eq(reset)]
        m.submodules.accelerator = accelerator = machine(self._config)
        m.d.comb += pass_through(_memory_members(self._config), self, accelerator, "m_axi_", "m_axi_")
        m.d.comb += self.interrupt.eq(accelerator.interrupt)
        members = self._control.members()
        if self._control.bridge is None:
            m.d.comb += pass_through(members, self, accelerator, "reg_", "reg_")
            return m
        m.submodules.bridge = bridge = self._control.bridge()
        m.d.comb += pass_through(members, self, bridge.bus, self._control.prefix)
        m.d.comb += pass_through({name: host_members()[name] for name in _REGISTER_BUS}, bridge, accelerator)
        return m


def _memory_members(config: Config) -> dict[str, wiring.Member]:
    return read_members(config) | write_members(config)
