import struct

import flatbuffers
import pytest

from tq_hw.model.errors import ModelError
from tq_hw.model.tflite.flatbuffer import FlatBuffer


def file_of(*fields, identifier=b"TEST"):
    """Write one table; a field is (slot, scalar type, value), bytes (a vector) or str."""
    builder = flatbuffers.Builder(0)
    values = []
    for slot, kind, value in fields:
        if kind == "str":
            values.append((slot, "UOffsetTRelative", builder.CreateString(value)))
        elif kind == "bytes":
            values.append((slot, "UOffsetTRelative", builder.CreateByteVector(value)))
        else:
            values.append((slot, kind, value))
    builder.StartObject(max((slot for slot, _, _ in values), default=0) + 1)
    for slot, kind, value in values:
        getattr(builder, f"Prepend{kind}")(value)
        builder.Slot(slot)
    builder.Finish(builder.EndObject(), file_identifier=identifier)
    return bytes(builder.Output())


def root_of(data):
    return FlatBuffer(data, "a.bin").root(b"TEST", "root")


def message_of(function, *args):
    with pytest.raises(ModelError) as caught:
        function(*args)
    return str(caught.value)


def test_reads_scalars_of_every_kind():
    table = root_of(file_of((0, "Int8", -3), (1, "Uint32", 2**32 - 1), (2, "Float32", 0.5), (3, "Bool", True),
                            (4, "Int64", -2**40)))
    assert table.integer(0, "a", "int8") == -3
    assert table.integer(1, "b", "uint32") == 2**32 - 1
    assert table.float32(2, "c") == 0.5
    assert table.boolean(3, "d") is True
    assert table.integer(4, "e", "int64") == -2**40


def test_absent_fields_have_the_default():
    table = root_of(file_of((1, "Int32", 1)))
    assert table.integer(0, "a", default=7) == 7
    assert table.integer(99, "a", default=7) == 7
    assert table.float32(0, "a", 1.5) == 1.5
    assert table.boolean(0, "a", True) is True
    assert table.string(0, "a") == ""
    assert table.integers(0, "a") == table.floats(0, "a") == ()
    assert table.vector(0, "a", "uint8") is table.table(0, "a") is table.tables(0, "a") is None
    assert not table.has(0)
    assert table.has(1)


def test_reads_strings_and_vectors():
    table = root_of(file_of((0, "str", "größe"), (1, "bytes", b"\x01\x02\xff"), (2, "bytes", b"\xff\xfeA")))
    assert table.string(0, "a") == "größe"
    assert table.integers(1, "b", "int8") == (1, 2, -1)
    assert table.string(2, "c") == "\\xff\\xfeA"
    view = table.vector(1, "b", "uint8")
    assert view is not None and view.base is not None
    assert not view.flags.writeable


def test_names_an_empty_file():
    assert message_of(root_of, b"") == "a.bin: the file is empty"


def test_names_a_short_file():
    assert message_of(root_of, b"1234567") == (
        "a.bin: the file has 7 bytes, too short for a FlatBuffer header of 8 bytes; it is truncated")


@pytest.mark.parametrize("start, hint", [
    (b"PK\x03\x04abcd", "a ZIP archive (.keras, .task or .zip)"),
    (b"PK\x03\x04abcdnet/data.pklPK", "a PyTorch file; convert it with litert-torch, quantized to int8"),
    (b"PK\x03\x04abcdmodel.weights.h5PK", "a Keras file; convert it with tf.lite.TFLiteConverter, quantized to int8"),
    (b"\x89HDFabcd", "HDF5 (Keras .h5); convert it with tf.lite.TFLiteConverter, quantized to int8"),
    (b"\x08\x07abcdef", "protobuf (ONNX or a frozen graph); convert it with onnx2tf or tf.lite.TFLiteConverter, "
     "quantized to int8"),
    (b"GGUF\3\0\0\0", "a language model in GGUF, which this accelerator does not run"),
    (b"\x20\0\0\0\0\0\0\0{}", "weights without a model (.safetensors); convert the model that they belong to"),
    (b"rows = 8\n", "text"), (b"<html>..", "HTML or XML"),
    (b"\x89PNG\r\n\x1a\n", "a picture; it is for --inputs"), (b"\xff\xd8\xff\xe0abcd", "a picture; it is for --inputs"),
    (b"\x93NUMPY\1\0", "a NumPy array; save it with np.savez, for --inputs"),
    (b"PK\x03\x04abcdimage.npyPK", "an archive of NumPy arrays; they are for --inputs"),
    (b"version https://git-lfs.x", "a Git LFS pointer; fetch the file itself"),
    (b"TQHMabcd", "a compiled file of tq-hw; `sim` and `run` take it"),
    (b"\x1f\x8babcdef", "a gzip archive; unpack it first"), (b"\xfd7zXZ\0ab", "an xz archive; unpack it first"),
    (b"BZh91AY&", "a bzip2 archive; unpack it first"), (b"7z\xbc\xaf\x27\x1c\0\4", "a 7-Zip archive; unpack it first"),
    (b"\x28\xb5\x2f\xfdabcd", "a Zstandard archive; unpack it first"),
    (b"\0" * 257 + b"ustar\0", "a tar archive; unpack it first"),
    (b"PK\x03\x04abcdnet.tflitePK", "a ZIP archive with a .tflite file; unpack it first"),
    (b"\x80\x02\x8a\x0al\xfc\x9c\x46", "a Python pickle (an old PyTorch file); convert it with litert-torch, "
     "quantized to int8"),
    (b"\0\1\2\3\4\5\6\7saved_model_main_op", "saved_model.pb of a TensorFlow SavedModel; convert it with "
     "tf.lite.TFLiteConverter, quantized to int8"),
])
def test_names_other_formats(start, hint):
    assert message_of(root_of, start) == (
        f"a.bin: not a TFLite model: the file identifier (bytes 4 to 7) is {start[4:8]!r}, expected b'TEST'; "
        f"it looks like {hint}")


def test_rejects_a_root_outside_the_file():
    data = struct.pack("<I4s", 1000, b"TEST") + bytes(8)
    assert message_of(root_of, data) == (
        "a.bin: root offset: 4 bytes at offset 1000 are out of range: the file has 16 bytes; it is truncated or "
        "corrupt")


@pytest.mark.parametrize("distance", [2**31 - 1, -2**31, 100, -100])
def test_rejects_a_vtable_outside_the_file(distance):
    data = struct.pack("<I4si", 8, b"TEST", distance)
    assert f"a.bin: root, vtable offset: 2 bytes at offset {8 - distance} are out of range" in message_of(root_of, data)


@pytest.mark.parametrize("size", [0, 2, 5])
def test_rejects_an_impossible_vtable(size):
    data = struct.pack("<I4sHHi", 12, b"TEST", size, 4, 4)
    assert message_of(root_of, data) == f"a.bin: root: a vtable of {size} bytes at offset 8 is corrupt"


def test_rejects_a_vtable_that_runs_out_of_the_file():
    data = struct.pack("<I4sHHi", 12, b"TEST", 4000, 4, 4)
    assert message_of(root_of, data).startswith("a.bin: root, vtable: 4000 bytes at offset 8 are out of range")


def test_rejects_vectors_longer_than_the_file():
    data = bytearray(file_of((0, "bytes", b"abcdef")))
    at = data.index(b"\x06\x00\x00\x00abcdef")
    data[at:at + 4] = b"\xff\xff\xff\xff"
    table = root_of(bytes(data))
    for read in (table.string, table.integers, table.tables, lambda slot, name: table.vector(slot, name, "int64")):
        assert "are out of range" in message_of(read, 0, "name")


def test_every_truncation_is_an_error_or_reads_the_same():
    data = file_of((0, "str", "hello"), (1, "Int32", 7))
    for length in range(len(data)):
        with pytest.raises(ModelError):
            table = root_of(data[:length])
            assert (table.string(0, "a"), table.integer(1, "b")) == ("hello", 7)
            raise ModelError("the end of the file is padding")


def test_bounds_the_work_of_shared_parts():
    table = root_of(file_of((0, "bytes", bytes(100))))
    with pytest.raises(ModelError, match=r"^a.bin: root, x: the same parts are referenced too often; the file is "
                                         r"corrupt$"):
        for _ in range(1000):
            table.integers(0, "x", "int8")
