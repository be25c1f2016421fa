import dataclasses
import struct
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tq_hw.model.dump import dump
from tq_hw.model.errors import ModelError, TqError, UnsupportedError
from tq_hw.model.graph import Model, Operator, Quantization, Subgraph, Tensor
from tq_hw.model.samples.build import ModelBuilder, build_model
from tq_hw.model.tflite.reader import parse_model, read_model
from tq_hw.model.tflite.writer import _Writer, write_model

INT8 = Quantization((0.5,), (3,))


def chain():
    """Two operators on one input; tensor 3 is the output."""
    builder = ModelBuilder("chain")
    image = builder.input((1, 4, 4, 2), scale=0.5, zero_point=3, name="in")
    pooled = builder.add("MAX_POOL_2D", [image], padding="SAME")
    shape = builder.constant([1, 32])
    return builder.model(builder.add("RESHAPE", [pooled, shape]))


def edit(model, subgraph=0, **changes):
    """Return the model with members of one subgraph replaced."""
    graphs = list(model.subgraphs)
    graphs[subgraph] = dataclasses.replace(graphs[subgraph], **changes)
    return Model(model.name, tuple(graphs))


def edit_tensor(model, index, **changes):
    tensors = list(model.main.tensors)
    tensors[index] = dataclasses.replace(tensors[index], **changes)
    return edit(model, tensors=tuple(tensors))


def edit_operator(model, index, **changes):
    operators = list(model.main.operators)
    operators[index] = dataclasses.replace(operators[index], **changes)
    return edit(model, operators=tuple(operators))


#: Type checkers do not see how it is iterated.
EVERY_CHECK: list[Any] = list(HealthCheck)


def message_of(model: Any, error: type[TqError] = ModelError) -> str:
    with pytest.raises(TqError) as caught:
        parse_model(write_model(model) if isinstance(model, Model) else model, "m.tflite")
    assert type(caught.value) is error
    return str(caught.value)


def test_reads_what_was_written():
    model = chain()
    found = parse_model(write_model(model), "chain.tflite")
    assert found.name == "chain"
    assert [vars(operator) for operator in found.main.operators] == [vars(each) for each in model.main.operators]
    assert (found.main.inputs, found.main.outputs) == ((0,), (3,))
    assert found.main.tensors[0].scale == 0.5
    assert found.main.tensors[0].zero_point == 3
    data = found.main.tensors[2].data
    assert data is not None
    assert data.tolist() == [1, 32]
    assert data.dtype == np.int32
    assert not data.flags.writeable


def test_reads_every_constant_type():
    builder = ModelBuilder()
    arrays = [np.arange(-2, 4).reshape(2, 3).astype(dtype) for dtype in (
        np.int8, np.int16, np.int32, np.int64, np.uint8, np.float32, np.float64, np.float16, np.complex64)]
    arrays += [np.array([True, False]), np.array(7, np.int32), np.zeros((0,), np.int32)]
    indices = [builder.constant(array) for array in arrays]
    builder.input((1,))
    found = parse_model(builder.build(*indices), "m.tflite")
    for array, index in zip(arrays, indices, strict=True):
        data = found.main.tensors[index].data
        assert data is not None
        assert data.dtype == array.dtype
        assert data.shape == array.shape
        assert (data == array).all()


def test_constants_are_views_of_the_file():
    builder = ModelBuilder()
    index = builder.constant(np.zeros(1000, np.int8))
    data = builder.build(index)
    array = parse_model(data, "m.tflite").main.tensors[index].data
    assert np.shares_memory(array, np.frombuffer(data, np.uint8))


def test_reads_custom_operators_by_name():
    tensors = [Tensor(0, "a", "int8", (1,), INT8), Tensor(1, "b", "int8", (1,), INT8)]
    data = build_model(tensors, [Operator(0, "CUSTOM:My\nOp", (0,), (1,))], [0], [1])
    assert parse_model(data, "m.tflite").main.operators[0].op == "CUSTOM:My\\nOp"


MARK = 0x0102030405060708


def with_contents_behind(contents, size_bytes):
    """Write a model whose only constant is stored after the FlatBuffer."""
    class Writer(_Writer):
        def _buffer(self, data):
            return self._table([(1, "Uint64", MARK), (2, "Uint64", size_bytes)])

    builder = ModelBuilder()
    builder.input((1,))
    data = Writer(builder.model(builder.constant(np.zeros(16, np.uint8)))).write()
    return data.replace(struct.pack("<Q", MARK), struct.pack("<Q", len(data))) + contents


def test_reads_contents_behind_the_flatbuffer():
    found = parse_model(with_contents_behind(bytes(range(16)), 16), "m.tflite")
    data = found.main.tensors[1].data
    assert data is not None and data.tolist() == list(range(16))


def test_rejects_contents_behind_the_file():
    data = with_contents_behind(bytes(range(15)), 16)
    assert message_of(data) == (
        f"m.tflite: buffer 1, offset: 16 bytes at offset {len(data) - 15} are out of range: the file has {len(data)} "
        f"bytes; it is truncated or corrupt")


def test_absent_options_have_the_defaults_of_the_schema():
    tensors = [Tensor(0, "a", "int8", (1, 2), INT8), Tensor(1, "b", "int8", (1, 2), INT8)]
    data = build_model(tensors, [Operator(0, "ADD", (0, 0), (1,))], [0], [1])
    assert parse_model(data, "m.tflite").main.operators[0].options == {
        "fused_activation_function": "NONE", "pot_scale_int16": True}


def test_a_bias_may_keep_the_dimension_of_the_weights():
    model = edit_tensor(chain(), 2, quantization=Quantization((0.5, 0.25), (0, 0), 3))
    found = parse_model(write_model(model), "m.tflite").main.tensors[2]
    assert found.quantization == Quantization((0.5, 0.25), (0, 0), 0)


def test_names_a_file_that_is_missing(tmp_path):
    path = tmp_path / "none.tflite"
    with pytest.raises(ModelError) as caught:
        read_model(path)
    assert str(caught.value) == f"{path}: cannot read the file: No such file or directory"


def test_names_a_directory(tmp_path):
    with pytest.raises(ModelError) as caught:
        read_model(tmp_path)
    assert str(caught.value) == f"{tmp_path}: expected a .tflite file, found a directory"


def test_says_what_a_directory_is(tmp_path):
    (tmp_path / "a.tflite").write_bytes(b"")
    with pytest.raises(ModelError, match=r": expected a \.tflite file, found a directory; it holds a\.tflite$"):
        read_model(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ModelError, match=r"found a directory: it looks like a TensorFlow SavedModel; convert it with "
                                         r"tf\.lite\.TFLiteConverter, quantized to int8$"):
        read_model(tmp_path)


@pytest.mark.parametrize(("name", "hint"), [
    ("net", "; did you mean net.tflite?"), ("Net.TFLite", "; did you mean net.tflite?"),
    ("nett.tflite", "; did you mean net.tflite?"), ("other.tflite", ""),
    ("no/net.tflite", "; the directory no does not exist"),
    ("https://example.org/net.tflite", "; it is a URL: download the file first")])
def test_says_which_file_may_be_meant(tmp_path, monkeypatch, name, hint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.tflite").write_bytes(b"")
    with pytest.raises(ModelError) as caught:
        read_model(name)
    said = name.replace("//", "/")
    assert str(caught.value) == f"{said}: cannot read the file: No such file or directory{hint}"


def test_names_an_empty_file(tmp_path):
    path = tmp_path / "a.tflite"
    path.write_bytes(b"")
    with pytest.raises(ModelError, match=r"^a\.tflite: the file is empty$"):
        read_model(path)


def test_rejects_impossible_paths():
    with pytest.raises(ModelError, match="cannot read the file"):
        read_model("a\0b")


def test_can_read_without_checking():
    model = edit_tensor(chain(), 1, quantization=None)
    assert "quantization" in message_of(model)
    assert parse_model(write_model(model), "m.tflite", check=False).main.tensors[1].quantization is None




def test_rejects_other_schema_versions():
    data = bytearray(write_model(chain()))
    root = struct.unpack_from("<I", data)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    at = root + struct.unpack_from("<H", data, vtable + 4)[0]
    data[at:at + 4] = struct.pack("<I", 99)
    assert message_of(bytes(data)) == "m.tflite: model: schema version is 99, expected 3"


def test_rejects_a_file_without_subgraphs():
    assert message_of(Model("m", ())) == "m.tflite: model: has no subgraph"


def test_rejects_newer_operators():
    assert message_of(edit_operator(chain(), 0, version=4), UnsupportedError) == (
        "m.tflite: operator code 0: MAX_POOL_2D has version 4, versions 1 to 3 are known; convert the model with an "
        "older converter")


@pytest.mark.parametrize("changes, message", [
    ({"shape": (1, -4, 4, 2)}, ", shape: dimension 1 is -4, expected 0 or more; convert the model with fixed shapes"),
    ({"shape": (1,) * 9}, ", shape: rank is 9, at most 8 dimensions are supported"),
    ({"shape": (2**31 - 1,) * 8}, ", shape: [" + ", ".join(["2147483647"] * 8) + "] of int8 is too large: its size is "
     f"{(2**31 - 1)**8} bytes, at most 2147483647 fit"),
    ({"quantization": Quantization((0.0,), (0,))},
     ", quantization: scale is 0, expected a finite normal float32 above 0"),
    ({"quantization": Quantization((-0.5,), (0,))},
     ", quantization: scale is -0.5, expected a finite normal float32 above 0"),
    ({"quantization": Quantization((float("inf"),), (0,))},
     ", quantization: scale is inf, expected a finite normal float32 above 0"),
    ({"quantization": Quantization((1.0,), (128,))},
     ", quantization: zero point is 128, expected -128 to 127 for int8"),
    ({"quantization": Quantization((1.0, 1.0), (0,))},
     ", quantization: 2 scales and 1 zero points, expected as many of both; an activation has one "
     "scale, per-axis scales are for constant weights"),
    ({"quantization": Quantization((1.0, 1.0), (0, 0), 4)},
     ", quantization: quantized_dimension is 4, expected 0 to 3 for shape [1, 4, 4, 2]"),
    ({"quantization": Quantization((1.0, 1.0), (0, 0), 1)},
     ", quantization: 2 scales along quantized_dimension 1, whose axis has 4 elements"),
    ({"data": np.zeros(31, np.int8)}, ": [1, 4, 4, 2] of int8 needs 32 bytes, buffer 1 has 31 bytes"),
    ({"data": np.zeros(32, np.int8), "is_variable": True}, ": is a variable, but has constant contents"),
])
def test_rejects_bad_tensors(changes, message):
    assert message_of(edit_tensor(chain(), 0, **changes)) == f"m.tflite: subgraph 0, tensor 0 'in'{message}"


def test_takes_the_first_bytes_of_a_longer_buffer():
    """As in LiteRT; in files with several signatures, an unread float32 tensor and an int64 one share a buffer."""
    longer = np.arange(40, dtype=np.int8)
    for dtype, shape, data in (("int8", (1, 4, 4, 2), longer[:32]), ("int16", (3, 2), longer[:12].view(np.int16)),
                               ("int4", (3,), longer[:3]), ("bool", (2,), np.array([False, True]))):
        model = edit_tensor(chain(), 2, data=longer)
        model = edit_tensor(model, 2, dtype=dtype, shape=shape)
        found = parse_model(write_model(model), "m.tflite", check=False).main.tensors[2].data
        np.testing.assert_array_equal(found, data.reshape(shape), strict=True)


def test_rejects_constants_of_strange_types():
    assert message_of(edit_tensor(chain(), 2, dtype="int2"), UnsupportedError) == (
        "m.tflite: subgraph 0, tensor 2 't2': constants of type int2 are not supported; convert the model with int8 "
        "weights")


def test_rejects_bools_other_than_0_and_1():
    model = edit_tensor(chain(), 2, dtype="bool", shape=(8,), data=np.full(8, 2, np.uint8))
    assert message_of(model) == "m.tflite: subgraph 0, tensor 2 't2': a bool in buffer 1 is neither 0 nor 1"


@pytest.mark.parametrize("changes, message", [
    ({"inputs": (-2,)}, "operator 0 MAX_POOL_2D, inputs: refers to tensor -2; the subgraph has 4 tensors"),
    ({"outputs": (77,)}, "operator 0 MAX_POOL_2D, outputs: refers to tensor 77; the subgraph has 4 tensors"),
    ({"outputs": (-1,)}, "operator 0 MAX_POOL_2D, outputs: refers to tensor -1; the subgraph has 4 tensors"),
    ({"intermediates": (4,)}, "operator 0 MAX_POOL_2D, intermediates: refers to tensor 4; the subgraph has 4 tensors"),
    ({"outputs": (3,)}, "operator 1 RESHAPE, output tensor 3: is produced twice, also by operator 0"),
    ({"inputs": (3,)}, "operator 0 MAX_POOL_2D: reads tensor 3 't3', which operator 1 produces later: operators are "
     "not in topological order"),
    ({"inputs": (1,)}, "operator 0 MAX_POOL_2D: reads tensor 1 't1', which operator 0 produces later: operators are "
     "not in topological order"),
    ({"outputs": (0,)}, "operator 0 MAX_POOL_2D: writes tensor 0 'in', which is an input of the subgraph"),
    ({"outputs": (2,)}, "operator 0 MAX_POOL_2D: writes tensor 2 't2', which is a constant"),
])
def test_rejects_bad_connections(changes, message):
    assert message_of(edit_operator(chain(), 0, **changes)) == f"m.tflite: subgraph 0, {message}"


@pytest.mark.parametrize("changes, message", [
    ({"outputs": ()}, " has no output"),
    ({"outputs": (-1,)}, ", outputs: refers to tensor -1; the subgraph has 4 tensors"),
    ({"inputs": (0, 0)}, ": lists a tensor twice among its inputs"),
    ({"inputs": (0, 2)}, ", tensor 2 't2': is an input of the subgraph, but has constant contents"),
    ({"inputs": ()}, ", operator 0 MAX_POOL_2D: reads tensor 0 'in', which nothing provides: it is not a "
     "constant, input or variable, and no operator produces it"),
    ({"operators": ()}, ": output tensor 3 't3' is never produced"),
])
def test_rejects_bad_subgraphs(changes, message):
    assert message_of(edit(chain(), **changes)) == f"m.tflite: subgraph 0{message}"


@pytest.mark.parametrize("callee, message", [
    (0, "subgraph 0 calls subgraph 0, which is or calls subgraph 0: recursion is not supported"),
    (5, "refers to subgraph 5; the file has 2 subgraphs"),
    (-1, "refers to subgraph -1; the file has 2 subgraphs"),
    (1, "subgraph 1 has inputs or outputs, expected none"),
])
def test_rejects_bad_calls(callee, message):
    model = chain()
    call = Operator(2, "CALL_ONCE", (), (), {"init_subgraph_index": callee})
    main = dataclasses.replace(model.main, operators=(*model.main.operators, call))
    assert message_of(Model("m", (main, model.main))) == (
        f"m.tflite: subgraph 0, operator 2 CALL_ONCE, init_subgraph_index: {message}")


def test_rejects_missing_and_foreign_options():
    data = write_model(chain())
    # One of the bytes with value 5 is the union's type code of Pool2DOptions.
    for code, message in ((0, "has no options, MAX_POOL_2D needs its Pool2DOptions"),
                          (1, "options are of type Conv2DOptions, expected Pool2DOptions"),
                          (200, "options are of type unknown (200), expected Pool2DOptions")):
        found = {text for text in (_refusal(data, at, code) for at in range(len(data)) if data[at] == 5) if text}
        assert f"m.tflite: subgraph 0, operator 0 MAX_POOL_2D: {message}" in found


def _refusal(data, at, value):
    try:
        parse_model(data[:at] + bytes([value]) + data[at + 1:], "m.tflite")
    except TqError as error:
        return str(error)
    return None


def test_a_subgraph_may_do_nothing_but_return_its_input():
    tensor = Tensor(0, "a", "int8", (2,), INT8)
    model = parse_model(write_model(Model("m", (Subgraph("", (tensor,), (), (0,), (0, 0)),))), "m.tflite")
    assert model.main.outputs == (0, 0)


def unfolding(subgraph_count, tensor_count):
    """Write a file whose subgraphs are all one table, and whose tensors are all one table."""
    data = bytearray(struct.pack("<I4s", 0, b"TFL3"))
    vtables = {}
    for name, entries in (("model", (10, 12, 4, 0, 8)), ("subgraph", (6, 8, 4)), ("tensor", (4, 4))):
        vtables[name] = len(data)
        data += struct.pack(f"<{len(entries)}H", *entries) + bytes(-2 * len(entries) % 4)

    def place(name, *values):
        at = len(data)
        data.extend(struct.pack(f"<i{len(values)}I", at - vtables[name], *values))
        return at

    def repeat(count, target_bytes):
        # Every element is an offset to the object after the vector.
        data.extend(struct.pack("<I", count))
        data.extend(b"".join(struct.pack("<I", target_bytes + 4 * (count - index)) for index in range(count)))

    data[:4] = struct.pack("<I", place("model", 3, 4))
    repeat(subgraph_count, 0)
    place("subgraph", 4)
    repeat(tensor_count, 0)
    place("tensor")
    return bytes(data)


def test_a_small_file_cannot_unfold_into_much_work():
    data = unfolding(115, 115)
    assert len(data) < 1024
    tracemalloc.start()
    begin = time.process_time()
    assert message_of(data).endswith("the same parts are referenced too often; the file is corrupt")
    assert time.process_time() - begin < 2
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
    assert message_of(unfolding(2, 3)) == "m.tflite: subgraph 0 has no output"


SMALL = write_model(chain())


@settings(max_examples=300, deadline=None, database=None, suppress_health_check=EVERY_CHECK)
@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=6),
       st.just(len(SMALL)) | st.integers(0, len(SMALL)))
def test_damaged_bytes_read_or_give_one_line(changes, length):
    data = bytearray(SMALL)
    for at, value in changes:
        data[at] = value
    try:
        dump(parse_model(bytes(data[:length]), "m.tflite"))
    except TqError as error:
        assert "\n" not in str(error)
        assert str(error).startswith("m.tflite: ")


def test_custom_options_are_kept():
    custom = Operator(0, "CUSTOM:mine", (0,), (1,), custom_options=b"\0\1\2")
    model = edit(chain(), operators=(custom, chain().main.operators[1]))
    assert parse_model(write_model(model), "m.tflite").main.operators[0].custom_options == b"\0\1\2"
