"""Mixed models give the results of the whole model in LiteRT, from memory and from a file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.sim.mixed.networks import NETWORKS, conv, draw, names, parts_of
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import MissingToolError, ModelError, OptionError, ToolError, UnsupportedError
from tq_hw.model.mixed import is_mixed
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.layers import sample
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.mixed import AcceleratedPart, HostPart, MixedEngine, common_config, split
from tq_hw.sim.mixed import host as host_module
from tq_hw.sim.oracles import Oracle


@pytest.fixture(scope="module")
def litert():
    with Oracle("litert-ref") as oracle:
        yield oracle


@pytest.mark.parametrize("name, expected", [
    ("middle", ["CUSTOM:tq-hw", "SOFTMAX", "CUSTOM:tq-hw"]),
    ("head", ["CUSTOM:tq-hw", "TOPK_V2"]),
    ("towers", ["CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "CUSTOM:tq-hw", "CUMSUM", "ADD", "ASSIGN_VARIABLE",
                "CUSTOM:tq-hw"]),
    ("windows", ["CUSTOM:tq-hw", "STABLEHLO_PAD", "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_GATHER", "STABLEHLO_SCATTER",
                 "CUSTOM:tq-hw"]),
])
def test_equals_the_whole_model(name, expected, litert):
    data = write_model(NETWORKS[name]())
    made, read = parts_of(data)
    assert sorted(names(made.model)) == sorted(expected)
    assert names(read) == names(made.model)
    assert is_mixed(read)
    sets = [draw(made.model, seed) for seed in range(3)]
    for wanted, one in zip(litert.run_sets(data, sets), sets, strict=True):
        for model in (made.model, read):
            found = MixedEngine(model, "executor", Memory()).infer(one)
            for array, other in zip(found.outputs, wanted, strict=True):
                assert array.dtype == other.dtype
                np.testing.assert_array_equal(array, other)


def test_a_detection_head_stays_with_the_host(litert):
    """Convolutions, boxes and scores, then TFLite_Detection_PostProcess with anchors, as TensorFlow converts it."""
    data = (Path(__file__).parent / "corpus" / "detection_head.tflite").read_bytes()
    made, read = parts_of(data)
    assert sorted(names(made.model)) == ["CUSTOM:TFLite_Detection_PostProcess", "CUSTOM:tq-hw"]
    sets = [[np.random.default_rng(seed).normal(0, 1, (1, 16, 16, 3)).astype(np.float32)] for seed in range(2)]
    for wanted, one in zip(litert.run_sets(data, sets), sets, strict=True):
        for model in (made.model, read):
            found = MixedEngine(model, "executor", Memory()).infer(one)
            assert [array.tobytes() for array in found.outputs] == [other.tobytes() for other in wanted]


def test_each_inference_starts_from_the_initial_state(litert):
    data = write_model(NETWORKS["towers"]())
    made, _ = parts_of(data)
    engine = MixedEngine(made.model, "executor", Memory())
    one = draw(made.model)
    first, second = engine.infer(one), engine.infer(one)
    np.testing.assert_array_equal(first.outputs[0], second.outputs[0])


def test_bytes_that_cross_between_parts():
    made, _ = parts_of(write_model(NETWORKS["head"]()))
    found = MixedEngine(made.model, "executor", Memory()).infer(draw(made.model))
    assert found.host_seconds is not None and found.host_seconds > 0
    assert found.crossing_bytes == 60 + 4 * 9  # the image, and the float32 result of the dense layer
    assert found.cycles is None
    assert made.macs == (20 * 2 * 27 + 9 * 40, 20 * 2 * 27 + 9 * 40)


def test_a_missing_package_is_one_message(monkeypatch):
    made, _ = parts_of(write_model(NETWORKS["head"]()))
    monkeypatch.setattr(host_module, "available", lambda engine: False)
    with pytest.raises(MissingToolError) as caught:
        MixedEngine(made.model, "executor", Memory())
    assert str(caught.value) == ("ai-edge-litert is not installed, which runs the operators that stay with the host; "
                                 'run: pip install "tq-hw[oracles]"')


def test_the_golden_model_does_not_run_it():
    made, _ = parts_of(write_model(NETWORKS["head"]()))
    with pytest.raises(OptionError) as caught:
        MixedEngine(made.model, "golden", Memory())
    assert str(caught.value) == ("m: the golden model does not run the operators that stay with the host; name "
                                 "--engine executor or rtl")


def edited(model, number, **changes):
    operators = list(model.main.operators)
    operators[number] = replace(operators[number], **changes)
    return replace(model, subgraphs=(replace(model.main, operators=tuple(operators)), *model.subgraphs[1:]))


def test_rejects_data_that_is_no_program():
    made, _ = parts_of(write_model(NETWORKS["head"]()))
    inputs = made.model.main.operators[0].inputs
    options = made.model.main.operators[0].custom_options
    for changes, message in (
            ({"custom_options": options[:40]}, "m: operator 0 tq-hw: a compiled file has at least 80 bytes, not 40"),
            ({"custom_options": options[:-1]}, f"m: operator 0 tq-hw: the file should have {len(options)} bytes, it "
             f"has {len(options) - 1}"),
            ({"inputs": (*inputs, *inputs)}, "m: operator 0 tq-hw: has 2 inputs, its program 1"),
            ({"inputs": made.model.main.outputs[:1]}, "m: operator 0 tq-hw: input 0 is float32[1, 5], that of its "
             "program int8[1, 5, 4, 3]")):
        with pytest.raises(ModelError) as caught:
            split(edited(made.model, 0, **changes))
        assert str(caught.value) == message


def test_rejects_options_that_are_lost():
    made, _ = parts_of(write_model(NETWORKS["head"]()))
    with pytest.raises(UnsupportedError) as caught:
        split(edited(made.model, 1, op="UNIQUE"))
    assert str(caught.value) == (f"m: operator {made.model.main.operators[1].index} (UNIQUE): stays with the host, but "
                                 "its options are not read, so it cannot be written for LiteRT")


def test_rejects_options_that_are_lost_in_a_subgraph():
    made, _ = parts_of(write_model(NETWORKS["windows"]()))
    body = made.model.subgraphs[2]
    lost = replace(body, operators=(replace(body.operators[0], op="STABLEHLO_REDUCE", options={}),))
    with pytest.raises(UnsupportedError) as caught:
        split(replace(made.model, subgraphs=(*made.model.subgraphs[:2], lost)))
    assert str(caught.value) == ("m: subgraph 2, operator 0 (STABLEHLO_REDUCE): stays with the host, but its "
                                 "options are not read, so it cannot be written for LiteRT")


def test_parts_in_order():
    made, _ = parts_of(write_model(NETWORKS["middle"]()))
    kinds = [type(part) for part in split(made.model)]
    assert kinds == [AcceleratedPart, HostPart, AcceleratedPart]
    assert [op.op for op, _ in made.refused] == ["SOFTMAX"]


def test_a_crash_of_litert_is_one_message():
    """A state that was lost with the process is an error; stateless parts continue."""
    made, _ = parts_of(write_model(NETWORKS["towers"]()))
    engine = MixedEngine(made.model, "executor", Memory())
    one = draw(made.model)
    first = engine.infer(one)
    stateful, = (host for host in engine.hosts if host.part.is_stateful)
    process = host_module._engines["litert-ref"]._process
    assert process is not None
    process.kill()
    process.wait()
    with pytest.raises(ToolError) as caught:
        stateful.run([np.zeros((1, 4, 4, 3), np.int8)])
    assert str(caught.value).endswith("their state was lost with LiteRT's process; begin again from the initial state")
    np.testing.assert_array_equal(engine.infer(one).outputs[0], first.outputs[0])


def test_kernels_that_the_reference_resolver_does_not_have():
    """In LiteRT's optimized kernels ELU of int8 is a table; the reference resolver has no ELU."""
    b = ModelBuilder("elu")
    model = b.model(b.add("ELU", [conv(b, b.input((1, 5, 4, 3), scale=0.1), 2)], scale=0.1))
    made, _ = parts_of(write_model(model))
    assert names(made.model) == ["CUSTOM:tq-hw", "ELU"]
    one = draw(made.model)
    with Oracle("litert-opt") as oracle:
        tensor, = made.model.main.operators[1].inputs
        engine = MixedEngine(made.model, "executor", Memory())
        found = engine.infer(one).outputs[0]
        head = replace(made.model, subgraphs=(replace(
            made.model.main, operators=made.model.main.operators[:1], outputs=(tensor,)),))
        between = MixedEngine(head, "executor", Memory()).infer(one).outputs[0]
        wanted = oracle.run(write_model(engine.hosts[0].part.model), [between])[0]
    np.testing.assert_array_equal(found, wanted)


def test_parts_have_the_same_configuration():
    programs = [AcceleratedPart(compile_model(sample("add", 0), load_config(name)).program, (0,), (1,))
                for name in ("tiny", "n8")]
    assert common_config(programs[:1], None, "--config") == load_config("tiny")
    assert common_config(programs[1:], load_config("n8"), "--config") == load_config("n8")
    for parts, wanted in ((programs, None), (programs[:1], load_config("n8"))):
        with pytest.raises(OptionError) as caught:
            common_config(parts, wanted, "--config")
        assert str(caught.value) == (
            "is compiled for configuration 'tiny', not for 'n8'; compile it again or leave --config out")
