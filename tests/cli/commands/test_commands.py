"""Output and files of the commands without errors, and the report of a difference."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tq_hw
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.compiler import warm
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import Unit
from tq_hw.isa.program_file import load
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim import golden

Tq = Callable[..., Any]
LAYER_KEYS = {"index", "op", "name", "unit", "cycles", "macs", "utilization", "bound", "bytes", "tensor",
              "array_cycles", "group"}


def expected(model: Path, inputs: Sequence[np.ndarray]) -> np.ndarray:
    return golden.run(read_model(model), inputs).outputs[0]


def test_compile_writes_a_program(tq: Tq, model: Path) -> None:
    result = tq("compile", model.name, "--config", "tiny", "--json", "-")
    report = json.loads(result.out)
    program = load("small.tqm")
    assert (result.code, result.err) == (0, "")
    assert program.config == PRESETS["tiny"]
    assert {key: report[key] for key in ("model", "config", "output", "macs", "estimated", "output_bytes")} == {
        "model": "small.tflite", "config": "tiny", "output": "small.tqm", "macs": 6 * 5 * 27 * 4, "estimated": True,
        "output_bytes": Path("small.tqm").stat().st_size}
    assert report["fingerprint"] == f"{PRESETS['tiny'].fingerprint:08x}"
    assert report["cycles"] == sum(layer["cycles"] for layer in report["layers"])
    assert [(layer["op"], layer["name"]) for layer in report["layers"]] == [("CONV_2D", "t3"), ("MAX_POOL_2D", "t4")]
    assert all(set(layer) == LAYER_KEYS for layer in report["layers"])


def test_compile_prints_layers_and_total(tq: Tq, model: Path) -> None:
    result = tq("compile", model.name, "-o", "out")
    assert "cycles       " in result.out and "(estimated)" in result.out and "CONV_2D" in result.out
    assert "total" in result.out.splitlines()[-1]


def test_compile_estimates_for_the_memory_that_is_asked_for(tq: Tq, model: Path) -> None:
    found = []
    for options in ([], ["--latency", "30", "--bytes-per-cycle", "8"], ["--latency", "31"], ["--bytes-per-cycle", "1"]):
        result = tq("compile", model.name, "--config", "tiny", *options, "--json", "-")
        assert (result.code, result.err) == (0, "")
        found.append(json.loads(result.out)["cycles"])
    assert found[0] == found[1] < found[2] < found[3]


def test_compiled_files_are_reproducible(tq: Tq, model: Path) -> None:
    for name in ("a", "b"):
        assert tq("compile", model.name, "-o", name).code == 0
    assert Path("a").read_bytes() == Path("b").read_bytes()


@pytest.mark.parametrize("engine", ["golden", "executor"])
def test_sim_of_drawn_inputs(tq: Tq, model: Path, engine: str) -> None:
    result = tq("sim", model.name, "--engine", engine, "--config", "tiny", "--seed", 5, "--outputs", "o.npz", "--json",
                "j.json")
    report = json.loads(Path("j.json").read_text())
    assert (result.code, result.err) == (0, "")
    assert {key: report[key] for key in ("model", "config", "engine", "cycles", "bit_exact")} == {
        "model": "small.tflite", "config": "tiny", "engine": engine, "cycles": None,
        "bit_exact": True if engine == "executor" else None}
    assert all(set(layer) == LAYER_KEYS for layer in report["layers"])
    inputs = draw_inputs(read_model(model), 1, 5)[0]
    with np.load("o.npz") as outputs:
        assert outputs.files == ["output_0"]
        assert np.array_equal(outputs["output_0"], expected(model, inputs))


def test_sim_of_several_sets_with_a_dump(tq: Tq, case: Path) -> None:
    result = tq("sim", case.name, "--engine", "executor", "--config", "tiny", "--inputs", "small.npz", "--outputs",
                "o.npz", "--dump", "t3", "--dump", "4")
    assert (result.code, result.err) == (0, "")
    with np.load("small.npz") as stored, np.load("o.npz") as outputs:
        assert outputs.files == ["output_0", "t3", "t4"]
        assert np.array_equal(outputs["output_0"], stored["expected_0"])
        assert np.array_equal(outputs["t4"], stored["expected_0"])
        kept = [golden.run(read_model(case), [one], keep=True).tensors[3] for one in stored["input_0"]]
        assert np.array_equal(outputs["t3"], np.stack(kept))


def test_sim_of_a_compiled_file(tq: Tq, case: Path) -> None:
    tq("compile", case.name, "--config", "tiny")
    result = tq("sim", "small.tqm", "--engine", "executor", "--inputs", "small.npz", "--outputs", "o.npz")
    assert (result.code, result.err) == (0, "")
    with np.load("small.npz") as stored, np.load("o.npz") as outputs:
        assert np.array_equal(outputs["output_0"], stored["expected_0"])


@pytest.mark.parametrize(("options", "message"), [
    (["--config", "n8"], "small.tqm: is compiled for configuration 'tiny' (fingerprint {tiny}), not for 'n8' ({n8}); "
     "compile it again or leave --config and --board out"),
    (["--engine", "golden"], "small.tqm: the golden model runs a .tflite model, not a compiled file"),
    ([], "small.tqm: a compiled file needs --inputs; random inputs are for a model only"),
    (["--dump", "t3", "--outputs", "o.npz"], "small.tqm: --dump needs the model, not a compiled file"),
    (["--resident"], "small.tqm: --resident needs the model, not a compiled file"),
])
def test_what_a_compiled_file_cannot_do(tq: Tq, model: Path, options: list[str], message: str) -> None:
    tq("compile", model.name, "--config", "tiny")
    result = tq("sim", "small.tqm", "--engine", "executor", *options)
    fingerprints = {name: f"{PRESETS[name].fingerprint:08x}" for name in ("tiny", "n8")}
    assert (result.code, result.err) == (2, f"tq-hw: {message.format(**fingerprints)}\n")


def test_damaged_compiled_file(tq: Tq, model: Path) -> None:
    tq("compile", model.name, "--config", "tiny")
    data = bytearray(Path("small.tqm").read_bytes())
    data[200] ^= 1
    Path("small.tqm").write_bytes(data)
    result = tq("sim", "small.tqm", "--engine", "executor")
    assert result.code == 2
    assert result.err.startswith("tq-hw: small.tqm: the file is damaged: its checksum is 0x")


def test_verify_against_golden_stored_and_oracle(tq: Tq, case: Path) -> None:
    assert tq("verify", case.name, "--engine", "executor", "--config", "tiny").out == (
        "passed      small: 2 input sets equal the stored expectations\n1 passed, 0 failed, 0 unsupported\n")
    assert tq("verify", case.name, "--engine", "golden", "--oracle", "tflm").out == (
        "passed      small: 2 input sets equal TFLite Micro\n1 passed, 0 failed, 0 unsupported\n")
    case.with_suffix(".npz").unlink()
    assert tq("verify", case.name, "--engine", "executor", "--sets", "1", "--config", "n8").out == (
        "passed      small: 1 input set equal the golden model\n1 passed, 0 failed, 0 unsupported\n")


def test_verify_a_folder(tq: Tq, case: Path) -> None:
    Path("folder/cases").mkdir(parents=True)
    for file in (case, case.with_suffix(".npz")):
        file.rename(Path("folder/cases") / file.name)
    Path("folder/cases/broken.tflite").write_bytes(b"no model")
    result = tq("verify", "folder", "--engine", "executor", "--json", "j.json")
    report = json.loads(Path("j.json").read_text())
    assert result.code == 2
    assert result.err == "tq-hw: 1 of 2 cases are not supported; first broken\n"
    assert {key: report[key] for key in ("passed", "failed", "unsupported")} == {
        "passed": 1, "failed": 0, "unsupported": 1}
    assert [set(entry) for entry in report["cases"]] == [{"name", "status", "cycles", "message"}] * 2
    assert [(entry["name"], entry["status"]) for entry in report["cases"]] == [
        ("broken", "unsupported"), ("small", "passed")]
    assert tq("verify", ".", "--engine", "executor").err == (
        "tq-hw: .: expected a folder of .tflite files, or one with a folder `cases` of them, found none\n")


def test_stored_expectation_that_is_wrong_is_a_failure(tq: Tq, case: Path) -> None:
    with np.load("small.npz") as stored:
        arrays = dict(stored)
    arrays["expected_0"][1, 0, 2, 1, 3] ^= 1
    np.savez("small.npz", **arrays)
    result = tq("verify", case.name, "--engine", "executor", "--config", "tiny", "--json", "j.json")
    right = int(arrays["expected_0"][1, 0, 2, 1, 3])
    message = (f"input set 1, output 0, element [0, 2, 1, 3] is {right ^ 1}, expected {right} (1 of 24 differ) by the "
               "stored expectations; the golden model agrees with the executor")
    assert (result.code, result.err) == (1, "tq-hw: 1 of 1 cases differ; first small\n")
    assert result.out == f"failed      small: {message}\n0 passed, 1 failed, 0 unsupported\n"
    quiet = tq("verify", case.name, "--engine", "executor", "--config", "tiny", "--json", "-")
    assert quiet.err == f"tq-hw: 1 of 1 cases differ; first small: {message}\n"
    assert json.loads(Path("j.json").read_text())["cases"][0]["message"] == message


def test_configs_and_ops(tq: Tq) -> None:
    configs = json.loads(tq("configs", "--json", "-").out)["configs"]
    assert [config["name"] for config in configs] == list(PRESETS)
    assert configs[0]["rows"] == 16 and configs[0]["macs"] == 256
    assert [line.split()[0] for line in tq("configs").out.splitlines()[2:]] == list(PRESETS)
    operators = json.loads(tq("ops", "--json", "-").out)["operators"]
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "SOFTMAX"} <= {row["op"] for row in operators}
    conv = next(row for row in operators if row["op"] == "CONV_2D")
    assert "Weights and bias must be constants of the model" in conv["limits"]
    assert "Give weights scales, and constant ones zero point 0." in conv["rules"]
    assert "CONV_2D" in tq("ops").out


def test_drawn_inputs_are_seeded_and_cover_the_range(model: Path) -> None:
    graph = read_model(model)
    two, three = draw_inputs(graph, 2, 9), draw_inputs(graph, 3, 9)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(two, three, strict=False))
    assert not np.array_equal(two[0][0], two[1][0])
    assert two[0][0].min() < -100 and two[0][0].max() > 100


def test_rtl_counts_cycles(tq: Tq, case: Path) -> None:
    result = tq("sim", case.name, "--config", "tiny", "--json", "-", "--outputs", "o.npz", "--inputs", "small.npz")
    report = json.loads(result.out)
    assert (result.code, result.err) == (0, "")
    assert report["engine"] == "rtl" and report["bit_exact"] is True and report["sets"] == 2
    assert report["cycles"] > report["macs"] / PRESETS["tiny"].macs
    assert report["utilization"] == round(report["macs"] / (report["cycles"] * PRESETS["tiny"].macs), 4)
    assert 0 < sum(layer["cycles"] for layer in report["layers"]) <= report["cycles"]
    with np.load("small.npz") as stored, np.load("o.npz") as outputs:
        assert np.array_equal(outputs["output_0"], stored["expected_0"])


def test_rtl_is_equal_under_stalls(tq: Tq, case: Path) -> None:
    plain = json.loads(tq("verify", case.name, "--config", "tiny", "--json", "-").out)["cases"][0]
    slow = json.loads(tq("verify", case.name, "--config", "tiny", "--json", "-", "--stalls", 1, "--latency", 90,
                         "--bytes-per-cycle", "1.5").out)["cases"][0]
    assert plain["status"] == slow["status"] == "passed"
    assert slow["cycles"] > plain["cycles"]


def test_resident_weights_are_not_loaded_again(tq: Tq, case: Path) -> None:
    report = json.loads(tq("sim", case.name, "--config", "tiny", "--json", "-", "--resident").out)
    again = report["resident"]
    assert report["bit_exact"] is True
    assert again["cycles"] < report["cycles"] and again["bytes"] < report["bytes"]
    assert again["utilization"] == round(report["macs"] / (again["cycles"] * PRESETS["tiny"].macs), 4)
    assert all(set(layer) == LAYER_KEYS for layer in again["layers"])
    text = tq("sim", case.name, "--config", "tiny", "--resident").out
    assert (f"resident     {again['cycles']:,} cycles with the weights left in the scratchpad, "
            f"{again['bytes']:,} of {report['bytes']:,} bytes moved\n") in text
    stalled = ("--stalls", "3", "--latency", "90")
    for options in ((), stalled, ("--engine", "executor")):
        found = json.loads(tq("verify", case.name, "--config", "tiny", "--json", "-", "--resident", *options).out)
        verdict, = found["cases"]
        assert verdict["status"] == "passed"
        assert ("resident_cycles" in verdict) == ("--engine" not in options)
    assert "with resident weights, 2 input sets equal" in tq("verify", case.name, "--config", "tiny", "--resident").out


def test_weights_that_were_lost_are_noticed(tq: Tq, case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "kept_loads", lambda stream, words: {
        id(operation) for operation in stream.operations if operation.unit is Unit.LOAD})
    for command in ("sim", "verify"):
        result = tq(command, case.name, "--config", "tiny", "--engine", "executor", "--resident")
        assert result.code == 4
        assert "the check of the compiled commands failed: RUN 0 of the array" in result.err
    monkeypatch.setattr(warm, "verify_warm", lambda *_: None)
    for command in ("sim", "verify"):
        result = tq(command, case.name, "--config", "tiny", "--engine", "executor", "--resident")
        assert result.code == 1
        said = result.err if command == "sim" else result.out
        assert "input set 0, with weights that stayed in the scratchpad, output 0" in said


def test_completion_of_a_shell(tmp_path: Path) -> None:
    environment = os.environ | {"_TQ_HW_COMPLETE": "bash_complete", "COMP_WORDS": "tq-hw comp", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-m", "tq_hw"], env=environment, cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    assert (done.stdout, done.stderr) == ("plain,compile\n", "")


def test_a_board_gives_configuration_memory_and_clock(tq: Tq, model: Path) -> None:
    board = BOARDS["ulx3s_85f"]
    report = json.loads(tq("compile", model.name, "--board", board.name, "--json", "-").out)
    assert (report["config"], report["clock_hz"]) == (board.config.name, board.clock_hz)
    fast = json.loads(tq("compile", model.name, "--board", board.name, "--bytes-per-cycle", "8", "--json", "-").out)
    assert fast["cycles"] < report["cycles"], "the board's memory is slower than that"
    other = json.loads(tq("compile", model.name, "--board", board.name, "--config", "n8", "--json", "-").out)
    assert (other["config"], other["clock_hz"]) == ("n8", board.clock_hz)
    assert tq("verify", model.name, "--board", board.name, "--engine", "executor", "--sets", "1").code == 0
    assert json.loads(tq("sim", model.name, "--board", board.name, "--engine", "executor", "--json", "-").out)[
        "config"] == board.config.name
    assert tq("sim", model.name, "--board", "ulx").err == (
        f"tq-hw: no board 'ulx': expected one of {', '.join(BOARDS)}\n")


def test_the_serial_design_is_no_faster_than_it_can_be(tq: Tq, model: Path) -> None:
    result = tq("compile", model.name, "--config", "serial")
    assert "(estimated for a parallel machine of this size)" in result.out
    report = json.loads(tq("compile", model.name, "--config", "serial", "--json", "-").out)
    assert report["design"] == "serial" and 0 < report["utilization"] <= 1
    assert min(report["lost"].values()) >= 0
    # All displayed cycles of the compiler are estimates for a parallel machine.
    page = tq("report", model.name, "--config", "serial", "--engine", "executor", "-o", "r.html", "--json", "-")
    shown = [json.loads(page.out), json.loads(tq(
        "compile", model.name, "--config", "serial", "--partition", "-o", "m.tflite", "--json", "-").out)]
    for each in shown:
        used = [each["utilization"], *(row["utilization"] or 0 for row in each["layers"])]
        assert 0 < max(used) <= 1
    assert min(shown[0]["lost"].values()) >= 0 and shown[1]["design"] == "serial"
    layers = tq_hw.load(model.name).compile("serial").layers
    assert max(row["utilization"] or 0 for row in layers) <= 1


def test_patterns_of_your_own_go_to_every_command(tq: Tq, model: Path) -> None:
    Path("none.py").write_text('from pathlib import Path\nfrom tq_hw.compiler.rewrite.rewrite import pattern\n\n'
                               '@pattern("CONV_2D")\ndef seen(graph, op):\n    Path("seen").write_text("x")\n'
                               "    return None\n")
    for command in (("compile",), ("sim", "--engine", "executor"), ("verify", "--engine", "executor", "--sets", "1"),
                    ("report", "--engine", "executor", "-o", "r.html")):
        Path("seen").unlink(missing_ok=True)
        name, *options = command
        result = tq(name, model.name, "--config", "tiny", "--patterns", "none.py", *options)
        assert (result.code, result.err) == (0, "")
        assert Path("seen").read_text()
    assert tq("sim", model.name, "--engine", "golden", "--patterns", "none.py").err == (
        "tq-hw: small.tflite: --patterns need a model to compile: a .tflite, with --engine rtl or executor\n")


def test_a_trace_has_real_times(tq: Tq, model: Path) -> None:
    assert tq("sim", model.name, "--config", "tiny", "--trace", "t.json", "--json", "s.json").code == 0
    trace, cycles = json.loads(Path("t.json").read_text()), json.loads(Path("s.json").read_text())["cycles"]
    layers = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["tid"] == 0]
    assert (trace["otherData"]["clock_hz"], trace["otherData"]["time_unit"]) == (100_000_000, "us")
    end = layers[-1]["args"]["end_cycle"]
    # The interrupt comes a few cycles after the memory's last response.
    assert 0 <= cycles - end < 20
    assert abs(layers[-1]["ts"] + layers[-1]["dur"] - end / 100) < 1e-6
