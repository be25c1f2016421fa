"""Bad arguments are one message on stderr, word for word, with exit code 2 and no output file."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tq_hw.cli.package import folder as folder_module
from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS, load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model

Tq = Callable[..., Any]
NAMES = ", ".join(PRESETS)


@pytest.mark.parametrize(("arguments", "message"), [
    (["compile", "nope.tflite"], "nope.tflite: cannot read the file: No such file or directory"),
    (["compile", "."], ".: expected a .tflite file, found a directory; it holds small.tflite"),
    (["compile", "smal.tflite"],
     "smal.tflite: cannot read the file: No such file or directory; did you mean small.tflite?"),
    (["compile", "small.tflite", "--config", "n17"],
     f"no configuration 'n17': expected one of {NAMES} or a file that ends in .toml"),
    (["compile", "small.tflite", "--config", "N16X8"],
     f"no configuration 'N16X8': expected one of {NAMES} or a file that ends in .toml; did you mean n16x8?"),
    (["compile", "small.tflite", "--config", "small.tflite"],
     f"no configuration 'small.tflite': expected one of {NAMES} or a file that ends in .toml; a file is there, and its "
     "name does not end so"),
    (["emulate", "--board", "icebreaker", "--port", "small.tflite"],
     "--port small.tflite: exists and is not a link of an earlier emulation; choose another name"),
    (["emulate", "--board", "icebreaker", "--port", "no/board"], "--port no/board: the directory no does not exist"),
    (["program", "--board", "ulx3s_85f"],
     "build/ulx3s_85f: is not a folder of `tq-hw build --board ulx3s_85f`: report.json cannot be read: No such file or "
     "directory; build it first, or name its folder with --dir"),
    (["compile", "small.tflite", "--board", "ULX3S_85F"],
     "no board 'ULX3S_85F': expected one of arty_a7, arty_a7_100, ecpix5_85f, icebreaker, icesugar_pro, "
     "tang_primer_20k, ulx3s_85f; did you mean ulx3s_85f?"),
    (["compile", "small.tflite", "--config", "nope.toml"],
     "nope.toml: cannot be read: No such file or directory"),
    (["compile", "small.tflite", "-o", "no/where"], "-o no/where: the directory no does not exist"),
    (["compile", "small.tflite", "-o", "."], "-o .: expected a file to write, found a directory"),
    (["compile", "small.tflite", "-o", "small.tflite"],
     "-o small.tflite: is an input of this command; choose another file"),
    (["compile", "small.tflite", "-o", "same", "--json", "same"],
     "--json same: is the file of -o too; choose another file"),
    (["compile", "small.tflite", "--patterns", "nope.py"], "nope.py is not a Python file; give one with patterns"),
    (["compile", "small.tflite", "--patterns", "a.py", "-o", "a.py"],
     "-o a.py: is an input of this command; choose another file"),
    (["compile", "small.tflite", "--frob"], "No such option '--frob'. Try 'tq-hw compile --help'."),
    (["compile", "small.tflite", "--json", "-o"],
     "Option '--json' requires an argument, found option '-o'. Try 'tq-hw compile --help'."),
    (["build", "--board", "ulx3s_85f", "-o", "--json"],
     "Option '-o' requires an argument, found option '--json'. Try 'tq-hw build --help'."),
    (["compile", "small.tflite", "--patterns", "a.py", "--patterns", "--wide"],
     "Option '--patterns' requires an argument, found option '--wide'. Try 'tq-hw compile --help'."),
    (["compile"], "Missing argument 'MODEL.tflite'. Try 'tq-hw compile --help'."),
    (["frob"], "No such command 'frob'. Try 'tq-hw --help'."),
    (["sim", "small.tflite", "--engine", "abacus"], "Invalid value for '--engine': 'abacus' is not one of 'rtl', "
     "'executor', 'golden'. Try 'tq-hw sim --help'."),
    (["sim", "small.tflite", "--latency", "0"],
     "Invalid value for '--latency': 0 is not in the range 1<=x<=1048575. Try 'tq-hw sim --help'."),
    (["sim", "small.tflite", "--engine", "golden", "--inputs", "nope.npz"],
     "nope.npz: cannot read the file: No such file or directory"),
    (["sim", "small.tflite", "--engine", "golden", "--inputs", "."], ".: expected an .npz file, found a directory"),
    (["sim", "small.tflite", "--engine", "golden", "--inputs", "small.tflite"],
     "small.tflite: expected an .npz archive as numpy.savez writes it, found another kind of file"),
    (["sim", "small.tflite", "--engine", "golden", "--waves", "w.fst"], "--waves needs --engine rtl, not golden"),
    (["sim", "small.tflite", "--waves", "w.txt"], "the name of a file of waves must end in .fst or .vcd, not 'w.txt'"),
    (["sim", "small.tflite", "--waves-from", "3"],
     "--waves-scope, --waves-from and --waves-to need --waves, the file that they apply to"),
    (["sim", "small.tflite", "--waves", "w.fst", "--waves-from", "3", "--waves-to", "2"],
     "the waves begin in cycle 3 and cannot end before, in cycle 2"),
    (["sim", "small.tflite", "--waves", "w.fst", "--array", "model"],
     "--waves shows the whole RTL: leave --array model out"),
    (["sim", "small.tflite", "--engine", "golden", "--array", "model"],
     "--array model needs --engine rtl, not golden"),
    (["sim", "small.tflite", "--waves", "w.fst", "--lanes", "model"],
     "--waves shows the whole RTL: leave --lanes model out"),
    (["sim", "small.tflite", "--engine", "golden", "--lanes", "model"],
     "--lanes model needs --engine rtl, not golden"),
    (["sim", "small.tflite", "--engine", "executor", "--trace", "t.json"], "--trace needs --engine rtl, not executor"),
    (["sim", "small.tflite", "--engine", "golden", "--resident"],
     "--resident needs --engine rtl or executor, not golden"),
    (["verify", "small.tflite", "--engine", "golden", "--oracle", "tflm", "--resident"],
     "--resident needs --engine rtl or executor, not golden"),
    (["sim", "--soc", "--board", "ulx3s_85f", "small.tflite", "--resident"],
     "--soc runs the firmware of a board: --resident does not go with it"),
    (["sim", "small.tflite", "--engine", "golden", "--dump", "t3"],
     "--dump needs --outputs, the file that the tensor goes to"),
    (["sim", "small.tflite", "--engine", "golden", "--dump", "x", "--outputs", "o.npz"],
     "--dump x: no operator of small computes a tensor of that name or index; available are, by index, 3 (t3), 4 (t4)"),
    (["sim", "small.tflite", "--outputs", "o.npz", "--engine", "golden", "--dump", "9" * 5000],
     f"--dump {'9' * 5000}: no operator of small computes a tensor of that name or index; available are, by index, 3 "
     "(t3), 4 (t4)"),
    (["sim", "small.tflite", "--engine", "golden", "--dump", "T_3", "--outputs", "o.npz"],
     "--dump T_3: no operator of small computes a tensor of that name or index; available are, by index, 3 (t3), 4 "
     "(t4)"),
    (["sim", "small.tflite", "--engine", "golden", "--dump", "t_3", "--outputs", "o.npz"],
     "--dump t_3: no operator of small computes a tensor of that name or index; available are, by index, 3 (t3), 4 "
     "(t4); did you mean 3 (t3)?"),
    (["sim", "small.tflite", "--engine", "golden", "--outputs", "-", "--json", "-"],
     "--json -: standard output already holds --outputs; choose a file"),
    (["sim", "small.tflite", "--engine", "golden", "--inputs", "in.npz", "--sets", "2"],
     "--sets is for random inputs, and --inputs gives some: leave one of them out"),
    (["run", "small.tflite", "--board", "ulx3s_85f", "--port", "none", "--inputs", "in.npz", "--seed", "2"],
     "--seed is for random inputs, and --inputs gives some: leave one of them out"),
    (["small.tflite"], "No such command 'small.tflite': a command comes first, as in `tq-hw sim small.tflite`. Try "
     "'tq-hw --help'."),
    (["explore", "small.tflite", "--board", "ulx3s_85f", "--store", "small.tflite"],
     "small.tflite: cannot keep results there: file is not a database; choose another --store"),
    (["generate", "-o", "/proc/npu"], "-o /proc/npu: cannot be written: No such file or directory"),
    (["verify", "nope.tflite"], "nope.tflite: expected a model or a folder of models, found no such file"),
    (["verify", "small.tflite", "--engine", "golden"], "small.tflite: --engine golden needs stored expectations or "
     "--oracle tflm|litert: an engine is never compared with itself"),
    (["verify", "small.tflite", "--engine", "golden", "--oracle", "golden"], "--engine golden cannot be compared with "
     "--oracle golden: an engine is never compared with itself; name --oracle tflm or litert"),
])
def test_message(tq: Tq, model: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    before = sorted(os.listdir(tmp_path))
    result = tq(*arguments)
    assert (result.code, result.err) == (2, f"tq-hw: {message}\n")
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(("arguments", "message"), [
    (["compile", ""], "argument 2 ('') is empty: expected a name or a value"),
    (["sim", "m", "--outputs="], "argument 3 ('--outputs=') is empty: expected a name or a value"),
])
def test_an_empty_argument(tq: Tq, arguments: list[str], message: str) -> None:
    result = tq(*arguments)
    assert (result.code, result.err) == (2, f"tq-hw: {message}\n")


def test_a_link_to_something_else_stays(tq: Tq, model: Path) -> None:
    Path("link").symlink_to(model.name)
    assert tq("emulate", "--board", "icebreaker", "--port", "link").err == (
        "tq-hw: --port link: exists and is not a link of an earlier emulation; choose another name\n")
    assert os.readlink("link") == model.name


def test_read_only_directory(tq: Tq, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locked").mkdir()
    # Root may write everywhere, so that the mode of a directory would show nothing.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")
    result = tq("compile", model.name, "-o", "locked/out")
    assert (result.code, result.err) == (2, "tq-hw: -o locked/out: cannot be written: permission denied\n")


def test_full_disk(tq: Tq, model: Path) -> None:
    result = tq("compile", model.name, "-o", "/dev/full")
    assert (result.code, result.err) == (2, "tq-hw: /dev/full: cannot be written: No space left on device\n")


def test_a_disk_that_is_full_when_a_core_is_written(tq: Tq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(work: Path, contents: object) -> None:
        # As `write` says it: without the name of a file.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(folder_module, "_contents", lambda core: ({}, {}))
    monkeypatch.setattr(folder_module, "_fill", full)
    result = tq("generate", "--config", "tiny", "-o", "npu")
    assert (result.code, result.err) == (2, "tq-hw: -o npu: cannot be written: No space left on device\n")
    assert os.listdir(tmp_path) == []


def cumsum() -> bytes:
    builder = ModelBuilder("cumsum")
    image = builder.input((1, 4), scale=0.5, name="image")
    relu = builder.add("RESHAPE", [image, builder.constant([4, 1])], shape=(4, 1))
    return builder.build(builder.add("CUMSUM", [relu, builder.constant(0)], shape=(4, 1)))


def test_unsupported_operator_is_named(tq: Tq, tmp_path: Path) -> None:
    (tmp_path / "cumsum.tflite").write_bytes(cumsum())
    result = tq("compile", "cumsum.tflite")
    assert result.code == 2
    assert result.err == ("tq-hw: cumsum.tflite: not supported: CUMSUM (operator 1); `tq-hw ops` lists the operators "
                          "that are; CUMSUM is supported for int32 and int64 along a constant axis, and for float32 "
                          "computed inside the model\n1 of 2 operators are not supported; `tq-hw ops` lists those that "
                          "are:\n  CUMSUM (operator 1): CUMSUM is supported for int32 and int64 along a constant axis, "
                          "and for float32 computed inside the model\n"
                          "with --partition 1 of 2 operators, none of which multiplies, would be on the accelerator, "
                          "the rest in LiteRT\n")


def test_all_unsupported_operators_are_named_with_their_counts() -> None:
    b = ModelBuilder("many")
    x = b.input((1, 4, 4, 2), scale=0.5)
    for op in ("ABS", "COMPLEX_ABS", "ABS", "UNIQUE", "COMPLEX_ABS"):
        x = b.add(op, [x], scale=0.5, shape=(1, 4, 4, 2))
    with pytest.raises(UnsupportedError, match=r"^not supported: COMPLEX_ABS \(2, the first is operator 1\), UNIQUE "
                                               r"\(operator 3\); `tq-hw ops` lists the operators that are$"):
        compile_model(parse_model(b.build(x), "many"), load_config("tiny"))


def test_verify_goes_on_after_inputs_without_a_result(tq: Tq) -> None:
    for name, op in (("a", "DIV"), ("b", "ADD")):
        b = ModelBuilder(name)
        x, y = (b.input((1, 4000), scale=0.05) for _ in range(2))
        Path(f"{name}.tflite").write_bytes(b.build(b.add(op, [x, y], scale=0.05)))
    result = tq("verify", "a.tflite", "b.tflite", "--config", "n8", "--engine", "executor", "--sets", "1")
    assert result.out.splitlines() == [
        "unsupported a: a.tflite: no result for these inputs: operator 0 (DIV): a divisor is 0, "
        "which the engines reject",
        "passed      b: 1 input set equal the golden model", "1 passed, 0 failed, 1 unsupported"]
    assert (result.code, result.err) == (2, "tq-hw: 1 of 2 cases are not supported; first a\n")
