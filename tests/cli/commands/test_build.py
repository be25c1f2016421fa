"""`tq-hw boards`, `build` and `program`: order of work, report, exit codes; the tools themselves are stand-ins."""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tq_hw.boards.build.openxc7 import OpenFlow
from tq_hw.boards.build.toolchains import Choice
from tq_hw.boards.catalog.board import OnChip
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.isa.program_file import from_bytes

build_module: Any = import_module("tq_hw.cli.commands.build")
Tq = Callable[..., Any]
NAMES = ", ".join(BOARDS)


def test_boards_are_listed(tq: Tq) -> None:
    outcome = tq("boards", "--json", "-")
    assert outcome.code == 0
    listed = {board["name"]: board for board in json.loads(outcome.out)["boards"]}
    assert list(listed) == list(BOARDS)
    assert {name: board["macs"] for name, board in listed.items()} == {
        "arty_a7": 128, "arty_a7_100": 256, "ulx3s_85f": 128, "ecpix5_85f": 72, "icesugar_pro": 4, "icebreaker": 4,
        "tang_primer_20k": 4}
    assert listed["arty_a7"]["toolchain"] == "Vivado"
    shown = tq("boards")
    assert shown.code == 0 and all(name in shown.out for name in BOARDS)


def test_boards_names_the_open_tools_where_they_are_taken(tq: Tq, monkeypatch: pytest.MonkeyPatch) -> None:
    boards_module = import_module("tq_hw.cli.commands.boards")
    monkeypatch.setattr(boards_module, "missing_tools", lambda names: [name for name in names if name == "vivado"])
    flow = OpenFlow("xc7a35tcsg324-1", Path("artix7"), "xc7a50t", None, True)
    for chosen, wanted in ((flow, ("Yosys, nextpnr-xilinx", [])), (None, ("Vivado", ["vivado"]))):
        monkeypatch.setattr(boards_module, "choose", lambda _, flow=chosen: Choice("Yosys, nextpnr-xilinx", flow))
        listed = {board["name"]: board for board in json.loads(tq("boards", "--json", "-").out)["boards"]}
        assert (listed["arty_a7"]["toolchain"], listed["arty_a7"]["missing"]) == wanted
        shown = " ".join(tq("boards", "--wide").out.split())
        assert f"{wanted[0]}: {'vivado missing' if wanted[1] else 'found'}" in shown


def test_a_scheduler_is_asked_before_anything_takes_long(tq: Tq, steps: list[str]) -> None:
    pytest.importorskip("distributed")
    outcome = tq("build", "--board", "icesugar_pro", "--memory", "block RAM", "--scheduler", "nonsense://x")
    assert outcome.code == 2 and steps == []
    assert outcome.err.startswith("tq-hw: --scheduler nonsense://x: no Dask scheduler answers there: ")


def test_report_of_a_build(tq: Tq, steps: list[str]) -> None:
    outcome = tq("build", "--board", "icesugar_pro", "--memory", "block RAM", "--allow-timing-fail", "--seed", "3",
                 "-o", "out", "--json", "report.json")
    assert (outcome.code, outcome.err) == (0, "tq-hw: icesugar_pro: verifying on the RTL\n")
    assert steps == ["verify digits.tflite", "build block RAM with 0 bytes, seed 3"]
    report = json.loads(Path("report.json").read_text(encoding="utf-8"))
    assert report == json.loads(Path("out/report.json").read_text(encoding="utf-8"))
    wanted = {"board": "icesugar_pro", "bitstream": "top.bit", "bitstream_bytes": 5, "fmax_mhz": 70.0,
              "target_mhz": 37.5, "timing_met": False, "luts": 1000, "ffs": 2000, "dsps": 28, "brams": 30,
              "toolchain": "Yosys, nextpnr-ecp5", "verified": True, "seed": 3, "missing": [],
              "critical_path": {"ns": 4.0, "wires_ns": 2.5, "modules": ["system.bridge", "system.b"]}}
    assert {name: report[name] for name in wanted} == wanted
    assert outcome.out.splitlines() == [
        "icesugar_pro (LFE5U-25F-6BG256): 1,000 of 24,288 luts, 2,000 of 24,288 flip flops, 28 of 28 multipliers, 30 "
        "of 56 block rams",
        "clock clk: 70.0 MHz, target 75 MHz",
        "critical path 4.0 ns, 2.5 of it wires: system.bridge -> system.b",
        "verified against the golden model before the build",
        "out/top.bit: 5 bytes"]


def test_seeds_that_were_tried_are_in_the_report(tq: Tq, steps: list[str]) -> None:
    outcome = tq("build", "--board", "ulx3s_85f", "--allow-timing-fail", "--seed", "4", "--seeds", "3", "--json", "r")
    assert outcome.code == 0
    assert steps == ["verify digits.tflite", "build SDR SDRAM with 0 bytes, seed 4 of 3"]
    report = json.loads(Path("r").read_text(encoding="utf-8"))
    assert (report["seed"], report["seeds"]) == (4, {"4": 0.9, "5": 0.91, "6": 0.92})
    assert "seed 4 of 4 (90.0% of the target), 5 (91.0% of the target), 6 (92.0% of the target)\n" in outcome.out


def test_a_board_has_a_seed_of_its_own(tq: Tq, steps: list[str]) -> None:
    outcome = tq("build", "--board", "icesugar_pro", "--allow-timing-fail", "--no-verify")
    assert outcome.code == 0
    assert steps == ["build SDR SDRAM with 0 bytes, seed 5"]


def test_missed_timing_is_exit_code_4_and_the_folder_is_there(tq: Tq, steps: list[str]) -> None:
    outcome = tq("build", "--board", "icesugar_pro", "--no-verify")
    assert outcome.code == 4
    assert outcome.err == ("tq-hw: icesugar_pro misses its timing: clock clk reaches 70.0 MHz of 75 MHz; try another "
                           "--seed, or --allow-timing-fail to keep the bitstream of build/icesugar_pro all the same\n")
    assert steps == ["build SDR SDRAM with 0 bytes, seed 5"]
    report = json.loads(Path("build/icesugar_pro/report.json").read_text(encoding="utf-8"))
    assert report["verified"] is False and report["timing_met"] is False
    assert "NOT VERIFIED: --no-verify was given" in outcome.out


def test_missing_vivado_is_exit_code_3_and_the_folder_is_there(tq: Tq, steps: list[str]) -> None:
    outcome = tq("build", "--board", "arty_a7", "-o", "arty")
    assert outcome.code == 3
    assert outcome.err == "tq-hw: arty_a7: verifying on the RTL\n" + (
        "tq-hw: vivado is not installed, so there is no bitstream. arty holds all that it needs: copy it to a machine "
        "with vivado and run there: vivado -mode batch -source top.tcl; or install AMD Vivado (the free edition has "
        "these devices) and put it on the PATH, and build again. openXC7 was not used: fasm2frames not on the PATH\n")
    report = json.loads(Path("arty/report.json").read_text(encoding="utf-8"))
    assert report["bitstream"] is None and report["fmax_mhz"] is None and report["missing"] == ["vivado"]
    assert report["toolchain_why"] == "openXC7 was not used: fasm2frames not on the PATH"


@pytest.mark.parametrize(("options", "message"), [
    (("--seed", "3", "--seeds", "2"), "--seed and --seeds: arty_a7 is placed once, and Vivado has no seeds"),
    (("--scheduler", "tcp://a:1"), "--scheduler: arty_a7 is placed once, and Vivado has no seeds"),
    (("--toolchain", "openxc7", "--seed", "3", "--seeds", "2"), "--seeds: arty_a7 is placed once")])
def test_options_that_would_do_nothing(tq: Tq, steps: list[str], options: tuple[str, ...], message: str) -> None:
    outcome = tq("build", "--board", "arty_a7", *options)
    assert (outcome.code, outcome.err, steps) == (2, f"tq-hw: {message}\n", [])


def test_open_tools_that_were_asked_for_and_are_not_there(tq: Tq, steps: list[str]) -> None:
    outcome = tq("build", "--board", "arty_a7", "-o", "arty", "--toolchain", "openxc7")
    assert outcome.code == 3
    assert outcome.err == "tq-hw: arty_a7: verifying on the RTL\n" + (
        "tq-hw: openXC7 was not used: fasm2frames not on the PATH. arty holds what openXC7 needs, the netlist "
        "top.json and the pins openxc7.xdc: complete it here and build again, or copy the folder to a machine that has "
        "it\n")
    assert json.loads(Path("arty/report.json").read_text(encoding="utf-8"))["missing"] == ["openXC7"]


def test_block_ram_of_another_name_is_filled_too(tq: Tq, steps: list[str], model: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "find_memory", lambda board, name: OnChip(32 << 10, name="EBR"))
    assert tq("build", "--board", "icesugar_pro", "--model", "small.tflite", "--allow-timing-fail").code == 0
    report = json.loads(Path("build/icesugar_pro/report.json").read_text(encoding="utf-8"))
    assert report["model"] == {"file": "small.tqm", "in_bitstream": True}


def test_model_goes_into_block_ram_or_beside_the_bitstream(tq: Tq, steps: list[str], model: Path) -> None:
    for memory, inside in (("block RAM", True), ("SDR SDRAM", False)):
        outcome = tq("build", "--board", "icesugar_pro", "--model", "small.tflite", "--memory", memory,
                     "--allow-timing-fail", "-o", "out")
        assert outcome.code == 0
        program = from_bytes(Path("out/small.tqm").read_bytes())
        size = len(build_module.memory_contents(program)) if inside else 0
        assert steps[-2:] == ["verify small.tflite", f"build {memory} with {size} bytes, seed 5"]
        report = json.loads(Path("out/report.json").read_text(encoding="utf-8"))
        assert report["model"] == {"file": "small.tqm", "in_bitstream": inside}
        assert program.image == build_module.memory_contents(program)[:len(program.image)]


@pytest.mark.parametrize(("arguments", "message"), [
    (["--board", "arty"], f"no board 'arty': expected one of {NAMES}; did you mean arty_a7?"),
    (["--board", "ulx3s_85f", "--memory", "DDR3"],
     "ulx3s_85f has no memory 'DDR3': expected 'SDR SDRAM' or 'block RAM'"),
    (["--board", "ulx3s_85f", "--model", "nope.tflite"],
     "nope.tflite: cannot read the file: No such file or directory"),
    (["--board", "ulx3s_85f", "-o", "small.tflite/below"],
     "{tmp}/small.tflite/below: cannot be written: {tmp}/small.tflite is not a directory"),
    (["--board", "ulx3s_85f", "-o", "."],
     "{tmp}: exists and is not a folder of an earlier build; choose another --dir, or remove it"),
    (["--board", "ulx3s_85f", "--json", "."], "--json .: expected a file to write, found a directory"),
])
def test_bad_input_is_one_message(tq: Tq, steps: list[str], model: Path, tmp_path: Path, arguments: list[str],
                                  message: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    outcome = tq("build", *arguments)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"tq-hw: {message.format(tmp=tmp_path)}\n")
    assert steps == [] and sorted(tmp_path.rglob("*")) == before


def test_model_that_does_not_fit_is_refused_before_anything(tq: Tq, steps: list[str], model: Path, tmp_path: Path,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(build_module, "find_memory", lambda board, name: OnChip(512))
    outcome = tq("build", "--board", "icesugar_pro", "--model", "small.tflite")
    assert outcome.code == 2
    assert outcome.err.startswith("tq-hw: small does not fit on icesugar_pro: it needs ")
    assert outcome.err.endswith("its block RAM has 512; try a smaller model, or a board or --memory with more\n")
    assert steps == [] and sorted(tmp_path.rglob("*")) == before


def test_program_calls_the_loader(tq: Tq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "build" / "ulx3s_85f"
    folder.mkdir(parents=True)
    outcome = tq("program", "--board", "ulx3s_85f")
    assert outcome.code == 2 and outcome.err.startswith(
        "tq-hw: build/ulx3s_85f: is not a folder of `tq-hw build --board ulx3s_85f`: ")
    (folder / "report.json").write_text("[]")
    outcome = tq("program", "--board", "ulx3s_85f")
    assert (outcome.code, outcome.err) == (
        2, "tq-hw: build/ulx3s_85f: is not a folder of `tq-hw build --board ulx3s_85f`: report.json is another file of "
        "that name; name the build's folder with --dir\n")
    (folder / "report.json").write_text(json.dumps({"board": "ulx3s_85f", "bitstream": None, "missing": ["vivado"]}))
    outcome = tq("program", "--board", "ulx3s_85f")
    assert (outcome.code, outcome.err) == (
        2, "tq-hw: build/ulx3s_85f: has no bitstream: vivado was missing when it was built\n")
    (folder / "report.json").write_text(json.dumps({"board": "ulx3s_85f", "bitstream": "top.bit"}))
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = tq("program", "--board", "ulx3s_85f")
    assert (outcome.code, outcome.err) == (
        3, "tq-hw: openFPGALoader is not installed: apt install openfpgaloader\n")
    loader = tmp_path / "openFPGALoader"
    loader.write_text(f"#!{sys.executable}\nimport json, sys\njson.dump(sys.argv[1:], open('called', 'w'))\n"
                      "sys.exit('bad' in open('top.bit').read())\n")
    loader.chmod(0o755)
    (folder / "top.bit").write_text("good")
    outcome = tq("program", "--board", "ulx3s_85f", "--flash")
    assert (outcome.code, outcome.out) == (0, "ulx3s_85f is loaded with build/ulx3s_85f/top.bit\n")
    assert json.loads((folder / "called").read_text()) == ["-b", "ulx3s", "-f", "top.bit"]
    (folder / "top.bit").write_text("bad")
    outcome = tq("program", "--board", "ulx3s_85f")
    assert outcome.code == 5
    assert outcome.err == ("tq-hw: ulx3s_85f could not be loaded: openFPGALoader failed with exit code 1; it printed "
                           "nothing\n")
    (folder / "report.json").write_text(json.dumps({"board": "arty_a7", "bitstream": "top.bit"}))
    outcome = tq("program", "--board", "ulx3s_85f")
    assert (outcome.code, outcome.err) == (
        2, "tq-hw: build/ulx3s_85f: holds a build for arty_a7, not for ulx3s_85f\n")
