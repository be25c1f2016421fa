"""The open tools for Artix-7, with stand-ins: pins, netlist, choice of tools, clocks, and the check of frames."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from stand_ins import NETLIST, small, stand_in
from verilated import yosys

from tq_hw.boards.build import build as build_module
from tq_hw.boards.build.build import build
from tq_hw.boards.build.fasm_check import FasmAnswer, check_frames
from tq_hw.boards.build.figures import Timing
from tq_hw.boards.build.folder import FailedStepError
from tq_hw.boards.build.open_netlist import (
    SINGLE_PORT,
    SINGLE_PORT_FILE,
    Prepared,
    clock_table,
    prepare,
    synthesis_script,
)
from tq_hw.boards.build.open_pins import pin_constraints
from tq_hw.boards.build.openxc7 import OpenFlow, find_openxc7
from tq_hw.boards.build.toolchains import choose
from tq_hw.boards.build.top import load_platform
from tq_hw.boards.catalog.board import OnChip
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.model.errors import OptionError, ToolError

PART = "xc7a35tcsg324-1"
DEVICE = "XC7A35TI-1LCSG324"
OLDER, NEWER = "--fasm arg --xdc arg", "--device arg -o [ --vopt ] arg"
GRID = {"CLBLL_L_X2Y3": {"type": "CLBLL_L", "bits": {
            "CLB_IO_CLK": {"baseaddr": "0x00400100", "frames": 36, "offset": 2, "words": 2}}},
        "BRAM_L_X6Y0": {"type": "BRAM_L", "bits": {
            "BLOCK_RAM": {"baseaddr": "0x00C00000", "frames": 128, "offset": 0, "words": 10}}},
        "LIOB33_SING_X0Y0": {"type": "LIOB33_SING", "bits": {
            "CLB_IO_CLK": {"alias": {"type": "LIOB33"}, "baseaddr": "0x0", "offset": 0}}}}
FASM = """# a comment
CLBLL_L_X2Y3.SLICEL_X0.ALUT.INIT[03:00] = 4'b0101
CLBLL_L_X2Y3.SLICEL_X0.AFF.ZINI
CLBLL_L_X2Y3.CLBLL_L_A.CLBLL_L_A1
BRAM_L_X6Y0.RAMB18_Y0.INIT_00[2:0] = 3'h4
LIOB33_SING_X0Y0.IOB_Y0.PULLTYPE.NONE
"""
#: Bits of ALUT.INIT[0], AFF.ZINI and INIT[2], and INIT_00[2]; the tile's words start at word 2.
FRAMES = """0x00400121 0x0,0x0,0x00008000
0x0040011f 0x0,0x0,0x00000008
0x00400120 0x0,0x0,0x0,0x00000002
0x00c00000 0x0,0x1
"""


def database(folder: Path) -> Path:
    """Write a database of three tiles in Project X-Ray's format; return its folder."""
    family = folder / "artix7"
    (family / PART).mkdir(parents=True)
    (family / PART / "part.yaml").touch()
    (family / "xc7a50t").mkdir()
    (family / "xc7a50t" / "tilegrid.json").write_text(json.dumps(GRID), encoding="utf-8")
    (family / "segbits_clbll_l.db").write_text(
        "CLBLL_L.SLICEL_X0.AFF.ZINI 31_03\nCLBLL_L.SLICEL_X0.ALUT.INIT[00] 33_15\n"
        "CLBLL_L.SLICEL_X0.ALUT.INIT[02] 32_33 !32_32\n", encoding="utf-8")
    (family / "ppips_clbll_l.db").write_text("CLBLL_L.CLBLL_L_A.CLBLL_L_A1 hint\n", encoding="utf-8")
    (family / "segbits_bram_l.block_ram.db").write_text("BRAM_L.RAMB18_Y0.INIT_00[002] 00_32\n", encoding="utf-8")
    return family


def test_pins_are_plain(tmp_path: Path) -> None:
    text = pin_constraints([("ddr3_0__dq__io[0]", "K5", {"IOSTANDARD": "SSTL135", "SLEW": "FAST",
                                                         "IN_TERM": "UNTUNED_SPLIT_40"}), ("led", "H5", {})])
    assert text == """set_property LOC K5 [get_ports ddr3_0__dq__io[0]]
set_property IOSTANDARD SSTL135 [get_ports ddr3_0__dq__io[0]]
set_property SLEW FAST [get_ports ddr3_0__dq__io[0]]
set_property IN_TERM UNTUNED_SPLIT_40 [get_ports ddr3_0__dq__io[0]]
set_property LOC H5 [get_ports led]
"""
    with pytest.raises(ToolError) as error:
        pin_constraints([("led", "H5", {"DRIVE": 12})])
    assert str(error.value) == ("pin H5 of led has DRIVE, which nextpnr-xilinx may drop silently; it is given "
                                "IOSTANDARD, SLEW, IN_TERM only")


@pytest.fixture(scope="module")
def synthesized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Cells, by name, of memories with one port and of chains of registers, 11 to `r[0]` and 12 to `r[1]`."""
    folder = tmp_path_factory.mktemp("synthesized")
    bits = ", ".join(f".A{bit}(a[{bit}])" for bit in range(5))
    (folder / "top.v").write_text(f"""module top(input clk, input [7:0] a, input [1:0] d, input we, output [3:0] q,
           output [1:0] r);
  RAM256X1S #(.INIT(256'h5)) m0(.O(q[0]), .A(a), .D(d[0]), .WCLK(clk), .WE(we));
  RAM128X1S m1(.O(q[1]), {bits}, .A5(a[5]), .A6(a[6]), .D(d[1]), .WCLK(clk), .WE(we));
  RAM64X1S m2(.O(q[2]), {bits}, .A5(a[5]), .D(d[1]), .WCLK(clk), .WE(we));
  RAM32X1S m3(.O(q[3]), {bits}, .D(d[1]), .WCLK(clk), .WE(we));
  reg [10:0] eleven;
  reg [11:0] twelve;
  always @(posedge clk) begin
    eleven <= {{eleven[9:0], d[0]}};
    twelve <= {{twelve[10:0], d[1]}};
  end
  assign r = {{twelve[11], eleven[10]}};
endmodule
""", encoding="utf-8")
    (folder / SINGLE_PORT_FILE).write_text(SINGLE_PORT, encoding="utf-8")
    yosys(folder, synthesis_script("top.v", "top", "stat.json"))
    cells: dict[str, Any] = json.loads((folder / "top.json").read_text(encoding="utf-8"))["modules"]["top"]["cells"]
    return cells


def test_memories_of_one_port_become_types_that_can_be_packed(synthesized: dict[str, Any]) -> None:
    memories = [cell for cell in synthesized.values() if cell["type"].startswith("RAM")]
    assert sorted(cell["type"] for cell in memories) == ["RAM32X1D"] + ["RAM64X1D"] * 7
    assert "$scopeinfo" not in {cell["type"] for cell in synthesized.values()}
    # The second port reads at the address of the write port.
    for cell in memories:
        pins = cell["connections"]
        assert not pins.get("SPO") and pins["DPO"]
        assert all(pins[f"DPRA{bit}"] == pins[f"A{bit}"] for bit in range(5))
    assert sorted(int(cell["parameters"]["INIT"], 2) for cell in memories) == [0] * 7 + [5]


def test_a_chain_of_twelve_registers_becomes_a_lut_but_one_of_eleven_does_not(synthesized: dict[str, Any]) -> None:
    kinds = Counter(cell["type"] for cell in synthesized.values() if cell["type"].startswith(("FD", "SRL")))
    assert kinds == {"FDRE": 11, "SRL16E": 1}


def carry(outputs: list[Any]) -> dict[str, Any]:
    directions = dict.fromkeys(("S", "DI", "CI"), "input") | dict.fromkeys(("O", "CO"), "output")
    return {"type": "CARRY4", "port_directions": directions, "connections": {
        "S": [10, 11, "0", "0"], "DI": [12, 13, "0", "0"], "CI": ["0"], "O": [20, 21, 22, 23], "CO": outputs}}


def test_open_inputs_are_tied_and_unused_pins_removed(tmp_path: Path) -> None:
    path = tmp_path / "top.json"
    pll = {"type": "PLLE2_ADV", "parameters": {}, "port_directions": {"CLKIN1": "input", "RST": "input"},
           "connections": {"CLKIN1": [2], "RST": [9]}}
    outputs = {"sum": [20, 21], "over": [30]}
    module = {"ports": {name: {"direction": "output", "bits": bits} for name, bits in outputs.items()},
              "cells": {"pll": pll, "sum": carry([24, 25, 26, 27]), "compare": carry([28, 29, 30, 31])}}
    for index, port in enumerate(("O", "S", "DI")):
        # The second cell has nets of its own.
        module["cells"]["compare"]["connections"][port] = [40 + 10 * index + bit for bit in range(4)]
    path.write_text(json.dumps({"modules": {"top": module}}), encoding="utf-8")
    assert prepare(path, "top") == Prepared(1 + 1 + 1 + 1 + 1 + 1 + 7 + 16, 4)
    cells = json.loads(path.read_text(encoding="utf-8"))["modules"]["top"]["cells"]
    tied = cells["pll"]["connections"]
    assert (tied["CLKINSEL"], tied["CLKIN2"], tied["RST"], tied["DADDR"]) == (["1"], ["0"], [9], ["0"] * 7)
    # The last used bit needs no DI. The packer aborts if S is missing, and timing analysis at "x": neither may occur.
    kept = {"sum": {"DI[0]": [12]}, "compare": {"DI[0]": [60], "DI[1]": [61], "DI[2]": [62]}}
    for name, wanted in kept.items():
        pins = cells[name]["connections"]
        assert {port: bits for port, bits in pins.items() if port.startswith("DI")} == wanted
        assert pins["S"] == module["cells"][name]["connections"]["S"]
        assert set(pins) == set(cells[name]["port_directions"])
        assert "x" not in str(pins)


def test_cells_that_cannot_be_packed_are_named(tmp_path: Path) -> None:
    path = tmp_path / "top.json"
    cells = {str(number): {"type": kind} for number, kind in enumerate(("$scopeinfo", "RAM256X1S", "RAM256X1S"))}
    path.write_text(json.dumps({"modules": {"top": {"cells": cells, "ports": {}}}}), encoding="utf-8")
    with pytest.raises(ToolError) as error:
        prepare(path, "top")
    assert str(error.value) == ("the netlist has cells that nextpnr-xilinx cannot pack: 1 $scopeinfo, 2 RAM256X1S; "
                                "another version of Yosys would help")


def test_clocks_follow_buffers_and_dividers() -> None:
    pll = {"type": "PLLE2_ADV", "parameters": {"CLKFBOUT_MULT": "10000", "CLKOUT0_DIVIDE": "1000",
                                               "CLKOUT1_DIVIDE": "10000"},
           "connections": {"CLKIN1": [3], "CLKOUT0": [5], "CLKOUT1": [6], "CLKOUT2": []}}
    buffers = {f"b{bit}": {"type": "BUFG", "connections": {"I": [bit], "O": [bit + 10]}} for bit in (5, 6)}
    module = {**NETLIST["modules"]["top"], "netnames": {
        "pad": {"bits": [2]}, "delay": {"bits": [15]}, "both": {"bits": [7, 16]}, "data": {"bits": [8]}}}
    # The PLL is listed before the cell that drives it.
    module["cells"] = {"pll": pll, **buffers, **module["cells"]}
    netlist = {"modules": {"top": module}}
    assert clock_table(netlist, "top", {"clk100_0__io": 100_000_000}) == {"pad": 100, "delay": 200, "both[1]": 100}
    with pytest.raises(ToolError, match="^the netlist has no clock pin other$"):
        clock_table(netlist, "top", {"other": 1})


Programs = Callable[..., Path]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_synthesis: list[list[str]]) -> Programs:
    """Put stand-ins on an otherwise empty PATH, set up the databases, and skip elaboration."""
    plan = SimpleNamespace(files={"build_top.json": '{"commands": []}', "top.v": ""}, extract=lambda _: None)
    monkeypatch.setattr(build_module, "elaborate", lambda *_, **__: plan)
    monkeypatch.chdir(tmp_path)

    def install(help_text: str, placed: str = "", frames: str = FRAMES) -> Path:
        note = "json.dump(sys.argv[1:], open(sys.argv[0].split('/')[-1] + '.called', 'w'))\n"
        place = f"if '--help' in sys.argv:\n    print({help_text!r})\n    sys.exit(0)\n{note}{placed}"
        stand_in(tmp_path / "bin", "nextpnr-xilinx", place, monkeypatch)
        stand_in(tmp_path / "bin", "fasm2frames", f"{note}sys.stdout.write({frames!r})", monkeypatch)
        stand_in(tmp_path / "bin", "xc7frames2bit", f"{note}open('top.bit', 'w').write(open('top.frames').read())",
                 monkeypatch)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
        monkeypatch.setenv("PRJXRAY_DB_DIR", str(tmp_path / "xray"))
        monkeypatch.setenv("CHIPDB", str(tmp_path / "chips"))
        (tmp_path / "chips").mkdir(exist_ok=True)
        database(tmp_path / "xray")
        (tmp_path / "out").mkdir()
        return tmp_path / "out"

    return install


WORDS = "Info: Max frequency for clock {}: {} MHz (PASS at 100.00 MHz)\n"
LOG = WORDS.format("'clk'", "60.10") + WORDS.format("'clk'", "98.76") + WORDS.format("'mine'", "120")
WRITES = f"open('top.fasm', 'w').write({FASM!r})\nopen('top.tim', 'w').write({LOG!r})\n"


def test_older_command_line(programs: Programs, tmp_path: Path) -> None:
    folder = programs(OLDER, WRITES)
    for name in ("chipdb-xc7a50t.bin", "xc7a35t.bin", "xc7a35tcsg324.bin", f"{PART}.bin"):
        (tmp_path / "chips" / name).touch()
        flow = find_openxc7(DEVICE)
        assert isinstance(flow, OpenFlow) and flow.chipdb == tmp_path / "chips" / name
    result = build(small("arty_a7"), OnChip(4096), folder, seed=5)
    assert (result.missing, result.toolchain) == ((), "Yosys, nextpnr-xilinx")
    assert result.why == "Vivado was not used: vivado not on the PATH"
    assert (result.bitstream, result.bitstream_bytes) == ("top.bit", len(FRAMES))
    # A clock that is not in our table must reach the highest target in it.
    assert result.timings == {"clk": Timing("clk", 98.76, 100.0, ()), "mine": Timing("mine", 120, 100.0, ())}
    assert json.loads((folder / "nextpnr-xilinx.called").read_text()) == [
        "--chipdb", f"{tmp_path}/chips/{name}", "--xdc", "openxc7.xdc", "--fasm", "top.fasm", "--json", "top.json",
        "--freq", "100", "--seed", "5", "--timing-allow-fail", "--log", "top.tim"]
    xray = f"{tmp_path}/xray/artix7"
    assert json.loads((folder / "fasm2frames.called").read_text()) == ["--part", PART, "--db-root", xray, "top.fasm"]
    assert json.loads((folder / "xc7frames2bit.called").read_text()) == [
        "--part_file", f"{xray}/{PART}/part.yaml", "--part_name", PART, "--frm_file", "top.frames", "--output_file",
        "top.bit"]


def test_folders_may_be_given_as_relative_paths(programs: Programs, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs run in another folder."""
    folder = programs(OLDER, WRITES)
    (tmp_path / "chips" / f"{PART}.bin").touch()
    monkeypatch.setenv("PATH", "bin:/usr/bin:/bin")
    monkeypatch.setenv("PRJXRAY_DB_DIR", "xray")
    monkeypatch.setenv("CHIPDB", "chips")
    assert build(small("arty_a7"), OnChip(4096), folder).bitstream == "top.bit"
    asked = json.loads((folder / "nextpnr-xilinx.called").read_text())
    assert asked[:2] == ["--chipdb", f"{tmp_path}/chips/{PART}.bin"]
    asked = json.loads((folder / "fasm2frames.called").read_text())
    assert asked == ["--part", PART, "--db-root", f"{tmp_path}/xray/artix7", "top.fasm"]


@pytest.mark.parametrize("own", [True, False])
def test_newer_command_line(own: bool, programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = {"fmax": {"clk": {"achieved": 86.0, "constraint": 12.0}}, "critical_paths": []}
    folder = programs(NEWER, WRITES + f"json.dump({report!r}, open('timing.json', 'w'))")
    chips: list[str] = []
    if own:
        monkeypatch.delenv("CHIPDB")
    else:
        (tmp_path / "chips" / "chipdb-xc7a50t.bin").touch()
        chips = ["--chipdb", f"{tmp_path}/chips/chipdb-xc7a50t.bin"]
    result = build(replace(small("arty_a7"), seed=7), OnChip(4096), folder, toolchain="openxc7")
    assert result.why == "" and result.timings == {"clk": Timing("clk", 86.0, 100.0, ())} and not result.met
    assert json.loads((folder / "nextpnr-xilinx.called").read_text()) == [
        "--device", PART, *chips, "-o", "xdc=openxc7.xdc", "-o", "fasm=top.fasm", "--report", "timing.json", "--json",
        "top.json", "--freq", "100", "--seed", "7", "--timing-allow-fail", "--log", "top.tim"]


def test_frames_without_a_requested_feature_give_no_bitstream(programs: Programs) -> None:
    folder = programs(NEWER, WRITES, frames="")
    with pytest.raises(FailedStepError) as error:
        build(small("arty_a7"), OnChip(4096), folder)
    assert str(error.value) == (
        "the bitstream is not what was asked for: CLBLL_L_X2Y3.SLICEL_X0.ALUT.INIT[0] needs bit 79 of frame 0x00400121 "
        "to be 1; top.frames has 0 frames")
    assert {"top.fasm", "top.tim", "top.json", "top.frames"} <= {path.name for path in folder.iterdir()}
    assert not (folder / "top.bit").exists()


def test_output_of_a_failed_program_is_kept(programs: Programs) -> None:
    folder = programs(NEWER, WRITES + "print('no bel')\nsys.exit(3)")
    with pytest.raises(FailedStepError) as error:
        build(small("arty_a7"), OnChip(4096), folder)
    assert str(error.value) == "nextpnr-xilinx failed with exit code 3; its last output:\nno bel"
    assert (folder / "nextpnr-xilinx.said").read_text(encoding="utf-8") == "no bel\n"
    assert (folder / "top.fasm").is_file()


def test_reasons_why_the_open_tools_are_not_used(programs: Programs, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert find_openxc7("XC7K70T") == "XC7K70T is not an Artix-7 with a known database"
    assert find_openxc7(DEVICE) == "nextpnr-xilinx, fasm2frames, xc7frames2bit not on the PATH"
    programs(OLDER)
    assert find_openxc7(DEVICE) == (f"CHIPDB ({tmp_path}/chips) has none of {PART}.bin, xc7a35tcsg324.bin, "
                                    "xc7a35t.bin, chipdb-xc7a50t.bin")
    monkeypatch.delenv("CHIPDB")
    assert find_openxc7(DEVICE) == "CHIPDB does not name the folder of nextpnr's chip databases"
    other = "XC7A100TI-1LCSG324"
    assert find_openxc7(other) == f"{tmp_path}/xray/artix7 has no xc7a100tcsg324-1/part.yaml"
    stand_in(tmp_path / "bin", "nextpnr-xilinx", f"print({'usage'!r})", monkeypatch)
    assert find_openxc7(DEVICE) == ("nextpnr-xilinx --help names neither --device nor --fasm: not a known version")
    stand_in(tmp_path / "bin", "nextpnr-xilinx", f"print({NEWER!r})", monkeypatch)
    flow = find_openxc7(DEVICE)
    assert flow == OpenFlow(PART, tmp_path / "xray" / "artix7", "xc7a50t", None, True)
    monkeypatch.delenv("PRJXRAY_DB_DIR")
    assert find_openxc7(DEVICE) == "PRJXRAY_DB_DIR does not name the folder of Project X-Ray's database"


def test_choice_of_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    wanted = choose(BOARDS["arty_a7"], "openxc7")
    why = "openXC7 was not used: nextpnr-xilinx, fasm2frames, xc7frames2bit not on the PATH"
    assert (wanted.missing, wanted.why, wanted.flow) == (("openXC7",), why, None)
    assert (choose(BOARDS["arty_a7"]).missing, choose(BOARDS["arty_a7"]).why) == (("vivado",), why)
    assert choose(BOARDS["arty_a7"], "vivado").why == ""
    stand_in(tmp_path / "bin", "vivado", "", monkeypatch)
    assert (choose(BOARDS["arty_a7"]).missing, choose(BOARDS["arty_a7"]).name) == ((), "Vivado")
    with pytest.raises(OptionError) as error:
        choose(BOARDS["ulx3s_85f"], "vivado")
    assert str(error.value) == ("--toolchain vivado: ulx3s_85f is built with Yosys, nextpnr-ecp5 alone")


def test_frames_are_checked_against_the_database(tmp_path: Path) -> None:
    family = database(tmp_path)
    (tmp_path / "top.fasm").write_text(FASM, encoding="utf-8")
    (tmp_path / "top.frames").write_text(FRAMES, encoding="utf-8")
    assert check_frames(tmp_path, family, PART, "xc7a50t") == FasmAnswer(5, 5, 1)
    for line, message in (
            ("CLBLL_L_X9Y9.A", "top.fasm asks for CLBLL_L_X9Y9.A; the database has no tile CLBLL_L_X9Y9"),
            ("CLBLL_L_X2Y3.SLICEL_X0.NEW",
             "top.fasm asks for CLBLL_L_X2Y3.SLICEL_X0.NEW; the database has no such feature of CLBLL_L"),
            *((f"CLBLL_L_X2Y3{end}", f"top.fasm, line 1: not a feature: CLBLL_L_X2Y3{end}")
              for end in ("", ".SLICEL_X0.A[3", ".A[1:0] = 2'q1", ".A[1:0] = 2'b12", ".A = 1 B")),
            ("LIOB33_SING_X0Y0.IOB_Y0.PULLTYPE.NONE",
             "top.fasm asks for no feature that the database has: the bitstream would configure nothing"),
            ('{ .source = "top" } # nothing',
             "top.fasm asks for no feature that the database has: the bitstream would configure nothing")):
        (tmp_path / "top.fasm").write_text(line, encoding="utf-8")
        with pytest.raises(ToolError) as error:
            check_frames(tmp_path, family, PART, "xc7a50t")
        assert str(error.value) == message
    with pytest.raises(ToolError) as error:
        check_frames(tmp_path, family, PART, "xc7a7t")
    assert str(error.value) == (f"{family} has neither xc7a7t/tilegrid.json nor {PART}/tilegrid.json to check the "
                                "frames against")


def test_oscillator_is_the_pin_of_the_clock_table() -> None:
    assert load_platform(BOARDS["arty_a7"]).default_clk == "clk100"
