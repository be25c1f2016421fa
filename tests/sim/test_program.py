"""The compiled file: round trips, and one clear error for whatever is wrong with it."""

import struct
import zlib
from dataclasses import replace

import pytest

from tq_hw.isa.config import PRESETS
from tq_hw.isa.encode import Assembler
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Layer, Port, Program, ProgramError, from_bytes, load, save, to_bytes


def small_program() -> Program:
    config = PRESETS["tiny"]
    assembler = Assembler(config)
    assembler.end()
    commands = assembler.to_bytes()
    ports = [Port("größe", "int8", (1, 3, 5), 0.1, -7, 0, 15),
             Port("x:0", "int16", (), 0.5, 0, 16, 2, "quantize")]
    layers = (Layer(0, "CONV_2D", "y", "array", 10, 20, 30, "compute", {"array": ((0, 3), (5, 5)), "load": ((0, 0),)}),
              Layer(2, "RESHAPE", "z", "none"))
    return Program("net", config, bytes(range(32)) + commands, 32, len(commands), 64, b"state", tuple(ports),
                   (replace(ports[0], region=0, name="out"), replace(ports[1], edge="dequantize")), layers,
                   {"profile": "canon"})


def test_round_trip(tmp_path):
    program = small_program()
    assert from_bytes(to_bytes(program)) == program
    save(program, tmp_path / "net.tqm")
    assert load(tmp_path / "net.tqm") == program
    assert [p.name for p in tmp_path.iterdir()] == ["net.tqm"]
    assert program.inputs[1].model_dtype == "float32"
    assert program.commands == struct.pack("<I", 8)


def test_layer_of():
    program = small_program()
    assert program.layer_of(Unit.ARRAY, 3).index == 0
    assert program.layer_of("array", 5).index == 0
    assert program.layer_of("array", 4) is None


def test_failed_save_leaves_nothing(tmp_path):
    program = replace(small_program(), meta={"x": object()})
    with pytest.raises(ProgramError, match="JSON values"):
        save(program, tmp_path / "net.tqm")
    assert not list(tmp_path.iterdir())


def test_every_damaged_byte_is_noticed():
    data = to_bytes(small_program())
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x10
        with pytest.raises(ProgramError):
            from_bytes(bytes(broken))
    for size in (0, 3, 79, 80, len(data) - 1):
        with pytest.raises(ProgramError):
            from_bytes(data[:size])
    with pytest.raises(ProgramError, match="should have"):
        from_bytes(data + b"\0")


def forged(at: int, value: int) -> bytes:
    """The file with header word `at` replaced and the checksum put right."""
    data = bytearray(to_bytes(small_program()))
    struct.pack_into("<I", data, 4 * at, value)
    struct.pack_into("<I", data, 4, zlib.crc32(data[8:]))
    return bytes(data)


@pytest.mark.parametrize(("at", "value", "message"), [
    (2, 9, "format version 9"), (4, 1, "fingerprint"), (5, 8, "image at byte 8"), (5, 1 << 31, "image"),
    (6, 5, "commands"), (7, 4, "commands must start"), (8, 0, "must lie in the image"), (9, 1, "port 'größe'"),
    (9, 1 << 31, "arena_bytes"), (10, 1 << 30, "state"), (12, 1, "port table"), (13, 99, "port table"),
    (15, 63, "port records"), (16, 4, "names"), (17, 1, "name of port"), (18, 0, "JSON"), (19, 3, "JSON"),
])
def test_forged_header(at, value, message):
    with pytest.raises(ProgramError, match=message):
        from_bytes(forged(at, value))


@pytest.mark.parametrize(("change", "message"), [
    ({"dtype": "complex64"}, "dtype must be one of"), ({"size_bytes": 14}, "size must be 15"),
    ({"region_offset_bytes": 60}, "must lie in region 1"), ({"region": 3}, "region must be"),
    ({"edge": "dequantize"}, "must not be dequantized"), ({"edge": "x"}, "edge must be"),
    ({"zero_point": 1 << 31}, "not an int32"), ({"scale": float("nan")}, "finite"), ({"shape": (1,) * 9}, "eight"),
])
def test_bad_port(change, message):
    program = small_program()
    with pytest.raises(ProgramError, match=message):
        replace(program, inputs=(replace(program.inputs[0], **change),))


def test_run_of_two_layers():
    program = small_program()
    with pytest.raises(ProgramError, match="belong to layers 0 and 2 both"):
        replace(program, layers=(program.layers[0], replace(program.layers[1], runs={"array": ((2, 4),)})))


def test_missing_file(tmp_path):
    with pytest.raises(ProgramError, match="cannot be read"):
        load(tmp_path / "none.tqm")
