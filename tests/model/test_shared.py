"""The conformance cases, public models and malformed files next to the repository."""

import json
import re
from pathlib import Path

import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.dump import dump
from tq_hw.model.errors import TqError
from tq_hw.model.tflite.reader import parse_model, read_model
from tq_hw.model.tflite.writer import write_model


def same(one, two):
    """Compare two tensors, frozen records that hold arrays."""
    if (one.data is None) != (two.data is None) or (one.data is not None and (one.data != two.data).any()):
        return False
    names = ("index", "name", "dtype", "shape", "quantization", "is_variable", "shape_signature")
    return all(getattr(one, name) == getattr(two, name) for name in names)


def test_every_case_and_model_is_read_and_survives_a_round_trip(shared: Path):
    files = [path for folder in ("cases/cases", "cases/nets", "models")
             for path in sorted((shared / folder).glob("*.tflite"))]
    assert files
    for path in files:
        model = read_model(path)
        assert dump(model).count("\n") > len(model.main.operators)
        assert len(parse_model(write_model(model), path.name).main.operators) == len(model.main.operators)
        # The checks set open dimensions and fold arithmetic on shapes; without them everything is as in the file.
        stored = read_model(path, check=False)
        again = parse_model(write_model(stored), path.name, check=False)
        for first, second in zip(stored.subgraphs, again.subgraphs, strict=True):
            assert (first.inputs, first.outputs) == (second.inputs, second.outputs)
            assert [vars(each) for each in first.operators] == [vars(each) for each in second.operators], path
            assert all(map(same, first.tensors, second.tensors)), path


def test_every_malformed_file_gets_its_verdict(shared: Path):
    malformed = shared / "cases" / "malformed"
    entries = json.loads((malformed / "index.json").read_text())["files"]
    assert entries
    for entry in entries:
        verdict, message = "accept", ""
        try:
            model = read_model(malformed / entry["file"])
            if entry["verdict"] == "reject":  # whole float32 models can be read
                compile_model(model, load_config("n8"))
        except TqError as error:
            verdict, message = "reject", str(error)
            assert error.exit_code == 2, entry["file"]
            assert "\n" not in message, entry["file"]
        assert entry["verdict"] in (verdict, "either"), entry["file"]
        if expected := verdict == "reject" and entry["message_should_mention_one_of"]:
            assert any(re.search(pattern, message, re.IGNORECASE) for pattern in expected), (entry["file"], message)


def test_every_model_agrees_with_the_generated_accessors(shared: Path):
    """Compare tensors and operators with the accessors that the FlatBuffers compiler generated."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="the oracles are not installed")
    for path in sorted((shared / "models").glob("*.tflite")):
        root = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes(), 0))
        model = read_model(path, check=False)
        for graph, expected in zip(model.subgraphs, root.subgraphs, strict=True):
            assert graph.inputs == tuple(expected.inputs if expected.inputs is not None else ())
            for tensor, each in zip(graph.tensors, expected.tensors, strict=True):
                assert tensor.name == (each.name or b"").decode()
                assert tensor.shape == tuple(each.shape if each.shape is not None else ())
                if tensor.quantization is not None:
                    assert tensor.quantization.scale == tuple(map(float, each.quantization.scale))
                    assert tensor.quantization.zero_point == tuple(map(int, each.quantization.zeroPoint))
                contents = root.buffers[each.buffer].data
                assert (tensor.data is None) == (contents is None or len(contents) == 0)
                if tensor.data is not None:
                    assert contents is not None and tensor.data.tobytes() == bytes(contents)
            for operator, each in zip(graph.operators, expected.operators, strict=True):
                assert operator.inputs == tuple(each.inputs if each.inputs is not None else ())
                for name, value in operator.options.items():
                    attribute = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
                    found = getattr(each.builtinOptions, attribute, value)
                    if isinstance(value, int | float) and not isinstance(found, bytes):
                        assert value == found, (path, operator.index, name)
