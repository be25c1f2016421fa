"""`tq-hw generate`: the folder, what it says about the core, and what it refuses."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tq_hw.cli.main import run
from tq_hw.cli.package.area import areas
from tq_hw.cli.package.choices import Choices, chosen_core
from tq_hw.cli.package.facts import core_of
from tq_hw.cli.package.folder import verilog
from tq_hw.hdl.netlist.design import Design
from tq_hw.hdl.parts.queues import Queue
from tq_hw.hdl.top import CONTROLS, MEMORY_BUSES
from tq_hw.hdl.verilog import to_readable_verilog
from tq_hw.isa.config import PRESETS, load_config
from tq_hw.isa.control import REGISTERS
from tq_hw.isa.program_file import from_bytes
from tq_hw.sim.rtl.tools import verilator


def digests(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_files_every_time(core: Path, tmp_path: Path) -> None:
    """The file that the folder contains reproduces it, with its options."""
    (tmp_path / "empty").mkdir()
    assert run(["generate", "--config", str(core / "npu.toml"), "-o", str(tmp_path / "empty")]) == 0
    assert digests(tmp_path / "empty") == digests(core)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    assert (tmp_path / "empty").stat().st_mode & 0o777 == (tmp_path).stat().st_mode & 0o777 | 0o055


def test_no_file_has_an_empty_place_or_a_secret(core: Path) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in core.rglob("*")
             if path.is_file() and path.suffix not in (".tqm", ".npz")}
    assert [path.name for path, text in texts.items() if re.search(r"@[A-Z]+@", text)] == []
    assert [path.name for path, text in texts.items() if str(Path.home()) in text or "import tq_hw" in text] == []
    assert all(text.endswith("\n") and "\t" not in text.replace("\n\t", "\n") or path.suffix == ".dtsi"
               for path, text in texts.items())


@pytest.mark.parametrize("options", [
    [], ["--config", "serial", "--memory-bus", "wishbone"],
    pytest.param(["--config", "tiny", "--memories", "blackbox"], marks=pytest.mark.slow)], ids="".join)
def test_lint_is_clean_with_the_assertions_bound(options: list[str], core: Path, tmp_path: Path) -> None:
    if options:
        core = tmp_path / "core"
        assert run(["generate", *options, "--name", "npu", "-o", str(core)]) == 0
    done = subprocess.run([*verilator(), "--lint-only", "-Wall", "--assert", "--top-module", "npu",
                           core / "lint" / "npu.vlt", *sorted((core / "rtl").iterdir()), core / "sv" / "npu_sva.sv"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    if "blackbox" in options:
        the_macros_are_said_everywhere(core)


def test_memories_that_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a small netlist instead of the machine."""
    queue = to_readable_verilog(Queue(40, 64, registered=True), "npu", macros=True)
    monkeypatch.setattr("tq_hw.cli.package.folder.verilog", lambda core: queue)
    monkeypatch.setattr("tq_hw.cli.package.folder.bench_files", lambda core: {"tb/run.py": b"npu_memories.v"})
    assert run(["generate", "--config", "tiny", "--memories", "blackbox", "--name", "npu",
                "-o", str(tmp_path / "core")]) == 0
    the_macros_are_said_everywhere(tmp_path / "core")
    text = (tmp_path / "core" / "README.md").read_text(encoding="utf-8")
    assert "| `npu_ram_64x40_r1_never` | 1 | 64 | 40 | 40 | 1 | does not happen |" in text


def the_macros_are_said_everywhere(core: Path) -> None:
    macros = json.loads((core / "npu.json").read_text(encoding="utf-8"))["memories"]["macros"]
    rtl, models = ((core / "rtl" / name).read_text(encoding="utf-8") for name in ("npu.v", "npu_memories.v"))
    assert macros
    for macro in macros:
        # A module with instances may itself be instantiated several times.
        assert 1 <= len(re.findall(rf"^  {macro['module']} u_", rtl, re.M)) <= macro["instances"]
        assert f"module {macro['module']} (" in models and f"module {macro['module']} " not in rtl
        assert f"| `{macro['module']}` | {macro['instances']} |" in (core / "README.md").read_text(encoding="utf-8")
    assert "rtl/npu_memories.v" in (core / "npu.core").read_text(encoding="utf-8")
    assert "rtl/npu_memories.v" in (core / "component.xml").read_text(encoding="utf-8")
    assert "npu_memories.v" in (core / "tb" / "run.py").read_text(encoding="utf-8")


def test_ports_are_those_of_the_verilog(core: Path, facts: Any) -> None:
    text = (core / "rtl" / "npu.v").read_text(encoding="utf-8")
    head = re.search(r"module npu \((.*?)\);", text, re.S)
    assert head is not None
    found = [(name, way, int(high or 0) + 1) for way, high, name in re.findall(
        r"(input|output) (?:wire|reg) (?:\[(\d+):0\] )?(\w+)", head.group(1))]
    assert found == [(port["name"], port["direction"], port["width"]) for port in facts["ports"]]
    assert not re.search(r"\\|\$(?!signed\b)", text), "an escaped or anonymous name"


def test_facts_are_the_tables(facts: Any) -> None:
    config = PRESETS["serial"]
    assert facts["fingerprint"] == f"{config.fingerprint:08x}" and facts["control"] == "axi4lite"
    assert [(r["name"], r["offset"], r["access"]) for r in facts["registers"]] == [
        (r.name, r.offset_bytes, r.access) for r in REGISTERS]
    assert facts["registers"][1]["reset"] == config.fingerprint


def test_area_is_what_was_recorded_or_said_not_to_be(core: Path, facts: Any) -> None:
    assert {area["family"]: (area["source"], area["cells"]["luts"]) for area in facts["area"]} == {
        "ecp5": ("synthesized", 2093), "gowin": ("synthesized", 2531), "ice40": ("synthesized", 1948),
        "xc7": ("synthesized", 1015)}
    text = (core / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^\| ecp5 \| synthesized \| 2,093 \|.*\| 38\.6 \|$", text, re.M)
    unknown = next(area for area in areas(PRESETS["n8"]) if area.family == "ice40")
    assert (unknown.source, unknown.cells) == ("not measured", None)
    n8, n9x8, plain, own = (areas(config)[0] for config in (
        PRESETS["n8"], PRESETS["n9x8"], replace(PRESETS["n9x8"], block_uops=0),
        replace(PRESETS["n8"], name="own", rows=12, cols=12)))
    assert plain.source == "synthesized" and n9x8.source == n8.source == own.source == "estimated"
    assert n9x8.clock_mhz == 146 and n8.clock_mhz is own.clock_mhz is None
    # The flip-flops of 4x20x2, where it is left out of the fit, are off the most.
    assert own.worst is not None and round(own.worst, 3) == 0.064


def test_the_configuration_is_in_the_folder(core: Path) -> None:
    assert load_config(str(core / "npu.toml")) == PRESETS["serial"]
    assert chosen_core(str(core / "npu.toml"), Choices()) == core_of(PRESETS["serial"], "axi4lite", "npu")


def test_fields_of_a_register_do_not_overlap() -> None:
    for register in REGISTERS:
        bits = [bit for field in register.fields for bit in range(field.first, field.first + field.bits)]
        assert len(set(bits)) == len(bits) and max(bits) < 32


def test_fusesoc_names_files_that_exist(core: Path) -> None:
    text = (core / "npu.core").read_text(encoding="utf-8")
    assert text.startswith("CAPI=2:\n")
    described = yaml.safe_load(text.removeprefix("CAPI=2:\n"))
    named = [next(iter(file)) if isinstance(file, dict) else file
             for files in described["filesets"].values() for file in files["files"]]
    assert [name for name in named if not (core / name).is_file()] == []
    assert {"lint", "sim", "synth"} <= set(described["targets"])
    assert all(part in described["filesets"] for target in described["targets"].values() for part in target["filesets"])
    hooks = [script for target in described["targets"].values() for scripts in target.get("hooks", {}).values()
             for script in scripts]
    assert hooks == ["icarus", "verilator"] == list(described["scripts"])
    # Files for the simulation are where its program looks for them.
    copied = {next(iter(file)): next(iter(file.values()))["copyto"] for file in described["filesets"]["tb"]["files"]}
    assert all(name == place for name, place in copied.items()) and {f"tb/{path.name}" for path in (
        core / "tb").iterdir() if path.name != "requirements.txt"} <= set(copied)


def test_readme_names_files_that_exist(core: Path) -> None:
    text = (core / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:rtl|lint|sv|tb|driver|sw)/[\w./]+)`", text)
    assert len(named) >= 5
    assert [name for name in named if not (core / name).exists() and not name.endswith("_run")] == []
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 120


def test_the_c_of_the_folder_compiles(core: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    assert compiler is not None, "make needs a C compiler for the firmware's tests, too"
    done = subprocess.run(["make", "-C", core / "sw", "CFLAGS=-O0 -Wconversion -Werror", f"DRIVER={core / 'driver'}"],
                          capture_output=True, text=True, check=False)
    (core / "sw" / "npu_run").unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr


def test_the_model_is_for_the_core(core: Path) -> None:
    program = from_bytes((core / "tb" / "digits.tqm").read_bytes())
    assert program.config.fingerprint == PRESETS["serial"].fingerprint


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("memory_bus", MEMORY_BUSES)
def test_the_bench_of_every_bus_is_clean_python(control: str, memory_bus: str, tmp_path: Path) -> None:
    from tq_hw.cli.package.bench import bench_files

    for name, data in bench_files(core_of(PRESETS["serial"], control, "npu", memory_bus)).items():
        if name.endswith(".py"):
            (tmp_path / Path(name).name).write_bytes(data)
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "120", "--select",
                           "E,W,F,I,B,UP", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("arguments", "message"), [
    (["--name", "1npu"], "--name '1npu': expected a name for a Verilog module: a letter, then up to 47 letters, digits "
     "and underscores, no keyword and no underscore at the end; the nearest is n_1npu"),
    (["--name", "module"], "--name 'module': expected a name for a Verilog module"),
    (["--name", "aclk"], "--name 'aclk': a port has this name, and Verilator needs another one for the module; the "
     "nearest is n_aclk"),
    (["--name", "Reg"], "--name 'Reg': the driver's headers already define TQ_REG_FINGERPRINT; the nearest "
     "is n_Reg"),
    (["--name", "layout"], "--name 'layout': the driver's headers already define TQ_LAYOUT_H; the nearest is n_layout"),
    (["--memories", "blackbox"], "--memories blackbox: the serial machine (serial) starts with its program in memory, "
     "which RAM of an ASIC cannot; use a configuration of the parallel design, such as tiny"),
    (["--config", "n17"], "no configuration 'n17'"), (["--control", "ahb"], "'ahb' is not one of 'axi4lite'"),
    (["-o", "full"], "-o full: is not empty; name a new folder, or remove this one first"),
    (["-o", "file"], "-o file: expected a folder to make, found a file"),
    (["-o", "no/folder"], "-o no/folder: the directory no does not exist"),
])
def test_what_is_refused(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                         capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept").write_text("as it was")
    (tmp_path / "file").write_text("as it was")
    assert run(["generate", "--config", "serial", "-o", "new", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert digests(tmp_path) == {name: hashlib.sha256(b"as it was").hexdigest() for name in ("file", "full/kept")}


def test_nothing_is_left_of_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr("tq_hw.cli.package.folder.verilog", lambda core: Design("", 1, 1, 1, 0))
    monkeypatch.setattr("tq_hw.cli.package.folder.bench_files", lambda core: {})
    assert run(["generate", "--config", "serial", "-o", str(tmp_path / "new")]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", "n8", "n16"])
def test_at_most_one_net_in_twenty_is_without_a_name(name: str) -> None:
    design = verilog(core_of(load_config(name), "axi4lite", "npu"))
    assert 20 * design.made_up <= design.nets
