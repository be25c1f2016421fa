"""The compiled file `.tqm`: everything that a simulator, a firmware or a host needs to run one model.

    header (80 bytes)  port records  names  image  state  JSON

docs/reference/compiled-file.md says what stands where. The header, the port records and the names are enough for a C
program; the JSON holds the configuration and the table of layers for people and tools.
"""

import os
import struct
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from tq_hw.isa.command_rules import check_commands
from tq_hw.isa.permissions import new_file_mode
from tq_hw.isa.program import ALIGN_BYTES, Port, Program
from tq_hw.isa.program_json import description, read_description
from tq_hw.isa.program_rules import DTYPES, EDGES, MOST_PORTS, ProgramError, quoted, require

__all__ = ["CRC_FROM", "FILE_MAGIC", "FORMAT_VERSION", "HEADER_WORDS", "PORT_MEMBERS", "from_bytes", "load", "save",
           "to_bytes"]

FORMAT_VERSION = 1
FILE_MAGIC = b"TQHM"

#: Words of the header after the magic, in order, and what they are.
HEADER_WORDS: Mapping[str, str] = {
    "crc": "CRC-32 of all bytes from offset 8 on", "version": "of this format, 1", "file_bytes": "of the whole file",
    "fingerprint": "of the configuration that the commands are for",
    "image_offset": "of region 0: commands, weights, parameters and constants", "image_bytes": "size of region 0",
    "command_offset": "of the commands, inside the image, a multiple of 16",
    "command_bytes": "of the commands, a multiple of 4", "arena_bytes": "size of region 1; the file has none of it",
    "state_offset": "of the first contents of region 2", "state_bytes": "size of region 2",
    "port_offset": "of the port records, inputs first", "inputs": "number of inputs", "outputs": "number of outputs",
    "port_bytes": "of one port record, 64", "names_offset": "of the names, UTF-8, each ended by a NUL",
    "names_bytes": "of all names", "json_offset": "of the JSON", "json_bytes": "of the JSON",
}
#: Members of a port record: code of the module struct, and what it is.
PORT_MEMBERS: Mapping[str, tuple[str, str]] = {
    "name_offset": ("I", "in the names"), "name_bytes": ("I", "without the NUL"),
    "dtype": ("B", "element type as stored"), "edge": ("B", "what the host does"), "rank": ("B", "dimensions, 0 to 8"),
    "region": ("B", "0 image, 1 arena, 2 state"), "zero_point": ("i", "of the stored values"),
    "scale": ("d", "of the stored values; 0 when there is none"), "region_offset": ("I", "of the first element"),
    "size_bytes": ("I", "of the tensor, dense and row-major"), "shape": ("8I", "dimensions; the last ones are unused"),
}
#: The checksum is that of all bytes from here on.
CRC_FROM = 8

_HEADER = struct.Struct(f"<4s{len(HEADER_WORDS)}I")
_PORT = struct.Struct("<" + "".join(code for code, _ in PORT_MEMBERS.values()))


def to_bytes(program: Program) -> bytes:
    """Return the file's contents; ProgramError for commands that no reader would take."""
    check_commands(program)
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
    described = description(program)
    body = bytearray(_HEADER.size)
    at = []
    for section in (records, names, program.image, program.state, described):
        body += bytes(-len(body) % ALIGN_BYTES)
        at.append(len(body))
        body += section
    _HEADER.pack_into(
        body, 0, FILE_MAGIC, 0, FORMAT_VERSION, len(body), program.fingerprint, at[2], len(program.image),
        program.command_offset, program.command_bytes, program.arena_bytes, at[3], len(program.state),
        at[0], len(program.inputs), len(program.outputs), _PORT.size, at[1], len(names), at[4], len(described))
    struct.pack_into("<I", body, 4, zlib.crc32(body[CRC_FROM:]))
    return bytes(body)


def from_bytes(data: bytes) -> Program:
    """Return the program of a file's contents; ProgramError names the first thing that is wrong."""
    require(len(data) >= _HEADER.size, f"a compiled file has at least {_HEADER.size} bytes, not {len(data)}")
    magic, *words = _HEADER.unpack_from(data)
    head = dict(zip(HEADER_WORDS, words, strict=True))
    require(magic == FILE_MAGIC, f"a compiled file starts with {FILE_MAGIC!r}, not {magic!r}")
    require(head["version"] == FORMAT_VERSION, f"the file has format version {head['version']}, but this program reads "
            f"{FORMAT_VERSION}: compile the model again")
    require(head["file_bytes"] == len(data), f"the file should have {head['file_bytes']} bytes, it has {len(data)}")
    found = zlib.crc32(memoryview(data)[CRC_FROM:])
    require(head["crc"] == found, f"the file is damaged: its checksum is {head['crc']:#010x}, but its contents have "
            f"{found:#010x}")
    require(head["port_bytes"] == _PORT.size, f"port records should have {_PORT.size} bytes, not {head['port_bytes']}")
    count = head["inputs"] + head["outputs"]
    require(count <= MOST_PORTS, f"there may be {MOST_PORTS:,} inputs and outputs, not {count:,}")
    sections = _sections(data, head | {"port_bytes": count * _PORT.size})
    ports = tuple(_read_port(sections["port"], number, sections["names"]) for number in range(count))
    name, config, layers, meta, profile = read_description(sections["json"])
    require(config.fingerprint == head["fingerprint"],
            f"the file's fingerprint {head['fingerprint']:#010x} is not that of its configuration "
            f"{quoted(config.name)}, {config.fingerprint:#010x}: compile the model again")
    program = Program(
        name, config, sections["image"], head["command_offset"], head["command_bytes"], head["arena_bytes"],
        sections["state"], ports[:head["inputs"]], ports[head["inputs"]:], layers, meta, profile)
    check_commands(program)
    return program


def _sections(data: bytes, head: Mapping[str, int]) -> dict[str, bytes]:
    """Return the sections by the name of their words; none lies in another."""
    titles = {"names": "names", "port": "port table", "json": "JSON", "image": "image", "state": "state"}
    found, places = {}, []
    for key, title in titles.items():
        start, size = head[f"{key}_offset"], head[f"{key}_bytes"]
        require(start >= _HEADER.size and start + size <= len(data) and start % ALIGN_BYTES == 0,
                f"the {title} at byte {start}, {size} bytes, must start at a multiple of {ALIGN_BYTES} and lie in the "
                "file")
        found[key] = data[start:start + size]
        if size:
            places.append((start, start + size, title))
    places.sort()
    for (_, end, one), (start, _, other) in zip(places, places[1:], strict=False):
        require(end <= start, f"the {one} must end before the {other} begins, at byte {start}, not at {end}")
    return found


def _read_port(records: bytes, index: int, names: bytes) -> Port:
    (name_at, name_bytes, dtype, edge, rank, region, zero_point, scale, offset, size_bytes,
     *shape) = _PORT.unpack_from(records, index * _PORT.size)
    end = name_at + name_bytes
    require(end < len(names) and names[end] == 0,
            f"the name of port {index} must lie among the names and end with a NUL")
    require(dtype < len(DTYPES) and edge < len(EDGES) and rank <= len(shape),
            f"port {index} has dtype {dtype}, edge {edge}, rank {rank}: one of them is unknown")
    try:
        name = names[name_at:end].decode()
    except UnicodeDecodeError as error:
        raise ProgramError(f"the name of port {index} is not UTF-8: {error.reason}") from None
    return Port(name, list(DTYPES)[dtype], tuple(shape[:rank]), scale, zero_point, offset, size_bytes, EDGES[edge],
                region)


def save(program: Program, path: str | Path) -> None:
    """Write the file; a file of that name is replaced only when the new one is complete."""
    path = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        # mkstemp's files are private; a compiled file has the rights of any other file.
        os.fchmod(handle, new_file_mode())
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
