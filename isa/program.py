"""The compiled file `.tqm`: everything that a simulator, a firmware or a host needs to run one model.

    header (80 bytes)  port records  names  image  state  JSON

All numbers are little-endian. The header, the port records (64 bytes each, inputs first) and the
names (UTF-8, each ended by a NUL) are enough for a C program; the JSON holds the configuration and
the table of layers for people and tools. Every section starts at a multiple of 16 bytes.

Header words: magic "TQHM", CRC-32 of all bytes from offset 8, version, file bytes, fingerprint,
image offset and bytes, command offset (inside the image) and bytes, arena bytes, state offset and
bytes, port offset, number of inputs, number of outputs, bytes of a port record, names offset and
bytes, JSON offset and bytes.

Port record: name offset (in the names), name bytes, dtype, edge, rank, region (one byte each), zero
point (int32), scale (float64), region offset, size in bytes, eight dimensions.
"""

import json
import math
import os
import struct
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tq_hw.isa.config import Config, ConfigError
from tq_hw.isa.layout import Unit

__all__ = ["ALIGN_BYTES", "DTYPES", "EDGES", "FILE_MAGIC", "FORMAT_VERSION", "HEADER_WORDS", "PORT_MEMBERS",
           "REGION_ARENA", "REGION_IMAGE", "REGION_STATE", "Layer", "Port", "Program", "ProgramError", "from_bytes",
           "load", "save", "to_bytes"]

FORMAT_VERSION = 1
REGION_IMAGE, REGION_ARENA, REGION_STATE = 0, 1, 2

#: Bytes of an element; the position is the code in a port record.
DTYPES = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8, "float32": 4, "bool": 1}
#: What the host does at a port whose model tensor is float32; the position is the code in a port record.
EDGES = ("none", "quantize", "dequantize")

#: Words of the header behind the magic, in order.
HEADER_WORDS = ("crc", "version", "file_bytes", "fingerprint", "image_offset", "image_bytes", "command_offset",
                "command_bytes", "arena_bytes", "state_offset", "state_bytes", "port_offset", "inputs", "outputs",
                "port_bytes", "names_offset", "names_bytes", "json_offset", "json_bytes")
#: Members of a port record, with their codes of the module struct.
PORT_MEMBERS = {"name_offset": "I", "name_bytes": "I", "dtype": "B", "edge": "B", "rank": "B", "region": "B",
                "zero_point": "i", "scale": "d", "region_offset": "I", "size_bytes": "I", "shape": "8I"}
FILE_MAGIC = b"TQHM"

_HEADER = struct.Struct(f"<4s{len(HEADER_WORDS)}I")
_PORT = struct.Struct("<" + "".join(PORT_MEMBERS.values()))
#: Sections of a file, constants and tensors begin at multiples of it.
ALIGN_BYTES = 16
_CRC_FROM = 8


class ProgramError(ValueError):
    """A compiled file or a `Program` breaks the format; the message says what was expected and found."""


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ProgramError(message)


@dataclass(frozen=True)
class Port:
    """One input or output tensor, dense and in row-major order in its region.

    Members
    -------
    dtype : element type as stored; a key of `DTYPES`
    scale, zero_point : quantization of the stored values; 0.0 and 0 when there is none
    edge : "none"; "quantize": the model's tensor is float32 and the host makes `dtype` of it before the
        run; "dequantize": the host makes float32 of it after the run
    region : 1 (arena) as a rule, 0 for an output that is a constant, 2 for a state
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: float
    zero_point: int
    region_offset_bytes: int
    size_bytes: int
    edge: str = "none"
    region: int = REGION_ARENA

    @property
    def model_dtype(self) -> str:
        """Element type of the model's tensor, which a user gives or gets."""
        return self.dtype if self.edge == "none" else "float32"


@dataclass(frozen=True)
class Layer:
    """One operator as the compiler placed it, and its share of each unit's RUN commands.

    Members
    -------
    index, op, name : the operator's index in the model, TFLite's operator name, its output tensor's name
    unit : what computes it: "array", "vector", "load" or "store" (moves), "none" (no command), "host" (float edges)
    bound : what limits it: "compute", "weights", "activations", "vector"
    runs : per unit name ("load", "array", "vector", "store"), ranges (first, last) of RUN indices, both included
    """

    index: int
    op: str
    name: str
    unit: str
    macs: int = 0
    estimated_cycles: int = 0
    bytes_moved: int = 0
    bound: str = ""
    runs: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """One compiled model; consistency is checked when it is made (ProgramError).

    Members
    -------
    name : the model's name
    image : region 0: constants, parameters, weights and the commands
    command_offset, command_bytes : where the commands lie in `image`; multiples of 16 and 4
    arena_bytes : size of region 1
    state : first contents of region 2
    meta : anything else that the compiler wants to keep, JSON values by name
    """

    name: str
    config: Config
    image: bytes
    command_offset: int
    command_bytes: int
    arena_bytes: int
    state: bytes = b""
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    layers: tuple[Layer, ...] = ()
    meta: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what every reader relies on."""
        _require(self.command_offset % 16 == 0 and self.command_bytes % 4 == 0,
                 f"commands must start at a multiple of 16 and have whole words, not offset {self.command_offset}, "
                 f"{self.command_bytes} bytes")
        _require(self.command_offset >= 0 and self.command_bytes > 0
                 and self.command_offset + self.command_bytes <= len(self.image),
                 f"commands at {self.command_offset}, {self.command_bytes} bytes, must lie in the image of "
                 f"{len(self.image)} bytes")
        _require(0 <= self.arena_bytes < 1 << 30, f"arena_bytes must be below 2^30, not {self.arena_bytes}")
        for port in (*self.inputs, *self.outputs):
            _check_port(port, self.region_bytes(port.region) if 0 <= port.region <= 2 else -1)
        for port in self.inputs:
            _require(port.edge != "dequantize", f"input {port.name!r} must not be dequantized")
        for port in self.outputs:
            _require(port.edge != "quantize", f"output {port.name!r} must not be quantized")
        for unit, ranges in _ranges(self.layers).items():
            for (a, b, one), (c, _, other) in zip(ranges, ranges[1:], strict=False):
                _require(c > b, f"RUNs {a}..{b} of the {unit} unit belong to layers {one} and {other} both")

    @property
    def commands(self) -> bytes:
        """The command stream."""
        return self.image[self.command_offset:self.command_offset + self.command_bytes]

    @property
    def fingerprint(self) -> int:
        """Fingerprint of the configuration that the program was compiled for."""
        return self.config.fingerprint

    def region_bytes(self, region: int) -> int:
        """Size of region 0, 1 or 2."""
        return (len(self.image), self.arena_bytes, len(self.state))[region]

    def layer_of(self, unit: Unit | str, run: int) -> Layer | None:
        """Return the layer that RUN number `run` of `unit` belongs to, if the compiler named one."""
        name = unit if isinstance(unit, str) else unit.name.lower()
        for layer in self.layers:
            if any(first <= run <= last for first, last in layer.runs.get(name, ())):
                return layer
        return None


def _ranges(layers: tuple[Layer, ...]) -> dict[str, list[tuple[int, int, int]]]:
    out: dict[str, list[tuple[int, int, int]]] = {}
    for layer in layers:
        for unit, ranges in layer.runs.items():
            _require(unit in ("load", "array", "vector", "store"),
                     f"layer {layer.index} names an unknown unit {unit!r}")
            for first, last in ranges:
                _require(0 <= first <= last, f"layer {layer.index} has RUNs {first}..{last} of the {unit} unit")
                out.setdefault(unit, []).append((first, last, layer.index))
    return {unit: sorted(ranges) for unit, ranges in out.items()}


def _check_port(port: Port, region_bytes: int) -> None:
    where = f"port {port.name!r}"
    _require(port.dtype in DTYPES, f"{where}: dtype must be one of {', '.join(DTYPES)}, not {port.dtype!r}")
    _require(port.edge in EDGES, f"{where}: edge must be one of {', '.join(EDGES)}, not {port.edge!r}")
    _require(region_bytes >= 0, f"{where}: region must be 0, 1 or 2, not {port.region}")
    _require(len(port.shape) <= 8 and all(0 <= size < 1 << 31 for size in port.shape),
             f"{where}: shape must have at most eight dimensions of 0 to 2^31-1, not {port.shape}")
    size_bytes = DTYPES[port.dtype] * math.prod(port.shape)
    _require(port.size_bytes == size_bytes, f"{where}: size must be {size_bytes} bytes, not {port.size_bytes}")
    _require(-1 << 31 <= port.zero_point < 1 << 31, f"{where}: zero point {port.zero_point} is not an int32")
    _require(math.isfinite(port.scale), f"{where}: scale must be finite, not {port.scale}")
    _require(0 <= port.region_offset_bytes <= region_bytes - size_bytes,
             f"{where}: {size_bytes} bytes at {port.region_offset_bytes} must lie in region {port.region} of "
             f"{region_bytes} bytes")


def to_bytes(program: Program) -> bytes:
    """Return the file's contents."""
    ports = (*program.inputs, *program.outputs)
    names = bytearray()
    records = bytearray()
    for port in ports:
        text = port.name.encode()
        records += _PORT.pack(
            len(names), len(text), list(DTYPES).index(port.dtype), EDGES.index(port.edge), len(port.shape), port.region,
            port.zero_point, port.scale, port.region_offset_bytes, port.size_bytes,
            *port.shape, *[0] * (8 - len(port.shape)))
        names += text + b"\0"
    described = {"name": program.name, "config": asdict(program.config), "layers": [asdict(v) for v in program.layers],
                 "meta": dict(program.meta)}
    try:
        description = json.dumps(described, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise ProgramError(f"layers and meta must be JSON values: {error}") from None
    body = bytearray(_HEADER.size)
    at = []
    for section in (records, names, program.image, program.state, description):
        body += bytes(-len(body) % ALIGN_BYTES)
        at.append(len(body))
        body += section
    _HEADER.pack_into(
        body, 0, FILE_MAGIC, 0, FORMAT_VERSION, len(body), program.fingerprint, at[2], len(program.image),
        program.command_offset, program.command_bytes, program.arena_bytes, at[3], len(program.state),
        at[0], len(program.inputs), len(program.outputs), _PORT.size, at[1], len(names), at[4], len(description))
    struct.pack_into("<I", body, 4, zlib.crc32(body[_CRC_FROM:]))
    return bytes(body)


def from_bytes(data: bytes) -> Program:
    """Return the program of a file's contents; ProgramError names the first thing that is wrong."""
    _require(len(data) >= _HEADER.size, f"a compiled file has at least {_HEADER.size} bytes, not {len(data)}")
    (magic, crc, version, file_bytes, fingerprint, image_at, image_bytes, command_offset, command_bytes, arena_bytes,
     state_at, state_bytes, port_at, inputs, outputs, port_bytes, names_at, names_bytes, json_at,
     json_bytes) = _HEADER.unpack_from(data)
    _require(magic == FILE_MAGIC, f"a compiled file starts with {FILE_MAGIC!r}, not {magic!r}")
    _require(version == FORMAT_VERSION, f"the file has format version {version}, this program reads {FORMAT_VERSION}: "
             "compile the model again")
    _require(file_bytes == len(data), f"the file should have {file_bytes} bytes, it has {len(data)}")
    found = zlib.crc32(memoryview(data)[_CRC_FROM:])
    _require(crc == found, f"the file is damaged: its checksum is {crc:#010x}, that of its contents {found:#010x}")
    _require(port_bytes == _PORT.size, f"port records should have {_PORT.size} bytes, not {port_bytes}")

    def section(what: str, start: int, size: int) -> bytes:
        _require(start >= _HEADER.size and start + size <= len(data) and start % ALIGN_BYTES == 0,
                 f"the {what} at byte {start}, {size} bytes, must start at a multiple of {ALIGN_BYTES} and lie in the "
                 "file")
        return data[start:start + size]

    names = section("names", names_at, names_bytes)
    records = section("port table", port_at, (inputs + outputs) * port_bytes)
    ports = tuple(_read_port(records, i, names) for i in range(inputs + outputs))
    described = _read_json(section("JSON", json_at, json_bytes))
    try:
        config = Config.from_mapping({k: v for k, v in described["config"].items() if k != "name"},
                                     str(described["config"]["name"]))
        layers = tuple(_read_layer(layer) for layer in described["layers"])
        name, meta = str(described["name"]), dict(described["meta"])
    except (KeyError, TypeError, AttributeError, ConfigError, ValueError) as error:
        raise ProgramError(f"the JSON of the file cannot be used: {error}") from None
    _require(config.fingerprint == fingerprint,
             f"the file's fingerprint {fingerprint:#010x} is not that of its configuration {config.name!r}, "
             f"{config.fingerprint:#010x}: compile the model again")
    return Program(
        name, config, section("image", image_at, image_bytes), command_offset, command_bytes, arena_bytes,
        section("state", state_at, state_bytes), ports[:inputs], ports[inputs:], layers, meta)


def _read_json(data: bytes) -> dict[str, Any]:
    try:
        described = json.loads(data)
    except ValueError as error:
        raise ProgramError(f"the JSON of the file cannot be read: {error}") from None
    _require(isinstance(described, dict), "the JSON of the file must be an object")
    return dict(described)


def _read_layer(values: Mapping[str, Any]) -> Layer:
    runs = {str(unit): tuple((int(first), int(last)) for first, last in ranges)
            for unit, ranges in values["runs"].items()}
    numbers = {key: int(values[key]) for key in ("index", "macs", "estimated_cycles", "bytes_moved")}
    texts = {key: str(values[key]) for key in ("op", "name", "unit", "bound")}
    return Layer(**numbers, **texts, runs=runs)  # type: ignore[arg-type]  # int and str keys do not overlap


def _read_port(records: bytes, index: int, names: bytes) -> Port:
    (name_at, name_bytes, dtype, edge, rank, region, zero_point, scale, offset, size_bytes,
     *shape) = _PORT.unpack_from(records, index * _PORT.size)
    _require(name_at + name_bytes < len(names), f"the name of port {index} must lie among the names")
    _require(dtype < len(DTYPES) and edge < len(EDGES) and rank <= 8,
             f"port {index} has dtype {dtype}, edge {edge}, rank {rank}: one of them is unknown")
    try:
        name = names[name_at:name_at + name_bytes].decode()
    except UnicodeDecodeError as error:
        raise ProgramError(f"the name of port {index} is not UTF-8: {error}") from None
    return Port(name, list(DTYPES)[dtype], tuple(shape[:rank]), scale, zero_point, offset, size_bytes, EDGES[edge],
                region)


def save(program: Program, path: str | Path) -> None:
    """Write the file; a file of that name is replaced only when the new one is complete."""
    path = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        # mkstemp's files are private; a compiled file has the rights of any other file.
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(handle, 0o666 & ~mask)
        with os.fdopen(handle, "wb") as file:
            file.write(to_bytes(program))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: str | Path) -> Program:
    """Read a file; the message of a ProgramError starts with the path."""
    try:
        return from_bytes(Path(path).read_bytes())
    except ProgramError as error:
        raise ProgramError(f"{path}: {error}") from None
    except OSError as error:
        raise ProgramError(f"{path}: cannot be read: {error.strerror or error}") from None
