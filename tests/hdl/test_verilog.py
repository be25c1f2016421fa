"""Verilog of a component, and the command that writes the accelerator's."""

import re
from pathlib import Path

import pytest
from amaranth import Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.__main__ import main
from tq_hw.hdl.verilog import VerilogError, to_verilog


class Lookup(wiring.Component):
    """A memory that starts as `rows`."""

    addr: Signal
    row: Signal

    def __init__(self, rows: list[int]) -> None:
        self._rows = rows
        super().__init__({"addr": In(2), "row": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.rows = rows = memory.Memory(shape=8, depth=4, init=self._rows)
        read = rows.read_port()
        m.d.comb += [read.addr.eq(self.addr), self.row.eq(read.data)]
        return m


def test_only_memories_that_start_as_zeros_start_undefined() -> None:
    row = re.compile(r"\[\d\] = 8'h(\w\w);")
    assert row.findall(to_verilog(Lookup([0, 7, 0, 9]), "lookup")) == ["00", "07", "00", "09"]
    assert row.findall(to_verilog(Lookup([0, 0, 0, 0]), "lookup")) == []


def test_a_name_that_verilog_cannot_have_is_refused() -> None:
    with pytest.raises(VerilogError, match=r"^Yosys refused the design of two words: "):
        to_verilog(Lookup([0, 0, 0, 0]), "two words")


def test_an_unknown_configuration_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["n17", "-o", str(tmp_path / "out.v")]) == 2
    assert "no configuration 'n17'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
