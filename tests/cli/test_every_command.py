"""Every model goes through every command: unusual small ones, real ones next to the repository, and users' models."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odd_models import ODD_MODELS

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import TqError
from tq_hw.model.tflite.reader import read_model

Tq = Callable[..., Any]
#: Command lines by name; verification and tools of `build` are stand-ins.
COMMANDS = {
    "compile": ("compile", "-o", "out.tqm"),
    "golden": ("sim", "--engine", "golden", "--outputs", "golden.npz"),
    "executor": ("sim", "--engine", "executor", "--resident"),
    "rtl": ("sim", "--engine", "rtl", "--trace", "trace.json"),
    "verify": ("verify", "--engine", "executor", "--sets", "1"),
    "report": ("report", "--engine", "executor", "-o", "page.html"),
    "report_rtl": ("report", "-o", "page.html"),
}


def run_command(tq: Tq, model: Path, command: str, config: str) -> None:
    name, *options = COMMANDS[command]
    writes_json = name != "report"
    result = tq(name, model, "--config", config, *options, *(["--json", "report.json"] if writes_json else []))
    assert (result.code, result.err) == (0, "")
    if command in ("golden", "executor", "rtl"):
        report = json.loads(Path("report.json").read_text(encoding="utf-8"))
        assert report["bit_exact"] is (None if command == "golden" else True)
    if name in ("compile", "sim"):
        report = json.loads(Path("report.json").read_text(encoding="utf-8"))
        operators = read_model(model).main.operators
        assert {op.index for op in operators} == {row["index"] for row in report["layers"]}
        assert all(isinstance(row["name"], str) for row in report["layers"])


def run_build(tq: Tq, model: Path, board: str) -> None:
    result = tq("build", "--board", board, "--model", model, "--allow-timing-fail", "-o", "built", "--json", "b.json")
    assert (result.code, result.err) == (0, f"tq-hw: {board}: verifying on the RTL\n")
    assert json.loads(Path("b.json").read_text(encoding="utf-8"))["model"]["file"] == f"{model.stem}.tqm"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ODD_MODELS)
def test_odd_models(tq: Tq, tmp_path: Path, name: str, command: str) -> None:
    model = tmp_path / f"{name}.tflite"
    model.write_bytes(ODD_MODELS[name]())
    run_command(tq, model, command, "tiny")


@pytest.mark.parametrize("name", ODD_MODELS)
def test_odd_models_are_built(tq: Tq, tmp_path: Path, steps: list[str], name: str) -> None:
    model = tmp_path / f"{name}.tflite"
    model.write_bytes(ODD_MODELS[name]())
    run_build(tq, model, "icesugar_pro")
    assert steps[0] == f"verify {name}.tflite"


def test_what_the_tables_say_of_odd_operators(tq: Tq, tmp_path: Path) -> None:
    for name, row in (("call_once", "0   CALL_ONCE         none"), ("names", "a\\nb\\x1b[31m")):
        model = tmp_path / f"{name}.tflite"
        model.write_bytes(ODD_MODELS[name]())
        assert row in tq("compile", model, "--config", "tiny").out


@pytest.mark.parametrize("name", [
    "mww_okay_nabu_v2_streaming", "tflm_hello_world_int8", "tflm_micro_speech", "tinymaix_mnist_valid_q"])
@pytest.mark.parametrize("command", ["compile", "golden", "executor", "report"])
def test_small_real_networks(tq: Tq, shared: Path, name: str, command: str) -> None:
    run_command(tq, shared / "models" / f"{name}.tflite", command, "n8")


def shared_models(folder: str) -> list[Path]:
    return sorted((Path(__file__).parents[3] / "shared" / folder).glob("*.tflite"))


@pytest.mark.slow
@pytest.mark.parametrize("model", shared_models("models"), ids=lambda path: path.stem)
def test_real_networks(tq: Tq, steps: list[str], model: Path) -> None:
    for command in COMMANDS:
        run_command(tq, model, command, "n16")
    run_build(tq, model, "ulx3s_85f")


@pytest.mark.slow
@pytest.mark.parametrize("model", shared_models("zoo"), ids=lambda path: path.stem)
def test_networks_as_users_make_them(tq: Tq, steps: list[str], model: Path) -> None:
    """A model that compiles goes through every command; every command refuses the others with the same message."""
    try:
        compile_model(read_model(model), load_config("n16"))
    except TqError as error:
        for name, *options in COMMANDS.values():
            result = tq(name, model, *options)
            # In the table of verdicts the reason is on the model's line.
            assert (result.code, str(error) in (result.out if name == "verify" else result.err)) == (2, True), name
        return
    for command in COMMANDS:
        run_command(tq, model, command, "n16")
    run_build(tq, model, "ulx3s_85f")
