"""The program starts fast, and without a package it needs it says so."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tq_hw.cli import main as main_module
from tq_hw.cli.shared.installed import not_installed

COMMANDS = Path(main_module.__file__).with_name("commands")
#: Runs tq-hw where one module cannot be imported.
HIDDEN = """
import sys
hidden = sys.argv.pop(1)
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
from tq_hw.cli.start import main
main()
"""


def test_help_names_every_command_and_imports_none() -> None:
    code = ("import sys; from tq_hw.cli.main import run; run(['--help']); "
            "sys.exit(any(name.startswith(('tq_hw.cli.commands', 'tq_hw.compiler', 'amaranth')) for name in "
            "sys.modules))")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    listed = said.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == sorted(
        path.stem for path in COMMANDS.glob("*.py") if path.stem != "__init__")


def test_each_command_is_of_its_name() -> None:
    group = main_module.tq_hw
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None and command.name == name
    assert group.get_command(context, "nothing") is None


@pytest.mark.parametrize("module", ["numpy", "click"])
def test_a_missing_module_is_one_message(module: str) -> None:
    run = subprocess.run([sys.executable, "-c", HIDDEN, module, "--version"], capture_output=True, text=True,
                         check=False)
    assert (run.returncode, run.stdout) == (3, "")
    assert run.stderr == (f"tq-hw: the Python module {module} cannot be imported, though all packages that tq-hw needs "
                          "are installed: reinstall the one that it comes from\n")


def test_an_interrupt_while_modules_come_is_one_message() -> None:
    code = HIDDEN.replace('ModuleNotFoundError(f"No module named {name!r}", name=name)', "KeyboardInterrupt")
    run = subprocess.run([sys.executable, "-c", code, "click", "--version"], capture_output=True, text=True,
                         check=False)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "tq-hw: interrupted\n")


def test_all_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.metadata.version

    def version(name: str) -> str:
        if name in ("numpy", "rich", "pillow"):
            raise importlib.metadata.PackageNotFoundError(name)
        return there(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    error = ModuleNotFoundError("No module named 'PIL.Image'", name="PIL.Image")
    said = "the Python packages numpy, pillow and rich are not installed: pip install numpy pillow rich"
    assert not_installed(error) == said
    assert main_module.describe(error) == (3, said)
    assert not not_installed(ModuleNotFoundError("", name="tq_hw.nothing"))


@pytest.mark.parametrize(("word", "near"), [("simulate", "sim"), ("comp", "compile"), ("repport", "report"),
                                            ("Verify", "verify")])
def test_the_nearest_command_is_named(word: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_module.run([word, "m.tflite"]) == 2
    assert capsys.readouterr().err == f"tq-hw: No such command '{word}'; did you mean {near}? Try 'tq-hw --help'.\n"


@pytest.mark.parametrize("value", ["nan", "-nan"])
def test_no_number_is_no_rate(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_module.run(["compile", "m.tflite", f"--bytes-per-cycle={value}"]) == 2
    assert capsys.readouterr().err == (f"tq-hw: Invalid value for '--bytes-per-cycle': {value} is not a finite number. "
                                       "Try 'tq-hw compile --help'.\n")
