"""The scripts for Vivado, run by Tcl with commands that only note how they were called, against the core's ports.

Nothing here runs Vivado: what its commands would do is not tested.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tq_hw.cli.package.facts import Core, core_of
from tq_hw.cli.package.vivado import ULTRASCALE, ZYNQ_7000, Family, vivado_files
from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import WINDOW_BYTES

tkinter = pytest.importorskip("tkinter", reason="this Python has no Tcl: apt install python3-tk")
#: Commands of Vivado that the scripts may call; `get_*` give what they were asked for.
NOTED = ("create_project", "add_files", "set_property", "update_compile_order", "create_bd_design", "create_bd_cell",
         "apply_bd_automation", "connect_bd_net", "connect_bd_intf_net", "assign_bd_address", "validate_bd_design",
         "save_bd_design", "make_wrapper", "generate_target", "launch_runs", "wait_on_run", "open_run",
         "report_utilization", "report_timing_summary")
STUBS = """
proc get_ipdefs args {regexp {ip:(.*):\\*"?$} [lindex $args end] all name; return [list xilinx.com:ip:$name:1.9 \
xilinx.com:ip:$name:1.10]}
proc get_property args {return "100%"}
foreach name {current_project current_fileset} {proc $name {} [list return $name]}
foreach name {get_bd_pins get_bd_intf_pins get_bd_cells get_files get_runs get_bd_addr_spaces get_bd_addr_segs} {
    proc $name {what} {return $what}
}
"""
#: Every pin and interface of IPs that the script may connect: what their documents name.
OTHERS = {
    "reset": {"slowest_sync_clk", "ext_reset_in", "peripheral_aresetn", "interconnect_aresetn"},
    "control": {"aclk", "aresetn", "S00_AXI", "M00_AXI"}, "memory": {"aclk", "aresetn", "S00_AXI", "M00_AXI"},
}
PROCESSORS = {
    "xc7z010clg400-1": {"FCLK_CLK0", "FCLK_RESET0_N", "M_AXI_GP0", "S_AXI_HP0", "M_AXI_GP0_ACLK", "S_AXI_HP0_ACLK",
                        "IRQ_F2P"},
    "xck26-sfvc784-2LV-c": {"pl_clk0", "pl_resetn0", "M_AXI_HPM0_FPD", "S_AXI_HP0_FPD", "maxihpm0_fpd_aclk",
                            "saxihp0_fpd_aclk", "pl_ps_irq0"},
}


@pytest.fixture(scope="module")
def core() -> Core:
    return core_of(PRESETS["n8"], "axi4lite", "npu")


def called(script: bytes, folder: Path, *arguments: str) -> list[tuple[str, ...]]:
    """Run a script and return the calls of Vivado's commands, in order."""
    tcl: Any = tkinter.Tcl()
    calls: list[tuple[str, ...]] = []

    def note(*words: str) -> str:
        calls.append(words)
        return words[-1]

    for name in NOTED:
        tcl.createcommand(name, lambda *words, name=name: note(name, *words))
    tcl.eval(STUBS)
    (folder / "vivado" / "project").mkdir(parents=True)
    (folder / "vivado" / "script.tcl").write_bytes(script)
    tcl.setvar("argv", " ".join(arguments))
    tcl.eval(f"source {folder / 'vivado' / 'script.tcl'}")
    return calls


def connections(calls: list[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for call in calls:
        if call[0] in ("connect_bd_net", "connect_bd_intf_net"):
            yield call[1:]


@pytest.mark.parametrize(("part", "family"), [(part, family) for part, family in zip(
    PROCESSORS, (ZYNQ_7000, ULTRASCALE), strict=True)])
def test_the_block_design_connects_what_there_is(core: Core, tmp_path: Path, part: str, family: Family) -> None:
    calls = called(vivado_files(core)["vivado/block_design.tcl"], tmp_path, part)
    assert ("create_bd_cell", "-type", "module", "-reference", "npu", "npu") in calls
    assert ("create_bd_cell", "-type", "ip", "-vlnv", "xilinx.com:ip:smartconnect:1.10", "memory") in calls
    cells = {call[-1] for call in calls if call[0] == "create_bd_cell"}
    assert cells == {"npu", "ps", "reset", "control", "memory"}
    ports = {port.name for port in core.ports}
    scalars = {"aclk", "aresetn", "interrupt"}
    buses = {name.rsplit("_", 1)[0] for name in ports - scalars}
    assert scalars <= ports and buses == {"s_axi", "m_axi"}
    known = OTHERS | {"npu": scalars | buses, "ps": PROCESSORS[part]}
    ends = [tuple(end.split("/")) for connection in connections(calls) for end in connection]
    assert [end for end in ends if end[1] not in known[end[0]]] == []
    # Everything is connected, a net's source more than once.
    assert {cell: {pin for one, pin in ends if one == cell} for cell in cells} == known
    assert all(any(pin in connection for connection in connections(calls)) for pin in ("npu/s_axi", "npu/m_axi"))
    address, memory = [call for call in calls if call[0] == "assign_bd_address"]
    assert address[1:] == ("-offset", f"0x{family.base:08X}", "-range", f"{WINDOW_BYTES >> 10}K",
                           "-target_address_space", "ps/Data", "npu/s_axi/reg0")
    assert memory[1:3] == ("-target_address_space", "npu/m_axi")
    names = [call[0] for call in calls]
    assert names.index("validate_bd_design") > max(i for i, name in enumerate(names) if name.startswith("connect"))
    settings = next(dict(zip(words[::2], words[1::2], strict=True)) for call in calls if call[-1] == "ps"
                    and call[0] == "set_property" for words in [call[2].split()])
    assert settings[f"CONFIG.{'PSU__SAXIGP2__DATA_WIDTH' if family is ULTRASCALE else 'PCW_S_AXI_HP0_DATA_WIDTH'}"] in (
        "{64}", "64")


def test_a_part_without_a_processor_is_refused(core: Core, tmp_path: Path) -> None:
    with pytest.raises(tkinter.TclError, match="^xc7a35tcsg324-1 has no processor: expected xc7z..., xczu... or xck"):
        called(vivado_files(core)["vivado/block_design.tcl"], tmp_path, "xc7a35tcsg324-1")


def test_a_board_gives_the_processor_its_settings(core: Core, tmp_path: Path) -> None:
    calls = called(vivado_files(core)["vivado/block_design.tcl"], tmp_path, "xc7z020clg400-1", "tul.com.tw:pynq-z2:1.0")
    assert ("set_property", "board_part", "tul.com.tw:pynq-z2:1.0", "current_project") in calls
    automation = next(call for call in calls if call[0] == "apply_bd_automation")
    assert automation[4].endswith("apply_board_preset 1")


def test_the_project_of_the_core_alone(core: Core, tmp_path: Path) -> None:
    calls = called(vivado_files(core)["vivado/project.tcl"], tmp_path, "xc7a100tcsg324-1", "6.5")
    assert ("create_project", "-force", "npu", f"{tmp_path}/vivado/project", "-part", "xc7a100tcsg324-1") in calls
    assert ("add_files", "-norecurse", f"{tmp_path}/vivado/../rtl/npu.v") in calls
    clock = (tmp_path / "vivado" / "project" / "clock.xdc").read_text()
    assert clock == "create_clock -name aclk -period 6.5 [get_ports aclk]\n"
    assert "aclk" in {port.name for port in core.ports}


def test_only_axi_on_both_sides_has_a_block_design() -> None:
    for control in ("wishbone", "apb", "plain"):
        assert "vivado/block_design.tcl" not in vivado_files(core_of(PRESETS["n8"], control, "npu"))


@pytest.mark.parametrize(("suffix", "family"), [("_zynq7000", ZYNQ_7000), ("", ULTRASCALE)])
def test_device_trees_have_the_same_address_and_range(core: Core, suffix: str, family: Family) -> None:
    text = vivado_files(core)[f"sw/npu{suffix}.dtsi"].decode()
    node = re.search(r"npu: npu@([0-9a-f]+) \{.*?reg = <(.*?)>;.*?interrupts = <0 (\d+) 4>;", text, re.S)
    assert node is not None
    assert int(node.group(1), 16) == family.base and int(node.group(3)) == family.interrupt
    cells = [int(cell, 16) for cell in node.group(2).split()]
    half = len(cells) // 2
    assert half == family.address_cells
    assert [cells[half - 1], cells[-1]] == [family.base, WINDOW_BYTES] and sum(cells) == family.base + WINDOW_BYTES
    assert text.count("{") == text.count("}") and 'compatible = "ikwzm,u-dma-buf";' in text
