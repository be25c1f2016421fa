"""What `build` makes of a record, with stand-ins for the slow programs; and what it says when something is wrong."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tq_hw.boards.build import build as build_module
from tq_hw.boards.build import tools
from tq_hw.boards.build.build import BuildResult, build, critical_path, dram_core, elaborate, new_folder, with_chip
from tq_hw.boards.build.figures import Hop, Timing, count_cells, modules, nextpnr_timing, vivado_figures
from tq_hw.boards.build.tools import find_tool, require_tool, run_tool
from tq_hw.boards.catalog.board import Board, OnChip
from tq_hw.boards.catalog.catalog import BOARDS, find_board, find_memory
from tq_hw.isa.config import Config
from tq_hw.model.errors import MissingToolError, OptionError, ToolError

SMALL = Config("small", 3, 2, 1, 4 << 10, acc_words=16, acc_buffers=2, bus_bytes=4, fold_steps=1, uops=32,
               vector_words=128)
STAT = {"design": {"num_cells_by_type": {"MULT18X18D": 3, "LUT4": 100, "CCU2C": 7, "TRELLIS_FF": 90, "DP16KD": 2,
                                         "DSP48E1": 5, "LUT2": 10, "LUT6": 20, "FDRE": 30, "RAMB36E1": 2,
                                         "RAMB18E1": 3, "RAM32M": 2, "SRL16E": 4, "other": 9},
                   "estimated_num_lc": 25}}
TIMING = {
    "fmax": {"$glbnet$clk": {"achieved": 101.5, "constraint": 100.0}, "slow": {"achieved": 60.0, "constraint": 75.0}},
    "critical_paths": [
        {"from": "posedge slow", "to": "posedge $glbnet$clk", "path": []},
        {"from": "posedge $glbnet$clk", "to": "posedge $glbnet$clk", "path": [
            {"type": "clk-to-q", "delay": 0.5, "to": {"cell": "system.accelerator.array.x_FF"}},
            {"type": "routing", "delay": 4.25, "to": {"cell": "system.accelerator.array.y_LUT4"}},
            {"type": "logic", "delay": 0.25, "to": {"cell": "system.accelerator.vector.z_FF"}}]}],
}
UTILIZATION = """
| Slice LUTs                 | 18123 |     0 |          0 |     20800 | 87.13 |
| Slice Registers            | 21900 |     0 |          0 |     41600 | 52.64 |
| Block RAM Tile | 46.5 |     0 |          0 |        50 | 93.00 |
| DSPs           |   88 |     0 |          0 |        90 | 97.78 |
"""
TIMING_SUMMARY = """
    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints      WHS(ns)
    -------      -------  ---------------------  -------------------      -------
     -1.111       -5.000                     10                62000        0.022
"""


def stand_in(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program on the PATH that notes its arguments in `called` of the folder where it runs."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!{sys.executable}\nimport json, sys\njson.dump(sys.argv[1:], open('called', 'w'))\n{text}",
                       encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return program


def small(name: str) -> Board:
    board = BOARDS[name]
    return board if board.config.design == "serial" else replace(
        board, config=replace(SMALL, bus_bytes=board.config.bus_bytes))


@pytest.fixture
def quick_synthesis(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Let synthesis only write its statistics; return the list of Yosys' arguments."""
    called: list[list[str]] = []

    def run(name: str, arguments: Sequence[str], folder: Path, progress: Any = None, *, output: str = "") -> float:
        if name != "yosys":
            return run_tool(name, arguments, folder, output=output)
        called.append(list(arguments))
        (folder / "stat.json").write_text(json.dumps(STAT), encoding="utf-8")
        (folder / "top.json").write_text('{"modules": {}}', encoding="utf-8")
        return 1.0

    monkeypatch.setattr(build_module, "run_tool", run)
    return called


@pytest.mark.parametrize(("name", "memory", "pin"), [
    ("ulx3s_85f", 0, 'LOCATE COMP "sdram_0__dq__io[0]" SITE "J16";'),
    ("ecpix5_85f", 1, 'LOCATE COMP "ddr3_0__dqs__p[1]" SITE "V1";'),
    ("arty_a7_100", 1, r'set_property LOC N2 [get_ports "ddr3_0__dqs__p\[0]"]'),
    ("icebreaker", 0, "set_io uart_0__rx__io 6"),
])
def test_board_elaborates_with_its_constraints(name: str, memory: int, pin: str) -> None:
    plan = elaborate(small(name), BOARDS[name].memories[memory])
    assert any(pin in text for text in plan.files.values() if isinstance(text, str)), name


def test_project_without_vivado_is_complete(tmp_path: Path, quick_synthesis: list[list[str]],
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    board = small("arty_a7")
    result = build(board, OnChip(4096), tmp_path, image=b"tq-hw was here!!")
    assert result.missing == ("vivado",)
    assert (result.bitstream, result.bitstream_bytes, result.timings, result.slowest) == ("", 0, {}, None)
    assert result.resources == {"multipliers": 5, "luts": 37, "carries": 0, "flip_flops": 30, "block_rams": 3.5,
                                "small_rams": 2, "shift_registers": 4}
    assert quick_synthesis == [["-q", "-p", "read_verilog top.v; synth_xilinx -flatten -top top; write_json top.json; "
                                            "tee -q -o stat.json stat -tech xilinx -json"]]
    assert {"top.v", "top.tcl", "top.xdc", "build_top.sh"} <= {path.name for path in tmp_path.iterdir()}
    assert not {"stat.json", "yosys.said"} & {path.name for path in tmp_path.iterdir()}
    script = (tmp_path / "top.tcl").read_text(encoding="utf-8")
    assert "-part xc7a35ticsg324-1L" in script and "write_bitstream -force -bin_file top.bit" in script
    assert "set_property LOC A9" in (tmp_path / "top.xdc").read_text(encoding="utf-8")
    # The first words of memory are in the netlist.
    word = f"{int.from_bytes(b'tq-hw wa', 'little'):x}"
    assert word in (tmp_path / "top.v").read_text(encoding="utf-8")


def test_vivado_is_called_as_it_expects(tmp_path: Path, quick_synthesis: list[list[str]],
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", "vivado", f"open('top_utilization_place.rpt', 'w').write({UTILIZATION!r})\n"
             f"open('top_timing.rpt', 'w').write({TIMING_SUMMARY!r})\nopen('top.bit', 'wb').write(b'1234')\n",
             monkeypatch)
    folder = tmp_path / "out"
    folder.mkdir()
    result = build(small("arty_a7"), OnChip(4096), folder)
    assert json.loads((folder / "called").read_text()) == ["-mode", "batch", "-log", "top.log", "-source", "top.tcl"]
    assert (result.bitstream, result.bitstream_bytes, result.missing) == ("top.bit", 4, ())
    assert result.resources == {"luts": 18123, "flip_flops": 21900, "block_rams": 46.5, "multipliers": 88}
    assert result.system is not None and result.system.fmax_mhz == 1000 / 11.111
    assert not result.met


def test_open_tools_are_taken_where_vivado_is_missing(tmp_path: Path, quick_synthesis: list[list[str]],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    note = "json.dump(sys.argv[1:], open(sys.argv[0].split('/')[-1] + '.called', 'w'))\n"
    words = "Info: Max frequency for clock 'clk': {} MHz (FAIL at 100.00 MHz)\n"
    log = words.format("60.10") + words.format("98.76")
    stand_in(programs, "nextpnr-xilinx", f"{note}open('top.tim', 'w').write({log!r})",
             monkeypatch)
    stand_in(programs, "fasm2frames", f"{note}print('frames')", monkeypatch)
    stand_in(programs, "xc7frames2bit", f"{note}open('top.bit', 'w').write(open('top.frames').read())", monkeypatch)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    folder = tmp_path / "out"
    folder.mkdir()
    result = build(replace(small("arty_a7"), seed=7), OnChip(4096), folder)
    assert (result.missing, result.seed) == (("vivado",), 7)
    (tmp_path / "chips").mkdir()
    (tmp_path / "chips" / "xc7a35t.bin").touch()
    (tmp_path / "xray" / "artix7").mkdir(parents=True)
    monkeypatch.setenv("CHIPDB", str(tmp_path / "chips"))
    monkeypatch.setenv("PRJXRAY_DB_DIR", str(tmp_path / "xray"))
    result = build(small("arty_a7"), OnChip(4096), folder, seed=5)
    assert (result.missing, result.toolchain) == ((), "Yosys, nextpnr-xilinx")
    assert (result.bitstream, result.bitstream_bytes) == ("top.bit", len("frames\n"))
    assert result.timings == {"clk": Timing("clk", 98.76, 100.0, ())}
    assert json.loads((folder / "nextpnr-xilinx.called").read_text()) == [
        "--chipdb", f"{tmp_path}/chips/xc7a35t.bin", "--xdc", "top.xdc", "--json", "top.json", "--fasm", "top.fasm",
        "--freq", "100", "--seed", "5", "--timing-allow-fail", "--log", "top.tim"]
    part = "xc7a35tcsg324-1"
    assert json.loads((folder / "fasm2frames.called").read_text()) == [
        "--part", part, "--db-root", f"{tmp_path}/xray/artix7", "top.fasm"]
    assert json.loads((folder / "xc7frames2bit.called").read_text()) == [
        "--part_file", f"{tmp_path}/xray/artix7/{part}/part.yaml", "--part_name", part, "--frm_file", "top.frames",
        "--output_file", "top.bit"]


def test_vivado_that_writes_nothing_is_an_error(tmp_path: Path, quick_synthesis: list[list[str]],
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", "vivado", f"open('top_utilization_place.rpt', 'w').write({UTILIZATION!r})\n"
             f"open('top_timing.rpt', 'w').write({TIMING_SUMMARY!r})\n", monkeypatch)
    with pytest.raises(ToolError) as error:
        build(small("arty_a7"), OnChip(4096), tmp_path)
    assert str(error.value) == "vivado ended without an error and wrote no top.bit"


def test_design_that_does_not_fit_is_not_placed(tmp_path: Path, quick_synthesis: list[list[str]]) -> None:
    board = small("icesugar_pro")
    board = replace(board, device=replace(board.device, block_rams=1))
    with pytest.raises(ToolError) as error:
        build(board, board.memories[0], tmp_path)
    assert str(error.value) == ("icesugar_pro: the design does not fit: it needs 2 block rams, LFE5U-25F-6BG256 has 1; "
                                "a smaller configuration would help")


def test_nextpnr_is_asked_for_the_boards_clock(tmp_path: Path) -> None:
    plan = elaborate(small("ecpix5_85f"), BOARDS["ecpix5_85f"].memories[0], seed=7)
    commands = {name: arguments for name, *arguments in json.loads(plan.files["build_top.json"])["commands"]}
    asked = commands["nextpnr-ecp5"]
    assert asked[asked.index("--freq") + 1] == "100" and asked[asked.index("--seed") + 1] == "7"
    assert "--timing-allow-fail" in asked


def test_figures_of_the_tools() -> None:
    assert count_cells(STAT, "ecp5") == {"multipliers": 3, "luts": 100, "carries": 7, "flip_flops": 90,
                                         "block_rams": 2, "small_rams": 0}
    timings = nextpnr_timing(TIMING)
    result = BuildResult("top.bit", 1, {}, timings, ())
    assert not result.met and result.slowest is timings["slow"] and result.system is timings["$glbnet$clk"]
    assert critical_path(timings["$glbnet$clk"]) == {
        "ns": 5.0, "wires_ns": 4.25, "modules": ["system.accelerator.array", "system.accelerator.vector"]}
    assert modules([Hop("logic", 1, "a.b"), Hop("logic", 1, "a.c")]) == ["a"]


def test_vivado_report_without_figures_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "top_utilization_place.rpt").write_text(UTILIZATION, encoding="utf-8")
    (tmp_path / "top_timing.rpt").write_text("nothing", encoding="utf-8")
    with pytest.raises(ToolError, match="^top_timing.rpt of Vivado has no design timing summary$"):
        vivado_figures(tmp_path, "top", 100)
    (tmp_path / "top_utilization_place.rpt").write_text("", encoding="utf-8")
    with pytest.raises(ToolError, match="^top_utilization_place.rpt of Vivado has no line 'Slice LUTs'$"):
        vivado_figures(tmp_path, "top", 100)


def test_a_tools_last_words_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", "vivado", "print('no licence'); sys.exit(3)", monkeypatch)
    with pytest.raises(ToolError) as error:
        run_tool("vivado", [], tmp_path)
    assert str(error.value) == "vivado failed with exit code 3; the end of what it said:\nno licence"


def test_missing_tools_are_named_with_their_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda _: None)
    assert find_tool("nextpnr-ecp5") is None
    with pytest.raises(MissingToolError) as error:
        require_tool("nextpnr-ecp5")
    assert str(error.value) == 'nextpnr-ecp5 is not installed: pip install "tq-hw[ecp5]"'


def test_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "made" / "here"
    with pytest.raises(ToolError), new_folder(target) as work:
        (work / "half").write_text("x", encoding="utf-8")
        raise ToolError("no")
    assert list((tmp_path / "made").iterdir()) == []
    for text in ("first", "second"):
        with new_folder(target) as work:
            (work / "report.json").write_text(text, encoding="utf-8")
        assert [path.name for path in target.parent.iterdir()] == ["here"]
        assert (target / "report.json").read_text(encoding="utf-8") == text


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x", encoding="utf-8")
    with pytest.raises(OptionError) as error, new_folder(tmp_path):
        pass
    assert str(error.value) == (f"{tmp_path}: exists and is not a folder of an earlier build; choose another --dir, or "
                                "remove it")
    with pytest.raises(OptionError) as error, new_folder(tmp_path / "precious" / "below"):
        pass
    assert str(error.value) == (f"{tmp_path}/precious/below: cannot be written: {tmp_path}/precious is not a "
                                "directory")


def test_names_of_boards_memories_and_chips() -> None:
    with pytest.raises(OptionError) as error:
        find_board("ulx3s")
    assert str(error.value) == (f"no board 'ulx3s': expected one of {', '.join(BOARDS)}; did you mean ulx3s_85f?")
    board = BOARDS["ulx3s_85f"]
    assert find_memory(board, None) is board.memories[0]
    with pytest.raises(OptionError) as error:
        find_memory(board, "flash")
    assert str(error.value) == "ulx3s_85f has no memory 'flash': expected 'SDR SDRAM' or 'block RAM'"
    pytest.importorskip("litedram")
    assert with_chip(board, board.memories[0], "AS4C32M16").size_bytes == 64 << 20
    with pytest.raises(OptionError) as error:
        with_chip(board, board.memories[0], "MT1")
    assert str(error.value).endswith("knows no chip 'MT1'; its names stand in litedram/modules.py")
    with pytest.raises(OptionError) as error:
        with_chip(board, board.memories[1], "MT1")
    assert str(error.value) == ("--dram-chip MT1: ulx3s_85f is built with block RAM, which has no chip to choose")


def test_described_sizes_are_those_of_the_cores() -> None:
    pytest.importorskip("litedram")
    for board in BOARDS.values():
        for memory in board.memories:
            core = dram_core(board, memory)
            assert core is None or core.size_bytes == memory.size_bytes


def test_timing_without_paths_has_no_system_clock() -> None:
    only = Timing("clk", 50, 100, ())
    assert BuildResult("", 0, {}, {"clk": only}, ()).system is only
