"""The buses that lead to the registers, with masters that others wrote: cocotb in Verilator."""

from pathlib import Path
from typing import Any

import pytest
from amaranth import ClockDomain, ClockSignal, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from cocotb_run import run_cocotb

from tq_hw.hdl.bus.pass_through import pass_through
from tq_hw.hdl.control.registers import Registers, host_members
from tq_hw.hdl.top import CONTROLS
from tq_hw.hdl.verilog import to_verilog
from tq_hw.isa.config import load_config


class Bridged(wiring.Component):
    """A bridge of each kind, each before registers of its own; nothing ends a run but a stop."""

    def __init__(self) -> None:
        super().__init__({"aclk": In(1), "aresetn": In(1), **{
            f"{control.prefix}{name}": member for control in CONTROLS.values() if control.bridge
            for name, member in control.members().items()}})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = ClockDomain()
        # Amaranth makes ports of members, which the stubs do not know.
        ports: Any = self
        m.d.comb += [ClockSignal().eq(ports.aclk), ResetSignal().eq(~ports.aresetn)]
        host = {name: member for name, member in host_members().items() if name != "interrupt"}
        for control in CONTROLS.values():
            if control.bridge is None:
                continue
            bridge, registers = control.bridge(), Registers(load_config("tiny"))
            m.submodules += [bridge, registers]
            m.d.comb += pass_through(control.members(), self, bridge.bus, control.prefix)
            inner = {name.removeprefix("reg_"): member for name, member in host.items()}
            m.d.comb += pass_through(inner, bridge, registers, "reg_")
            m.d.comb += registers.channels_idle.eq(1)
        return m


def test_bridges_keep_their_rules_at_any_pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run_cocotb(to_verilog(Bridged(), "bridged"), "bridged", "cocotb_bridges", tmp_path, monkeypatch,
                      env={"COCOTB_LOG_LEVEL": "ERROR"})
    assert "<failure" not in text and text.count("<testcase") == 12, (tmp_path / "test.log").read_text()[-6000:]
