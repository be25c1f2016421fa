"""`--partition`: output, files and refusals of the commands."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sim.mixed.networks import NETWORKS, draw, float_middle, topk_head
from tq_hw import Interpreter
from tq_hw.cli import mixed
from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.model.errors import ToolError
from tq_hw.model.graph import Signature
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import read_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.oracles import run_litert

Tq = Callable[..., Any]
TINY = ("--config", "tiny", "--engine", "executor")


@pytest.fixture
def head(tmp_path: Path) -> str:
    (tmp_path / "head.tflite").write_bytes(write_model(topk_head()))
    return "head.tflite"


def test_compile_writes_a_model(tq: Tq, head: str) -> None:
    result = tq("compile", "--partition", head, "--config", "tiny", "--json", "r.json")
    assert (result.code, result.err) == (0, "")
    assert "host         1 operator; 1 accelerated part" in result.out
    report = json.loads(Path("r.json").read_text())
    assert report["output"] == "head_tq.tflite"
    assert report["output_bytes"] == Path("head_tq.tflite").stat().st_size
    assert report["host"] == {"operators": 1}
    assert [part["inputs"] for part in report["parts"]] == [["image"]]
    assert [(row["op"], row["unit"]) for row in report["layers"]] == [
        ("CONV_2D", "array"), ("FULLY_CONNECTED", "array"), ("TOPK_V2", "host")]
    model = read_model("head_tq.tflite", check=False)
    assert [op.op for op in model.main.operators] == ["CUSTOM:tq-hw", "TOPK_V2"]


def test_a_written_model_runs(tq: Tq, head: str) -> None:
    inputs = draw(topk_head())
    np.savez("in.npz", image=inputs[0])
    assert tq("compile", "--partition", head, "--config", "tiny", "-o", "out.tflite").code == 0
    result = tq("sim", "out.tflite", "--engine", "executor", "--inputs", "in.npz", "--outputs", "out.npz", "--json",
                "r.json")
    assert (result.code, result.err) == (0, "")
    assert "96 bytes between host and accelerator" in result.out
    report = json.loads(Path("r.json").read_text())
    assert (report["bit_exact"], report["crossing_bytes"], report["host"]["operators"]) == (None, 96, 1)
    assert report["host"]["seconds"] > 0
    with np.load("out.npz") as outputs:
        for position, array in enumerate(run_litert(head, inputs)):
            np.testing.assert_array_equal(outputs[f"output_{position}"], array)


def test_a_whole_model_may_be_one_operator(tq: Tq, tmp_path: Path) -> None:
    b = ModelBuilder("whole")
    (tmp_path / "whole.tflite").write_bytes(b.build(b.add("LOGISTIC", [b.input((1, 8), scale=0.1)])))
    assert tq("compile", "whole.tflite", "--config", "tiny", "-o", "out.tflite").code == 0
    assert [op.op for op in read_model("out.tflite", check=False).main.operators] == ["CUSTOM:tq-hw"]
    result = tq("sim", "out.tflite", "--engine", "executor")
    assert (result.code, result.err) == (0, "")
    assert "host         0 operators, 0.00 ms in LiteRT; 1 accelerated part" in result.out


@pytest.mark.parametrize("outputs", ["yx", "yy", "xyxy"])
def test_outputs_that_are_inputs_or_given_twice(tq: Tq, tmp_path: Path, outputs: str) -> None:
    """An operator outputs each tensor once, and none that is an input of the model."""
    b = ModelBuilder("odd")
    x = b.input((1, 8), scale=0.1)
    y = b.add("LOGISTIC", [x])
    model = b.model(*[{"x": x, "y": y}[name] for name in outputs])
    signature = Signature("s", 0, {"in": x}, {"last": model.main.outputs[-1]})
    (tmp_path / "odd.tflite").write_bytes(write_model(replace(model, signatures=(signature,))))
    assert tq("compile", "odd.tflite", "--config", "tiny", "-o", "out.tflite").code == 0
    (given,), = draw_inputs(model, 1, 3)
    np.savez("in.npz", input_0=given)
    result = tq("sim", "out.tflite", "--engine", "executor", "--inputs", "in.npz", "--outputs", "out.npz")
    assert (result.code, result.err) == (0, "")
    wanted = run_litert("odd.tflite", [given])
    with np.load("out.npz") as found:
        for position, array in enumerate(wanted):
            np.testing.assert_array_equal(found[f"output_{position}"], array)
    interpreter = Interpreter("out.tflite")
    interpreter.allocate_tensors()
    np.testing.assert_array_equal(interpreter.get_signature_runner("s")(**{"in": given})["last"], wanted[-1])


def test_verify_holds_it_against_the_whole_model(tq: Tq, tmp_path: Path) -> None:
    for name, network in NETWORKS.items():
        (tmp_path / f"{name}.tflite").write_bytes(write_model(network()))
    result = tq("verify", "--partition", ".", *TINY)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "passed      head: 3 input sets equal LiteRT's reference kernels, 1 accelerated part, 1 operator on the host",
        "passed      middle: 3 input sets equal LiteRT's reference kernels, 2 accelerated parts, 1 operator on the "
        "host",
        "passed      towers: 3 input sets equal LiteRT's reference kernels, 2 accelerated parts, 6 operators on the "
        "host",
        "passed      windows: 3 input sets equal LiteRT's reference kernels, 2 accelerated parts, 4 operators on the "
        "host", "4 passed, 0 failed, 0 unsupported"]


def test_sim_on_the_rtl(tq: Tq, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(write_model(float_middle()))
    result = tq("sim", "--partition", "m.tflite", "--config", "tiny", "--json", "-")
    assert (result.code, result.err) == (0, "")
    report = json.loads(result.out)
    assert report["bit_exact"] is True
    cycles = {row["op"]: row["cycles"] for row in report["layers"] if row["unit"] == "host"}
    assert cycles == {"SOFTMAX": None}
    assert 0 < sum(row["cycles"] or 0 for row in report["layers"]) <= report["cycles"]


def test_times_are_at_the_clock_of_the_board(tq: Tq, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(write_model(float_middle()))
    result = tq("sim", "--partition", "m.tflite", "--board", "icesugar_pro", "--engine", "executor", "--json", "-")
    assert (result.code, json.loads(result.out)["clock_hz"]) == (0, 37_500_000), result.err


def test_report(tq: Tq, tmp_path: Path) -> None:
    pytest.importorskip("bokeh")
    (tmp_path / "m.tflite").write_bytes(write_model(float_middle()))
    result = tq("report", "--partition", "m.tflite", "-o", "r.html", *TINY)
    assert (result.code, result.err) == (0, "")
    page = Path("r.html").read_text()
    for heading in ("Part 1: Timeline", "Part 2: Scratchpad over time", "bytes between host and accelerator"):
        assert heading in page


def test_a_report_of_what_litert_does_not_run_whole(tq: Tq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("bokeh")

    def refused(*_: object) -> None:
        raise ToolError("litert-ref refused the model: Didn't find op")
    monkeypatch.setattr(mixed, "whole_model", refused)
    (tmp_path / "m.tflite").write_bytes(write_model(float_middle()))
    result = tq("report", "--partition", "m.tflite", "--engine", "executor", "-o", "r.html", "--json", "r.json", *TINY)
    assert (result.code, result.err) == (
        0, "tq-hw: m.tflite: not compared with the whole model: litert-ref refused the model: Didn't find op\n")
    assert json.loads(Path("r.json").read_text())["bit_exact"] is None and Path("r.html").exists()


def test_an_operator_without_inputs_is_named(tq: Tq, tmp_path: Path) -> None:
    """The reader's message comes first, although a partition would be added to the refusal."""
    b = ModelBuilder("bare")
    model = b.model(b.add("QUANTIZE", [b.input((1, 4))]))
    bare = replace(model.main, operators=(replace(model.main.operators[0], inputs=()),))
    (tmp_path / "bare.tflite").write_bytes(write_model(replace(model, subgraphs=(bare,))))
    for options in ((), ("--partition",)):
        result = tq("compile", "bare.tflite", *options, "--config", "tiny")
        assert result.code == 2 and "operator 0" in result.err and "internal error" not in result.err


@pytest.mark.parametrize("arguments, message", [
    (("compile", "--partition", "head.tflite", "-o", "x.tqm"), "-o x.tqm: a model with operators on the host is "
     "a .tflite file; name one"),
    (("compile", "--partition", "head.tflite", "--profile", "tflm"), "--profile tflm: LiteRT computes the operators on "
     "the host, and the accelerated ones follow it: leave --profile out, or name litert"),
    (("compile", "--partition", "head.tflite", "--dump-after", "plan"), "--dump-after does not work with a model that "
     "leaves operators to the host"),
    (("verify", "--partition", "head.tflite", "--oracle", "tflm"), "--oracle tflm does not work with a model that "
     "leaves operators to the host"),
    (("sim", "--partition", "head.tflite", "--engine", "golden"), "head: the golden model does not run the operators "
     "that stay with the host; name --engine executor or rtl"),
    (("verify", "tq.tflite"), "tq.tflite: expected a whole model, found one with accelerated parts; `tq-hw sim` runs "
     "it"),
    (("compile", "--partition", "tq.tflite"), "tq.tflite: has accelerated parts already; `tq-hw sim` runs it"),
    (("compile", "tq.tflite"), "tq.tflite: has accelerated parts already; `tq-hw sim` runs it"),
    (("compile", "tq.tflite", "--fit", "ulx3s_85f"), "tq.tflite: has accelerated parts already; `tq-hw sim` runs it"),
    (("build", "--board", "ulx3s_85f", "--model", "tq.tflite"), "tq.tflite: has accelerated parts already; `tq-hw sim` "
     "runs it"),
    (("explore", "tq.tflite", "--board", "ulx3s_85f"), "tq.tflite: has accelerated parts already; `tq-hw sim` runs it"),
    (("sim", "tq.tflite", "--config", "n8"), "tq.tflite: is compiled for configuration 'tiny', not for 'n8'; compile "
     "it again or leave --config out"),
    (("sim", "tq.tflite", "--batch", "2"), "tq.tflite: the shapes of a file with accelerated parts are fixed; give "
     "--batch, --shape and --signature to `tq-hw compile`"),
])
def test_refusals(tq: Tq, head: str, arguments: tuple[str, ...], message: str) -> None:
    if "tq.tflite" in arguments:
        assert tq("compile", "--partition", head, "--config", "tiny", "-o", "tq.tflite").code == 0
    result = tq(*arguments)
    assert (result.code, result.err) == (2, f"tq-hw: {message}\n")


def test_a_model_of_the_host_alone(tq: Tq, tmp_path: Path) -> None:
    b = ModelBuilder("soft")
    (tmp_path / "soft.tflite").write_bytes(
        b.build(b.add("SOFTMAX", [b.input((1, 4), dtype="float32")], dtype="float32")))
    result = tq("compile", "--partition", "soft.tflite")
    assert (result.code, result.err) == (
        2, "tq-hw: soft.tflite: soft: the accelerator supports no operator of the model: operator 0 (SOFTMAX): it is "
        "in float32; quantize the model to int8\n")


NAME = "LOCAL_RESPONSE_NORMALIZATION"
#: How the message begins and ends; between them it lists the operators that are computed in float32.
REFUSED = (f"tq-hw: middle.tflite: operator 2 ({NAME}): input 0, tensor 4 ('t4'), is float32 computed inside the model "
           f"(operator 2 ({NAME}) of float32 is not computed); supported are float32 operators that together are a ",
           "from DEQUANTIZE to QUANTIZE or to an output; `tq-hw compile --partition` leaves others to LiteRT on the "
           "host")


@pytest.mark.parametrize("command", [("compile",), ("sim", "--engine", "executor"), ("report", "-o", "r.html")])
def test_a_refusal_says_what_a_partition_gives(tq: Tq, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "middle.tflite").write_bytes(write_model(float_middle(NAME)))
    name, *options = command
    result = tq(name, "middle.tflite", *options)
    first, *lines = result.err.splitlines()
    assert result.code == 2
    assert first.startswith(REFUSED[0]) and first.endswith(REFUSED[1])
    assert lines == [
        "1 of 7 operators are not supported; `tq-hw ops` lists those that are:",
        f"  {NAME} (operator 2): the accelerator does not support this operator",
        "with --partition 11,880 of 11,880 MACs (100.0%) would be on the accelerator, the rest in LiteRT"]


def test_a_refusal_counts_operators_of_one_kind(tq: Tq, tmp_path: Path) -> None:
    b = ModelBuilder("many")
    image = b.add("LOGISTIC", [b.input((1, 8), scale=0.1)])
    for _ in range(3):
        image = b.add("CUSTOM:mine", [image], shape=(1, 8))
    (tmp_path / "many.tflite").write_bytes(b.build(image))
    result = tq("compile", "many.tflite")
    assert result.err.splitlines()[1:] == [
        "3 of 4 operators are not supported; `tq-hw ops` lists those that are:",
        "  CUSTOM:mine (3, the first is operator 1): the accelerator does not support this operator",
        "with --partition 1 of 4 operators, none of which multiplies, would be on the accelerator, the rest in LiteRT"]


def test_a_refusal_says_that_an_operator_mixes_types(tq: Tq, tmp_path: Path) -> None:
    """A square of int16 followed by float32, as the converter leaves it; LiteRT refuses it, too."""
    b = ModelBuilder("mixed")
    x = b.add("RELU", [b.input((1, 8), "int16", scale=0.1)])
    square = b.tensor((1, 8), "float32")
    b.operator("SQUARE", [x], [square])
    (tmp_path / "mixed.tflite").write_bytes(b.build(square))
    result = tq("compile", "mixed.tflite")
    why = "SQUARE is supported for float32 inside a model, here it is from int16 to float32"
    assert result.err.splitlines()[:3] == [
        "tq-hw: mixed.tflite: not supported: SQUARE (operator 1); `tq-hw ops` lists the operators that are; " + why,
        "1 of 2 operators are not supported; `tq-hw ops` lists those that are:", f"  SQUARE (operator 1): {why}"]


def test_a_refusal_promises_no_partition_that_is_refused(tq: Tq, tmp_path: Path) -> None:
    b = ModelBuilder("sum")
    x = b.add("ABS", [b.input((1, 8), "int16", scale=0.1)])
    (tmp_path / "sum.tflite").write_bytes(b.build(b.add("SUM", [x, b.constant([1])], scale=0.2)))
    why = ("Do not sum int16: the kernel reads bytes; found int16 for tensor 1, 't1'. LiteRT's result is "
           "undefined")
    result = tq("compile", "sum.tflite", "--profile", "litert")
    assert result.err.splitlines() == [
        f"tq-hw: sum.tflite: operator 1 (SUM): under --profile litert: {why}; --profile canon runs it",
        "1 of 2 operators are not supported; `tq-hw ops` lists those that are:",
        f"  SUM (operator 1): under --profile litert: {why}",
        f"with --partition it is refused, too: operator 1 (SUM): on the host, in LiteRT: {why}"]


def test_a_broken_file_is_only_that(tq: Tq, head: str) -> None:
    Path(head).write_bytes(Path(head).read_bytes()[:300])
    assert len(tq("compile", head).err.splitlines()) == 1


def test_compile_refuses_options_that_are_lost(tq: Tq, tmp_path: Path) -> None:
    """LiteRT cannot read a file whose operators lost theirs."""
    b = ModelBuilder("lost")
    found = b.add_many("UNIQUE", [b.add("RELU", [b.input((1, 9), scale=0.1)])], 2, shapes=[(9,), (9,)])
    (tmp_path / "lost.tflite").write_bytes(write_model(b.model(*found)))
    result = tq("compile", "--partition", "lost.tflite", "--config", "tiny")
    assert result.code == 2
    assert result.err == ("tq-hw: lost: operator 1 (UNIQUE): stays with the host, but its options are not read, so it "
                          "cannot be written for LiteRT\n")
    assert not Path("lost_tq.tflite").exists()
