"""Options of `tq-hw generate` in the configuration's file."""

from pathlib import Path

import pytest

from tq_hw.cli.main import run
from tq_hw.cli.package.choices import Choices, chosen_core, to_table
from tq_hw.isa.config import PRESETS, load_config

SIZES = 'rows = 8\ncols = 8\nrequantize_lanes = 4\nscratchpad_bytes = "64 KiB"\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("mine.toml")


def test_the_file_says_what_the_command_line_does_not(file: Path) -> None:
    file.write_text(f'{SIZES}[generate]\ncontrol = "apb"\nmemory_bus = "wishbone"\nname = "npu"\n')
    core = chosen_core("mine.toml", Choices())
    assert (core.control, core.memory_bus, core.memories, core.name) == ("apb", "wishbone", "inferred", "npu")
    core = chosen_core("mine.toml", Choices(control="plain", memories="blackbox"))
    assert (core.control, core.memory_bus, core.memories, core.name) == ("plain", "wishbone", "blackbox", "npu")
    file.write_text(SIZES + to_table(core))
    assert chosen_core("mine.toml", Choices()) == core
    assert chosen_core("mine.toml", Choices(name="other")).name == "other"


def test_without_a_table_and_with_an_empty_one(file: Path) -> None:
    for end in ("", "[generate]\n"):
        file.write_text(SIZES + end)
        core = chosen_core("mine.toml", Choices())
        assert (core.control, core.memory_bus, core.memories, core.name) == (
            "axi4lite", "axi4", "inferred", "tq_hw_mine")
    assert chosen_core("n8", Choices()).name == "tq_hw_n8"


def test_others_do_not_look_into_the_table(file: Path) -> None:
    file.write_text(f"{SIZES}[generate]\nwhatever = 1\n")
    config = load_config("mine.toml")
    assert config.name == "mine" and config.fingerprint == PRESETS["n8"].fingerprint


@pytest.mark.parametrize(("table", "message"), [
    ('[generate]\nmemory-bus = "axi4"\n', "unknown key 'memory-bus' in [generate]; did you mean memory_bus?"),
    ("[generate]\nclock = 5\n",
     "unknown key 'clock' in [generate]; known keys are control, memory_bus, memories, name"),
    ('[generate]\ncontrol = "axi"\n',
     "generate.control must be axi4lite, wishbone, apb or plain, not 'axi'; did you mean axi4lite?"),
    ('[generate]\nmemory_bus = "AXI4"\n',
     "generate.memory_bus must be axi4 or wishbone, not 'AXI4'; did you mean axi4?"),
    ("[generate]\nmemories = 5\n", "generate.memories must be inferred or blackbox, not 5"),
    ("[generate]\nname = 5\n", "generate.name must be a text, not 5"),
    ('[generate]\nname = "my-npu"\n',
     "generate.name 'my-npu': expected a name for a Verilog module: a letter, then up to 47 letters, digits and "
     "underscores, no keyword and no underscore at the end; the nearest is my_npu"),
    ('[generate]\nname = "module"\n',
     "generate.name 'module': expected a name for a Verilog module: a letter, then up to 47 letters, digits and "
     "underscores, no keyword and no underscore at the end; the nearest is n_module"),
    ("generate = 5\n", "generate must be a table of options, not 5"),
])
def test_what_is_refused(table: str, message: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(SIZES + table)
    assert run(["generate", "--config", "mine.toml", "-o", "new"]) == 2
    assert capsys.readouterr().err == f"tq-hw: mine.toml: {message}\n"
    assert [path.name for path in Path().iterdir()] == ["mine.toml"]


def test_macros_for_the_serial_machine(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text('rows = 4\ncols = 4\nrequantize_lanes = 1\nscratchpad_bytes = "32 KiB"\nacc_words = 256\n'
                    'bus_bytes = 4\nvector_words = 2048\ndesign = "serial"\n[generate]\nmemories = "blackbox"\n')
    assert run(["generate", "--config", "mine.toml", "-o", "new"]) == 2
    assert "mine.toml: generate.memories blackbox: the serial machine (mine) starts with" in capsys.readouterr().err
    assert chosen_core("mine.toml", Choices(memories="inferred")).memories == "inferred"
