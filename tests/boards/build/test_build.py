"""What `build` does with a board, with stand-ins for the slow programs, and its messages when something is wrong."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stand_ins import STAT, small, stand_in

from tq_hw.boards.build import tools
from tq_hw.boards.build.build import BuildResult, build, critical_path, dram_core, elaborate, with_chip
from tq_hw.boards.build.dram_core import _generate
from tq_hw.boards.build.dram_generate import single_assignments
from tq_hw.boards.build.figures import Hop, Timing, count_cells, modules, nextpnr_timing, vivado_figures
from tq_hw.boards.build.folder import FailedStepError, new_folder
from tq_hw.boards.build.open_netlist import xilinx_synthesis
from tq_hw.boards.build.toolchains import choose
from tq_hw.boards.build.tools import find_tool, require_tool, run_tool
from tq_hw.boards.build.top import check_board, load_platform
from tq_hw.boards.catalog.board import OnChip
from tq_hw.boards.catalog.catalog import BOARDS, find_board, find_memory
from tq_hw.model.errors import MissingToolError, OptionError, ToolError

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


@pytest.mark.parametrize(("name", "memory", "pin"), [
    ("ulx3s_85f", 0, 'LOCATE COMP "sdram_0__dq__io[0]" SITE "J16";'),
    ("ecpix5_85f", 0, 'LOCATE COMP "ddr3_0__dqs__p[1]" SITE "V1";'),
    ("arty_a7_100", 0, r'set_property LOC N2 [get_ports "ddr3_0__dqs__p\[0]"]'),
    ("icebreaker", 0, "set_io uart_0__rx__io 6"),
    ("tang_primer_20k", 0, 'IO_LOC "uart_0__rx__io" T13;'),
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
    assert quick_synthesis == [["-q", "-p", (
        "read_verilog top.v; rename -hide w:*[[]*; synth_xilinx -flatten -top top -run begin:map_ffram; "
        "techmap -map single_port.v; "
        f"{xilinx_synthesis('top', begin='map_ffram')}; delete t:$scopeinfo; write_json top.json; "
        "tee -q -o stat.json stat -tech xilinx -json")]]
    assert result.why == "openXC7 was not used: nextpnr-xilinx, fasm2frames, xc7frames2bit not on the PATH"
    made = {path.name for path in tmp_path.iterdir()}
    assert {"top.v", "top.tcl", "top.xdc", "build_top.sh", "openxc7.xdc", "single_port.v"} <= made
    pins = (tmp_path / "openxc7.xdc").read_text(encoding="utf-8")
    assert "set_property LOC E3 [get_ports clk100_0__io]\nset_property IOSTANDARD LVCMOS33 [get_ports clk" in pins
    assert not {"stat.json", "yosys.said"} & {path.name for path in tmp_path.iterdir()}
    script = (tmp_path / "top.tcl").read_text(encoding="utf-8")
    assert "-part xc7a35ticsg324-1L" in script and "write_bitstream -force -bin_file top.bit" in script
    assert "set_property LOC A9" in (tmp_path / "top.xdc").read_text(encoding="utf-8")
    # The first words of memory are in the netlist.
    word = f"{int.from_bytes(b'tq-hw wa', 'little'):x}"
    assert word in (tmp_path / "top.v").read_text(encoding="utf-8")


def test_vivado_gets_the_arguments_that_it_expects(tmp_path: Path, quick_synthesis: list[list[str]],
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


def test_nextpnr_gets_the_clock_of_the_board(tmp_path: Path) -> None:
    plan = elaborate(small("ecpix5_85f"), BOARDS["ecpix5_85f"].memories[0], seed=7)
    commands = {name: arguments for name, *arguments in json.loads(plan.files["build_top.json"])["commands"]}
    asked = commands["nextpnr-ecp5"]
    assert asked[asked.index("--freq") + 1] == "100" and asked[asked.index("--seed") + 1] == "7"
    assert "--timing-allow-fail" in asked


def test_a_gowin_is_placed_by_the_current_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  quick_synthesis: list[list[str]]) -> None:
    """Amaranth's own command line is for a program that no longer exists; the board's machine has no memory bus."""
    report = {"fmax": {"clk27_0__io": {"achieved": 30.5, "constraint": 27.0}}, "critical_paths": []}
    monkeypatch.setattr(tools, "TOOLS", tools.TOOLS | {name: tools.Tool(name) for name in (
        "nextpnr-himbaechel-gowin", "gowin_pack")})
    stand_in(tmp_path / "bin", "nextpnr-himbaechel-gowin", "import pathlib\n"
             f"pathlib.Path('seed_3/timing.json').write_text({json.dumps(report)!r})\n"
             "pathlib.Path('seed_3/top.pnr.json').write_text('{}')\n"
             "pathlib.Path('asked').write_text(' '.join(sys.argv[1:]))\n", monkeypatch)
    stand_in(tmp_path / "bin", "gowin_pack", "open('top.fs', 'w').write('0110')\n", monkeypatch)
    folder = tmp_path / "out"
    folder.mkdir()
    board = BOARDS["tang_primer_20k"]
    result = build(board, board.memories[0], folder, seed=3)
    assert (folder / "asked").read_text() == (
        "--quiet --device GW2A-LV18PG256C8/I7 --vopt family=GW2A-18C --vopt cst=top.cst --json top.syn.json --write "
        "seed_3/top.pnr.json --log seed_3/top.tim --report seed_3/timing.json --seed 3 --timing-allow-fail --freq 27")
    assert json.loads((folder / "called").read_text()) == ["-d", "GW2A-18C", "-o", "top.fs", "top.pnr.json"]
    assert (result.bitstream, result.bitstream_bytes, result.met) == ("top.fs", 4, True)
    assert "synth_gowin -family gw2a -top top -json top.syn.json" in (folder / "top.ys").read_text()
    netlist = (folder / "top.il").read_text()
    assert "module \\top.system.core.engine" in netlist and "module \\top.system.merge" not in netlist


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


@pytest.mark.parametrize(("platform", "message"), [
    ("amaranth_boards.my_board:MyBoardPlatform", "there is no module amaranth_boards.my_board"),
    ("no_such.pins:Platform", "there is no module no_such"),
    ("amaranth_boards.ulx3s:MyBoardPlatform", "amaranth_boards.ulx3s has no 'MyBoardPlatform'")])
def test_a_missing_platform_is_named(platform: str, message: str) -> None:
    with pytest.raises(OptionError) as error:
        load_platform(replace(BOARDS["ulx3s_85f"], platform=platform))
    assert str(error.value) == f"ulx3s_85f: platform {platform!r}: {message}"


@pytest.mark.parametrize(("name", "change", "message"), [
    ("ulx3s_85f", {"led": "lamp"}, "ulx3s_85f: amaranth_boards.ulx3s:ULX3S_85F_Platform has no lamp"),
    ("ecpix5_85f", {"memories": BOARDS["ulx3s_85f"].memories},
     "ecpix5_85f: amaranth_boards.ecpix5:ECPIX585Platform has no sdram"),
    ("tang_primer_20k", {"clock_hz": 54_000_000}, "tang_primer_20k: clock_hz must be the oscillator's 27,000,000, not "
     "54,000,000: there is no PLL of a GW2A-LV18PG256C8/I7 here"),
    ("ulx3s_85f", {"clock_hz": 99_999_999}, "EHXPLLL cannot make 100 MHz, 83.3333 MHz, 83.3333 MHz at 90 degrees from "
     "25 MHz exactly; choose rates that divide one oscillator rate of 400 to 800 MHz, a multiple of a divider of the "
     "input")])
def test_what_a_platform_lacks_is_named_before_the_build(name: str, change: dict[str, Any], message: str) -> None:
    board = replace(BOARDS[name], **change)
    with pytest.raises(OptionError) as error:
        check_board(board, board.memories[0])
    assert str(error.value) == message


def test_platforms_have_what_their_boards_need() -> None:
    for board in BOARDS.values():
        for memory in board.memories:
            check_board(board, memory)


def test_the_last_output_of_a_failed_tool_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", "vivado", "print('no licence'); sys.exit(3)", monkeypatch)
    with pytest.raises(ToolError) as error:
        run_tool("vivado", [], tmp_path)
    assert str(error.value) == "vivado failed with exit code 3; its last output:\nno licence"


def test_missing_tools_are_named_with_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda _: None)
    assert find_tool("nextpnr-ecp5") is None
    with pytest.raises(MissingToolError) as error:
        require_tool("nextpnr-ecp5")
    assert str(error.value) == 'nextpnr-ecp5 is not installed: pip install "tq-hw[ecp5]"'
    with pytest.raises(MissingToolError) as error:
        choose(BOARDS["ulx3s_85f"])
    assert str(error.value) == ('yosys, nextpnr-ecp5 and ecppack are not installed: pip install "tq-hw[boards]", '
                                'pip install "tq-hw[ecp5]"')


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as error, new_folder(tmp_path / "b"):
        Path("/dev/full").write_text("a netlist", encoding="utf-8")
    assert str(error.value) == f"{tmp_path}/b: cannot be written: No space left on device"
    assert list(tmp_path.iterdir()) == []


def test_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "made" / "here"
    with pytest.raises(ToolError), new_folder(target) as work:
        (work / "half").write_text("x", encoding="utf-8")
        raise ToolError("no")
    assert list(tmp_path.iterdir()) == []
    for board in ("first", "second"):
        text = json.dumps({"board": board, "bitstream": None, "toolchain": "", "missing": []})
        with new_folder(target) as work:
            (work / "report.json").write_text(text, encoding="utf-8")
        assert [path.name for path in target.parent.iterdir()] == ["here"]
        assert (target / "report.json").read_text(encoding="utf-8") == text


def test_files_of_a_failed_program_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "made" / "here"
    for text in ("first", "second"):
        with pytest.raises(ToolError) as error, new_folder(target) as work:
            (work / "top.fasm").write_text(text, encoding="utf-8")
            raise FailedStepError("fasm2frames failed")
        assert str(error.value) == f"fasm2frames failed\nwhat was made so far is kept in {target}.failed"
        assert [path.name for path in target.parent.iterdir()] == ["here.failed"]
        assert (target.parent / "here.failed" / "top.fasm").read_text(encoding="utf-8") == text
    (target.parent / "here.failed" / "failed.txt").unlink()
    with pytest.raises(ToolError), new_folder(target):
        raise FailedStepError("no")
    kept = [path for path in target.parent.iterdir() if path.name != "here.failed"]
    assert len(kept) == 1 and (kept[0] / "failed.txt").read_text(encoding="utf-8") == "no\n"
    assert (target.parent / "here.failed" / "top.fasm").is_file()


def test_folders_without_a_build_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x", encoding="utf-8")
    # Other commands write such files with `--json report.json`.
    for report in (None, "", "[]", '{"board": "ulx3s_85f", "model": "a.tflite"}'):
        if report is not None:
            (tmp_path / "report.json").write_text(report, encoding="utf-8")
        with pytest.raises(OptionError) as error, new_folder(tmp_path):
            pass
        assert str(error.value) == (f"{tmp_path}: exists and is not a folder of an earlier build; choose another "
                                    "--dir, or remove it")
    with pytest.raises(OptionError) as error, new_folder(tmp_path / "precious" / "below"):
        pass
    assert str(error.value) == (f"{tmp_path}/precious/below: cannot be written: {tmp_path}/precious is not a "
                                "directory")


def test_concurrent_builds_leave_one_folder(tmp_path: Path) -> None:
    report = json.dumps({"board": "", "bitstream": None, "toolchain": "", "missing": []})

    def builds(_: int) -> None:
        for _ in range(100):
            with new_folder(tmp_path / "here") as work:
                (work / "report.json").write_text(report, encoding="utf-8")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(builds, range(4)))
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert (tmp_path / "here" / "report.json").read_text(encoding="utf-8") == report


def test_files_put_there_during_the_build_are_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "here"
    with pytest.raises(ToolError) as error, new_folder(target) as work:
        (work / "top.bit").write_text("made", encoding="utf-8")
        target.mkdir()
        (target / "precious").write_text("x", encoding="utf-8")
    assert str(error.value) == (f"{target}: other files were put there during the build\nwhat was made so "
                                f"far is kept in {target}.failed")
    assert (target / "precious").is_file() and (tmp_path / "here.failed" / "top.bit").is_file()


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
    assert str(error.value).endswith("knows no chip 'MT1'; its names are in litedram/modules.py")
    with pytest.raises(OptionError) as error:
        with_chip(board, board.memories[1], "MT1")
    assert str(error.value) == ("--dram-chip MT1: ulx3s_85f is built with block RAM, which has no chip to choose")


def test_a_core_is_the_same_on_every_run() -> None:
    """LiteX orders its description of the hierarchy by object addresses, which differ from run to run."""
    pytest.importorskip("litedram")
    board = BOARDS["ulx3s_85f"]
    texts = set()
    for _ in range(2):
        _generate.cache_clear()
        core = dram_core(board, board.memories[0])
        assert core is not None
        texts.add(core.verilog)
    assert len(texts) == 1 and "/*" not in texts.pop()
    assert single_assignments("// date\n/* a\n b */\nassign x = 1;\nassign x = 1;\n") == (
        "// LiteDRAM (BSD-2-Clause), generated\n\n\nassign x = 1;\n")


def test_memory_sizes_of_boards_are_those_of_the_cores() -> None:
    pytest.importorskip("litedram")
    for board in BOARDS.values():
        for memory in board.memories:
            core = dram_core(board, memory)
            assert core is None or core.size_bytes == memory.size_bytes


def test_a_memory_size_other_than_the_chips_is_rejected() -> None:
    pytest.importorskip("litedram")
    board = BOARDS["ulx3s_85f"]
    memory: Any = replace(board.memories[0], size_bytes=16 << 20)
    with pytest.raises(OptionError) as error:
        dram_core(board, memory)
    assert str(error.value) == ("LiteDRAM's MT48LC16M16 has 33,554,432 bytes, ulx3s_85f is described with 16,777,216")


def test_timing_without_paths_has_no_system_clock() -> None:
    only = Timing("clk", 50, 100, ())
    assert BuildResult("", 0, {}, {"clk": only}, ()).system is only
