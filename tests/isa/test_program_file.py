"""The compiled file: round trips, and one clear message, word for word, for each error in it."""

import json
import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tq_hw.isa.config import PRESETS
from tq_hw.isa.encode import Assembler
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Layer, Port, Program, ProgramError
from tq_hw.isa.program_file import HEADER_WORDS, from_bytes, load, save, to_bytes
from tq_hw.isa.program_rules import PROFILES
from tq_hw.model.graph import PROFILES as MODEL_PROFILES

WORDS = {name: 1 + number for number, name in enumerate(HEADER_WORDS)}
JSON = "the JSON of the file cannot be read: "
CONFIG = "the configuration of the file cannot be used: "
SHAPE = "shape must have at most eight dimensions and less than 2^31 elements, not "


def small_program() -> Program:
    config = PRESETS["tiny"]
    assembler = Assembler(config)
    for _ in range(6):
        assembler.run(Unit.ARRAY, {"slots": 1})
    assembler.run(Unit.LOAD, {"run_bytes": 4, "count2": 1, "count3": 1})
    assembler.end()
    commands = assembler.to_bytes()
    ports = [Port("größe", "int8", (1, 3, 5), 0.1, -7, 0, 15),
             Port("x:0", "int16", (), 0.5, 0, 16, 2, "quantize")]
    layers = (Layer(0, "CONV_2D", "y", "array", 10, 20, 30, "compute", {"array": ((0, 3), (5, 5)), "load": ((0, 0),)}),
              Layer(2, "RESHAPE", "z", "none"))
    return Program("net", config, bytes(range(32)) + commands, 32, len(commands), 64, b"state", tuple(ports),
                   (replace(ports[0], region=0, name="out"), replace(ports[1], edge="dequantize")), layers,
                   {"seed": 3}, "tflm")


def refusal(make: Callable[[], object]) -> str:
    """The message of the ProgramError that a call raises."""
    with pytest.raises(ProgramError) as found:
        make()
    return str(found.value)


def sealed(data: bytearray) -> bytes:
    """The file with size and checksum corrected."""
    struct.pack_into("<I", data, 4 * WORDS["file_bytes"], len(data))
    struct.pack_into("<I", data, 4 * WORDS["crc"], zlib.crc32(data[8:]))
    return bytes(data)


def forged(word: str, value: int) -> bytes:
    """The file with one word of the header replaced."""
    data = bytearray(to_bytes(small_program()))
    struct.pack_into("<I", data, 4 * WORDS[word], value)
    struct.pack_into("<I", data, 4 * WORDS["crc"], zlib.crc32(data[8:]))
    return bytes(data)


def with_json(text: bytes) -> bytes:
    """The file with other JSON, which is its last section."""
    data = bytearray(to_bytes(small_program()))
    del data[struct.unpack_from("<I", data, 4 * WORDS["json_offset"])[0]:]
    data += text
    struct.pack_into("<I", data, 4 * WORDS["json_bytes"], len(text))
    return sealed(data)


def described() -> dict[str, Any]:
    data = to_bytes(small_program())
    at, = struct.unpack_from("<I", data, 4 * WORDS["json_offset"])
    values: dict[str, Any] = json.loads(data[at:])
    return values


def test_round_trip(tmp_path: Path) -> None:
    program = small_program()
    assert from_bytes(to_bytes(program)) == program
    save(program, tmp_path / "net.tqm")
    assert load(tmp_path / "net.tqm") == program
    assert [p.name for p in tmp_path.iterdir()] == ["net.tqm"]
    assert program.inputs[1].model_dtype == "float32"
    assert program.commands.endswith(struct.pack("<I", 8))


def test_profiles() -> None:
    assert PROFILES == MODEL_PROFILES
    # A file from before profiles were introduced has none.
    text = json.dumps(changed(described(), ("profile",), ...)).encode()
    assert from_bytes(with_json(text)) == replace(small_program(), profile="canon")


def test_layer_of() -> None:
    program = small_program()
    found = [program.layer_of(Unit.ARRAY, 3), program.layer_of("array", 5), program.layer_of("array", 4)]
    assert [layer and layer.index for layer in found] == [0, 0, None]


@pytest.mark.parametrize(("meta", "message"), [
    (object(), "layers and meta must be JSON values: Object of type object is not JSON serializable"),
    (math.inf, "layers and meta must be JSON values: Out of range float values are not JSON compliant"),
    ("\ud800", "layers and meta must be JSON values: 'utf-8' codec can't encode character '\\ud800' in position"),
])
def test_failed_save_leaves_nothing(tmp_path: Path, meta: object, message: str) -> None:
    program = replace(small_program(), meta={"x": meta})
    assert refusal(lambda: save(program, tmp_path / "net.tqm")).startswith(message)
    assert not list(tmp_path.iterdir())


def test_every_damaged_byte_is_noticed() -> None:
    data = to_bytes(small_program())
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x10
        with pytest.raises(ProgramError):
            from_bytes(bytes(broken))
    for size in (0, 3, 79, 80, len(data) - 1):
        with pytest.raises(ProgramError):
            from_bytes(data[:size])
    size = len(data)
    assert refusal(lambda: from_bytes(data + b"\0")) == f"the file should have {size} bytes, it has {size + 1}"


@pytest.mark.parametrize(("word", "value", "message"), [
    ("version", 9, "the file has format version 9, but this program reads 1: compile the model again"),
    ("fingerprint", 1, "the file's fingerprint 0x00000001 is not that of its configuration 'tiny', 0x976ebf2d: compile "
     "the model again"),
    ("image_offset", 8, "the image at byte 8, 180 bytes, must start at a multiple of 16 and lie in the file"),
    ("image_offset", 1 << 31, "the image at byte 2147483648, 180 bytes, must start at a multiple of 16 and lie in the "
     "file"),
    ("image_offset", 80, "the image must end before the port table begins, at byte 80, not at 260"),
    ("image_bytes", 5, "commands at 32, 148 bytes, must lie in the image of 5 bytes"),
    ("command_offset", 4, "commands must start at a multiple of 16 and have whole words, not offset 4, 148 bytes"),
    ("command_bytes", 0, "commands at 32, 0 bytes, must lie in the image of 180 bytes"),
    ("command_bytes", 144, "the commands are malformed: word 36: the stream has no END"),
    ("arena_bytes", 1, "port 'größe': 15 bytes at 0 must lie in region 1 of 1 bytes"),
    ("arena_bytes", 1 << 30, "image, arena and state must have at most 268,435,456 bytes together, not 180, "
     "1,073,741,824 and 5"),
    ("state_bytes", 1 << 30, "the state at byte 560, 1073741824 bytes, must start at a multiple of 16 and lie in the "
     "file"),
    ("port_offset", 1, "the port table at byte 1, 256 bytes, must start at a multiple of 16 and lie in the file"),
    ("inputs", 99, "the port table at byte 80, 6464 bytes, must start at a multiple of 16 and lie in the file"),
    ("inputs", 1 << 20, "there may be 1,024 inputs and outputs, not 1,048,578"),
    ("port_bytes", 63, "port records should have 64 bytes, not 63"),
    ("names_offset", 4, "the names at byte 4, 20 bytes, must start at a multiple of 16 and lie in the file"),
    ("names_bytes", 1, "the name of port 0 must lie among the names and end with a NUL"),
    ("json_offset", 0, "the JSON at byte 0, 656 bytes, must start at a multiple of 16 and lie in the file"),
    ("json_bytes", 3, JSON + "Unterminated string starting at: line 1 column 2 (char 1)"),
])
def test_forged_header(word: str, value: int, message: str) -> None:
    assert refusal(lambda: from_bytes(forged(word, value))) == message


def test_files_of_other_kinds() -> None:
    assert refusal(lambda: from_bytes(b"")) == "a compiled file has at least 80 bytes, not 0"
    assert refusal(lambda: from_bytes(bytes(80))) == "a compiled file starts with b'TQHM', not b'\\x00\\x00\\x00\\x00'"


@pytest.mark.parametrize(("text", "message"), [
    (b"", JSON + "Expecting value: line 1 column 1 (char 0)"),
    (b"\xff", JSON + "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    (b"[" * 100_000, JSON + "its lists are nested too deeply"),
    (b'{"x": ' * 100_000, JSON + "its lists are nested too deeply"),
    (b"NaN", JSON + "NaN is not a JSON value"),
    (b"[-Infinity]", JSON + "-Infinity is not a JSON value"),
    (b"1e999", JSON + "1e999 is not a JSON value"),
    (b"1" * 5000, JSON + "a number has 5000 digits"),
    (b" " * ((1 << 23) + 1), "the JSON of the file must have at most 8,388,608 bytes, not 8,388,609"),
    (b"[]", "the JSON of the file must be an object, not a list"),
    (b"{}", "the JSON of the file: name is missing"),
])
def test_forged_json(text: bytes, message: str) -> None:
    assert refusal(lambda: from_bytes(with_json(text))) == message


def changed(values: Any, place: tuple[Any, ...], value: object) -> Any:
    """A copy in which the member at a path is replaced, or removed for `...`."""
    if not place:
        return value
    copy, (key, *rest) = values.copy(), place
    if value is ... and not rest:
        del copy[key]
    else:
        copy[key] = changed(copy[key] if rest else None, tuple(rest), value)
    return copy


LAYER = ("layers", 0)


@pytest.mark.parametrize(("place", "value", "message"), [
    (("name",), 5, "the JSON of the file: name must be a string, not 5"),
    (("name",), "a\nb", r"the model's name must be printable text of at most 65,536 bytes, not 'a\nb'"),
    (("name",), "\ud800", "the model's name is not Unicode: surrogates not allowed"),
    (("config",), [], "the JSON of the file: config must be an object, not a list"),
    (("config", "name"), ..., "config: name must be a string"),
    (("config", "rows"), ..., CONFIG + "configuration 'tiny': key 'rows' is missing"),
    (("config", "rows"), 4.0, CONFIG + "configuration 'tiny': rows must be an integer, not 4.0"),
    (("config", "rows"), 1 << 60,
     CONFIG + "configuration 'tiny': rows must be 3 to 32 (a depthwise group takes three rows), not "
     "1152921504606846976; the nearest legal value is 32"),
    (("config", "design"), ["serial"],
     CONFIG + "configuration 'tiny': design must be parallel or serial, not ['serial']"),
    (("config", "depth"), 5, CONFIG + "configuration 'tiny': unknown key 'depth'; "
     "known keys are acc_buffers, acc_open, acc_words, activation_lanes, block_uops, bus_bytes, cols, "
     "compressed_weights, design, dsp_packing, dsp_preadders, few_counters, few_luts, fold_steps, name, "
     "requantize_lanes, rows, scratchpad_bytes, uops, vector_words"),
    (("config", "cols"), 8, "the file's fingerprint 0x976ebf2d is not that of its configuration 'tiny', 0x8f2e54d2: "
     "compile the model again"),
    (("layers",), {}, "the JSON of the file: layers must be a list, not an object"),
    (("profile",), 7, "the JSON of the file: profile must be a string, not 7"),
    (("profile",), "x", "profile must be one of canon, tflm, litert, not 'x'"),
    (("meta",), None, "the JSON of the file: meta must be an object, not null"),
    (LAYER, 7, "layer number 0 must be an object, not 7"),
    ((*LAYER, "index"), ..., "layer number 0: index is missing"),
    ((*LAYER, "index"), True, "layer number 0: index must be an integer, not true"),
    ((*LAYER, "index"), -1, "layer -1: index, macs, estimated_cycles and bytes_moved must be 0 to 2^63-1"),
    ((*LAYER, "index"), 2, "two layers have the index 2"),
    ((*LAYER, "macs"), 1.5, "layer number 0: macs must be an integer, not 1.5"),
    ((*LAYER, "macs"), 1 << 63, "layer 0: index, macs, estimated_cycles and bytes_moved must be 0 to 2^63-1"),
    ((*LAYER, "macs"), 10**20, JSON + "a number has 21 digits"),
    ((*LAYER, "op"), 5, "layer number 0: op must be a string, not 5"),
    ((*LAYER, "op"), "\x1b[2J", r"layer 0: the operator must be printable text, not '\x1b[2J'"),
    ((*LAYER, "name"), "a" * 99 + "\udfff", "layer number 0: name is not Unicode: surrogates not allowed"),
    ((*LAYER, "unit"), "gpu", "layer 0: unit must be one of load, array, vector, store, none, host, not 'gpu'"),
    ((*LAYER, "bound"), "x" * 99, "layer 0: bound must be one of compute, weights, activations, vector or empty, not "
     f"'{'x' * 80}...'"),
    ((*LAYER, "runs"), [], "layer number 0: runs must be an object, not a list"),
    ((*LAYER, "runs"), {"gpu": [[0, 0]]}, "layer 0 names an unknown unit 'gpu'"),
    ((*LAYER, "runs"), {"load": 3}, "layer number 0: runs of 'load' must be a list, not 3"),
    ((*LAYER, "runs"), {"load": [3]}, "layer number 0: a range of RUNs must be a list, not 3"),
    ((*LAYER, "runs"), {"load": [[0]]}, "layer number 0: a range of RUNs must be two integers, not a list"),
    ((*LAYER, "runs"), {"load": [[0, "1"]]}, "layer number 0: a range of RUNs must be two integers, not a list"),
    ((*LAYER, "runs"), {"load": [[-1, 0]]}, "layer 0 has RUNs -1..0 of the load unit"),
    ((*LAYER, "runs"), {"load": [[1, 0]]}, "layer 0 has RUNs 1..0 of the load unit"),
    ((*LAYER, "runs"), {"load": [[0, 0], [0, 0]]}, "RUNs 0..0 of the load unit belong to both layers 0 and 0"),
    ((*LAYER, "runs"), {"array": [[5, 6]]}, "layer 0 has RUNs 5..6 of the array unit, but the commands have 6"),
])
def test_forged_description(place: tuple[Any, ...], value: object, message: str) -> None:
    text = json.dumps(changed(described(), place, value)).encode()
    assert refusal(lambda: from_bytes(with_json(text))) == message


@pytest.mark.parametrize(("change", "message"), [
    ({"dtype": "complex64"}, "dtype must be one of int8, uint8, int16, int32, int64, float32, bool, not 'complex64'"),
    ({"size_bytes": 14}, "size must be 15 bytes, not 14"),
    ({"region_offset_bytes": 60}, "15 bytes at 60 must lie in region 1 of 64 bytes"),
    ({"region_offset_bytes": -1}, "15 bytes at -1 must lie in region 1 of 64 bytes"),
    ({"region": 3}, "region must be 0, 1 or 2, not 3"),
    ({"edge": "x"}, "edge must be one of none, quantize, dequantize, not 'x'"),
    ({"zero_point": 1 << 31}, "zero point 2147483648 is not an int32"),
    ({"scale": math.nan}, "scale must be 0 or a positive float32, not nan"),
    ({"scale": math.inf}, "scale must be 0 or a positive float32, not inf"),
    ({"scale": -1.0}, "scale must be 0 or a positive float32, not -1.0"),
    ({"scale": 1e39}, "scale must be 0 or a positive float32, not 1e+39"),
    ({"shape": (1,) * 9}, SHAPE + "(1, 1, 1, 1, 1, 1, 1, 1, 1)"),
    ({"shape": (0, 1 << 16, 1 << 16)}, SHAPE + "(0, 65536, 65536)"),
    ({"edge": "quantize", "scale": 0.0}, "only int8, uint8, int16 with a scale above 0 can be quantized, not int8 with "
     "scale 0.0"),
    ({"edge": "quantize", "scale": 1e-46}, "only int8, uint8, int16 with a scale above 0 can be quantized, not int8 "
     "with scale 1e-46"),
    ({"edge": "quantize", "dtype": "bool"}, "only int8, uint8, int16 with a scale above 0 can be quantized, not bool "
     "with scale 0.1"),
])
def test_bad_port(change: dict[str, Any], message: str) -> None:
    program = small_program()
    one = replace(program.inputs[0], **change)
    assert refusal(lambda: replace(program, inputs=(one,))) == f"port 'größe': {message}"


def test_ports_in_the_wrong_place() -> None:
    program = small_program()
    first, second = program.inputs
    for inputs, message in (
            ((replace(first, edge="dequantize"),), "input 'größe' must not be dequantized"),
            ((replace(first, region=0),), "input 'größe' must lie in region 1 or 2, not in the image"),
            ((first, replace(second, region_offset_bytes=14)), "inputs 'größe' and 'x:0' overlap in region 1")):
        assert refusal(lambda inputs=inputs: replace(program, inputs=inputs)) == message  # type: ignore[misc]
    assert refusal(lambda: replace(program, outputs=(second,))) == "output 'x:0' must not be quantized"
    # One tensor may be two inputs.
    assert replace(program, inputs=(first, replace(first, name="same"))).inputs[1].name == "same"


def test_counts_above_the_limits() -> None:
    program = small_program()
    port = program.inputs[0]
    assert refusal(lambda: replace(program, inputs=(port,) * 1023)) == (
        "there may be 1,024 inputs and outputs, not 1,025")
    large = replace(port, shape=(1 << 24,), size_bytes=1 << 24)
    outputs = (large, replace(large, name="b"), replace(port, name="c"))
    assert refusal(lambda: replace(program, arena_bytes=1 << 24, outputs=outputs)) == (
        "the outputs must have at most 33,554,432 bytes together, not 33,554,447")
    assert refusal(lambda: replace(program, inputs=(replace(port, name="ö" * 40_000),))) == (
        f"port '{'ö' * 80}...': the name must have at most 65,536 bytes")


def test_run_of_two_layers() -> None:
    program = small_program()
    layers = (program.layers[0], replace(program.layers[1], runs={"array": ((2, 4),)}))
    assert refusal(lambda: replace(program, layers=layers)) == (
        "RUNs 0..3 of the array unit belong to both layers 0 and 2")


def test_invalid_names() -> None:
    data = bytearray(to_bytes(small_program()))
    at, = struct.unpack_from("<I", data, 4 * WORDS["names_offset"])
    data[at + 2] = 0xFF
    assert refusal(lambda: from_bytes(sealed(data))) == "the name of port 0 is not UTF-8: invalid start byte"
    data[at + 7] = ord("x")
    assert refusal(lambda: from_bytes(sealed(data))) == "the name of port 0 must lie among the names and end with a NUL"


@pytest.mark.parametrize("member", [8, 9, 10])
def test_codes_without_a_meaning(member: int) -> None:
    data = bytearray(to_bytes(small_program()))
    at, = struct.unpack_from("<I", data, 4 * WORDS["port_offset"])
    data[at + member] = 9
    codes = [0, 0, 3]
    codes[member - 8] = 9
    assert refusal(lambda: from_bytes(sealed(data))) == (
        "port 0 has dtype {}, edge {}, rank {}: one of them is unknown".format(*codes))


def test_missing_file(tmp_path: Path) -> None:
    assert refusal(lambda: load(tmp_path / "none.tqm")) == (
        f"{tmp_path / 'none.tqm'}: cannot be read: No such file or directory")
