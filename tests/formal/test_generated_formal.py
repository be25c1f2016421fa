"""The assertions that a generated core brings for others' tools, checked here by a solver on the whole core.

From the first state on, for a number of cycles, with any partner and a reset at any time. What the file asks of the
memory is assumed. The rules for runs of any length are proved unit by unit: test_bus_formal.py.
"""

import re
from pathlib import Path

import pytest
from prover import prove_verilog

from tq_hw.cli.package.facts import Core, core_of
from tq_hw.cli.package.folder import verilog
from tq_hw.cli.package.sources import source_files
from tq_hw.isa.config import PRESETS

#: What the memory must keep.
ASSUMED = re.compile(r"was_asked$")
PROPERTY = re.compile(r"^  (\w+): assert property \(@\(posedge aclk\)\s*"
                      r"(disable iff \(!aresetn \|\| !awake\))?(.*?)\);$", re.S | re.M)
HOLDS = re.compile(r"^  (\w+): `HOLDS\((\w+), (\w+|\(.*?\)), (.*)\);$", re.M)
MACRO = re.compile(r"  `define HOLDS.*?\n\n", re.S)


def immediate(text: str) -> tuple[str, int]:
    """Return a file of assertions in the subset that yosys reads, and how many there are."""
    names: list[str] = []

    def one(found: re.Match[str]) -> str:
        name, gate, body = found.groups()
        names.append(name)
        verb = "assume" if ASSUMED.search(name) else "assert"
        before, arrow, after = re.split(r"(\|->|\|=>)", body) if re.search(r"\|[-=]>", body) else ("1'b1", "", body)
        now = "aresetn && awake" if gate else "1'b1"
        if arrow == "|=>":
            return (f"  always @(posedge aclk) if (past_known && {now} && $past({now}) && $past({before.strip()})) "
                    f"{verb} ({after.strip()});")
        return f"  always @* if (({now}) && ({before.strip()})) {verb} ({after.strip()});"

    text = MACRO.sub("  reg past_known = 0;\n  always @(posedge aclk) past_known <= 1;\n\n", text)
    text = HOLDS.sub(lambda found: (
        f"  {found[1]}: assert property (@(posedge aclk) disable iff (!aresetn || !awake)\n"
        f"      ({found[2]} && !{found[3]}) |=> ({found[2]} && $stable({found[4]})));"), text)
    return PROPERTY.sub(one, text).replace("`undef HOLDS", ""), len(names)


def bound(core: Core) -> tuple[str, int]:
    """Return the core and its assertions as one text whose top is `checked`, and the number of assertions."""
    checks, count = immediate(source_files(core)[f"sv/{core.name}_sva.sv"].decode())
    checks = re.sub(r"^bind .*$", "", checks, flags=re.M)
    inputs = ", ".join(f"input wire [{port.width - 1}:0] {port.name}" for port in core.ports
                       if port.direction == "input")
    wires = "".join(f"  wire [{port.width - 1}:0] {port.name};\n" for port in core.ports if port.direction == "output")
    ports = ", ".join(f".{port.name}({port.name})" for port in core.ports)
    return (f"{verilog(core).text}\n{checks}\nmodule checked({inputs});\n{wires}  {core.name} core({ports});\n"
            f"  {core.name}_sva sva({ports});\nendmodule\n"), count


@pytest.mark.slow
@pytest.mark.parametrize(("name", "control", "memory_bus", "cycles"), [
    ("serial", "axi4lite", "axi4", 12), ("serial", "apb", "axi4", 12), ("serial", "wishbone", "wishbone", 12),
    ("tiny", "axi4lite", "axi4", 14)])
def test_the_assertions_of_the_folder_hold(name: str, control: str, memory_bus: str, cycles: int,
                                           tmp_path: Path) -> None:
    text, count = bound(core_of(PRESETS[name], control, "npu", memory_bus))
    assert count == 10
    assert prove_verilog(text, "checked", tmp_path, cycles=cycles, induction=False, arrays=True)
