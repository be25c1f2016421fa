"""The compiler's check of its own commands rejects streams with wrong results, and accepts all others."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from nested import CASES, Net
from old_hosts import old_hosts

from tq_hw.cli.main import run as main
from tq_hw.compiler import compile as compile_module
from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.ir.staged import Move
from tq_hw.compiler.ir.value import Pitch, Value
from tq_hw.compiler.lower.legalize import legalize
from tq_hw.compiler.plan import uses
from tq_hw.compiler.specialize.in_place import in_place
from tq_hw.compiler.verify import DataflowError, verify_makers, verify_places
from tq_hw.isa.config import load_config
from tq_hw.model.graph import Model
from tq_hw.model.tflite.reader import parse_model, read_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
import verify_share

REPORT = "; this is a bug in tq-hw, please report it with the model and the configuration"
REFUSED = "internal error: the check of the compiled commands failed: "
CORPUS = Path(__file__).parent / "corpus"


def _model(name: str, shape: tuple[int, int, int]) -> Model:
    net = Net(shape)
    return parse_model(net.b.build(*CASES[name](net)), name)


def test_parts_that_never_reach_their_host_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested concatenations of one pixel, as they were once compiled."""
    monkeypatch.setattr(uses, "find_hosts", old_hosts)
    with pytest.raises(DataflowError) as refused:
        compile_model(_model("nested", (1, 1, 16)), load_config("n16"))
    assert str(refused.value) == (
        f"{REFUSED}RUN 3 of the array unit for operator 5 (CONV_2D): input 0 at scratchpad word 1, byte 0, should be "
        "element [0, 0, 0, 0] of 't6', made by operator 1 (CONV_2D); it is nothing, never written" + REPORT)
    assert refused.value.exit_code == 4


@pytest.mark.parametrize("config", ["n16", "n8", "tiny"])
def test_the_network_that_once_came_out_wrong_is_refused(config: str, shared: Path,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    models = [read_model(shared / "zoo" / "rep2_one.tflite"), read_model(CORPUS / "nested_join_1x1.tflite")]
    for model in models:
        compile_model(model, load_config(config))
    monkeypatch.setattr(uses, "find_hosts", old_hosts)
    for model in models:
        with pytest.raises(DataflowError, match=r"RUN \d+ of the array unit for operator 5 \(CONV_2D\): input 0 at "
                           r"scratchpad word \d+, byte 0, should be element \[0, 0, 0, 0\] of '.*', made by operator "
                           r"[01] \(CONV_2D\); it is nothing, never written; this is a bug in tq-hw"):
            compile_model(model, load_config(config))


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_refused_is_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the earlier search for hosts, a stream is rejected or equals golden; rejected ones are really wrong."""
    monkeypatch.setattr(uses, "find_hosts", old_hosts)
    model = _model(name, (1, 1, 16))
    image = np.random.default_rng(1).integers(-128, 128, (1, 1, 1, 16)).astype(np.int8)
    wanted = run(model, [image]).outputs

    def equal() -> bool:
        found = execute(compile_model(model, load_config("n8")).program, [image], seed=1).outputs
        return all(map(np.array_equal, found, wanted))

    try:
        assert equal()
    except DataflowError:
        monkeypatch.setattr(compile_module, "verify", lambda emitter: None)
        assert not equal()


def test_places_that_are_not_the_copies_are_refused() -> None:
    """A part moved by a byte, and one beyond the end of its host."""
    before = legalize(_model("nested", (1, 1, 16)))
    after = in_place(before)
    verify_places(before, after)
    inside = next(layer.output for layer in after.layers if layer.output.pitch is not None)
    assert inside.pitch is not None
    where = inside.pitch
    object.__setattr__(inside, "pitch", Pitch(where.offset_bytes + 1, where.row_bytes, where.pixel_bytes))
    with pytest.raises(DataflowError) as refused:
        verify_places(before, after)
    assert str(refused.value).startswith(REFUSED)
    assert str(refused.value).endswith(REPORT)
    object.__setattr__(inside, "pitch", Pitch(1000, where.row_bytes, where.pixel_bytes))
    with pytest.raises(DataflowError, match=r"a tensor of shape \(1, 1, 1, 16\) at Pitch\(offset_bytes=1000, "):
        verify_places(before, after)


def test_what_nothing_makes_is_refused() -> None:
    """A result that only the caller reads, under another name; a layer before the one that makes its input."""
    source, made, other = (Value(name, at, (1, 1, 1, 4)) for at, name in enumerate(("x", "made", "other")))
    view = Value("view", 3, (1, 1, 4, 1), alias_of=made)
    layers = Move(0, "ABS", (source,), made, ()), Move(1, "NEG", (made,), other, ())
    whole = Graph(layers, (source,), (view, other))
    verify_makers(whole, whole)
    for graph, said in ((Graph((), (source,), (view,)), "the model's caller reads 'view'"),
                        (Graph(layers[::-1], (source,), (other,)), "operator 1 (NEG) reads 'made'")):
        with pytest.raises(DataflowError) as refused:
            verify_makers(whole, graph)
        assert str(refused.value) == f"{REFUSED}{said}, which nothing wrote before{REPORT}"


def test_a_read_that_crossed_a_write_is_refused() -> None:
    source, result = (Value(name, at, (1, 1, 1, 4)) for at, name in enumerate(("x", "y")))
    state = Value("state", 2, (1, 1, 1, 4), initial=np.zeros(4, np.int8))
    read = Move(0, "READ_VARIABLE", (state,), result, ())
    write = Move(1, "ASSIGN_VARIABLE", (source,), state, ())
    again = Move(2, "READ_VARIABLE", (state,), Value("z", 3, (1, 1, 1, 4)), ())
    before, after = (Graph(layers, (source,), (result,)) for layers in ((read, write, again), (write, read, again)))
    verify_makers(before, before)
    with pytest.raises(DataflowError) as refused:
        verify_makers(before, after)
    assert str(refused.value) == (
        f"{REFUSED}operator 0 (READ_VARIABLE) reads 'state' after 1 of its writes, unlike in the graph before{REPORT}")


def test_views_of_a_state_are_refused() -> None:
    state = Value("state", 0, (1, 1, 1, 4), initial=np.zeros(4, np.int8))
    view = Value("view", 1, (1, 1, 2, 2), alias_of=state)
    result = Value("y", 2, (1, 1, 2, 2))
    for layers, output, reader in (((Move(0, "SLICE", (view,), result, ()),), result, "operator 0 (SLICE)"),
                                   ((Move(1, "ASSIGN_VARIABLE", (result,), state, ()),), view, "the model's caller")):
        graph = Graph(layers, (result,), (output,))
        with pytest.raises(DataflowError, match=re.escape(f"{reader} reads 'view', a state that only its owner")):
            verify_makers(graph, graph)


def test_command_line_refuses_with_one_message_and_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                          capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(uses, "find_hosts", old_hosts)
    path, out = CORPUS / "nested_join_1x1.tflite", tmp_path / "out.tqm"
    assert main(["compile", str(path), "-o", str(out)]) == 4
    assert list(tmp_path.iterdir()) == []
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"tq-hw: {path}: {REFUSED}RUN 3 of the array unit for operator 5 (CONV_2D): ")
    assert printed.err.endswith(f"{REPORT}\n")
    assert printed.err.count("\n") == 1


def test_share_of_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    whole, check = verify_share.share(read_model(CORPUS / "nested_join_1x1.tflite"), load_config("n8"))
    assert 0 < check < whole
    assert verify_share.main(["none.tflite", "--config", "none"]) == 2
    assert capsys.readouterr().err.startswith("verify_share: no configuration 'none'")
