"""Mutations of compiled files: a file is taken apart, a few of its parts are changed, and it is sealed again.

Whatever is changed, size and checksum are mostly put right, and so is the fingerprint of a changed configuration:
otherwise nothing after the first look at the file would ever be reached.
"""

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tq_hw.isa.config import Config, ConfigError
from tq_hw.isa.encode import EncodeError, decode
from tq_hw.isa.layout import FOLD_BASE, FOLD_ENTRY, UNITS, UOP_BASE, UOP_WORDS, Field, Unit
from tq_hw.isa.program_file import CRC_FROM, FILE_MAGIC, HEADER_WORDS, PORT_MEMBERS
from tq_hw.isa.uop import UOP

__all__ = ["mutate"]

Rng = np.random.Generator

_ALIGN, _HEADER_BYTES = 16, 4 + 4 * len(HEADER_WORDS)
_WORDS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 64, 80, 255, 256, 4096, 65535, 65536, 1 << 20, 1 << 24, 1 << 28, 1 << 30,
          (1 << 31) - 1, 1 << 31, (1 << 32) - 16, (1 << 32) - 1)
_SCALES = (0.0, -0.0, 1.0, -1.0, 1e-46, 1e-38, 1e38, 1e39, 1e300, 5e-324, float("inf"), float("-inf"), float("nan"))
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 63, 255, 65536, 2**31, 2**53, 2**63 - 1, 2**63, 10**30, -(2**63), 0.5, -0.0, 1e300,
    float("nan"), float("inf"), float("-inf"), "", "x", "0", "a\nb", "\x1b[31m", "\0", "\ud800", "ж" * 300,
    "y" * 100_000, "array", "vector", "host", "serial", "%s{0}", [], {}, [[]], [0, 0], [[0, 1]], [[5, 2]], [[-1, 3]],
    [[0, 10**9]], [["0", 1]], [None], {"": None}, {"load": [[0, 0]]}, {"dma": [[0, 0]]})
_ESTIMATES = (0, 1, 100, 5000, 200_000, 10**7, 2**40)


@dataclass
class _Parts:
    """A file taken apart. `head` has what is to stand in the header instead of what would be right."""

    ports: list[bytearray]
    inputs: int
    names: bytearray
    image: bytearray
    state: bytearray
    described: Any
    command_offset: int
    command_bytes: int
    arena_bytes: int
    fingerprint: int
    head: dict[str, int] = field(default_factory=dict)
    text: bytes | None = None


def _take_apart(data: bytes) -> _Parts:
    head = dict(zip(HEADER_WORDS, struct.unpack_from(f"<{len(HEADER_WORDS)}I", data, 4), strict=True))
    size = head["port_bytes"]

    def section(name: str) -> bytes:
        return data[head[f"{name}_offset"]:head[f"{name}_offset"] + head[f"{name}_bytes"]]
    ports = [bytearray(data[head["port_offset"] + size * number:][:size])
             for number in range(head["inputs"] + head["outputs"])]
    return _Parts(ports, head["inputs"], bytearray(section("names")), bytearray(section("image")),
                  bytearray(section("state")), json.loads(section("json")), head["command_offset"],
                  head["command_bytes"], head["arena_bytes"], head["fingerprint"])


def _put_together(parts: _Parts) -> bytearray:
    text = parts.text if parts.text is not None else json.dumps(parts.described).encode()
    body = bytearray(_HEADER_BYTES)
    places = []
    for section in (b"".join(parts.ports), parts.names, parts.image, parts.state, text):
        body += bytes(-len(body) % _ALIGN)
        places.append(len(body))
        body += section
    head = {"crc": 0, "version": 1, "file_bytes": len(body), "fingerprint": parts.fingerprint,
            "image_offset": places[2], "image_bytes": len(parts.image), "command_offset": parts.command_offset,
            "command_bytes": parts.command_bytes, "arena_bytes": parts.arena_bytes, "state_offset": places[3],
            "state_bytes": len(parts.state), "port_offset": places[0], "inputs": parts.inputs,
            "outputs": len(parts.ports) - parts.inputs, "port_bytes": 64, "names_offset": places[1],
            "names_bytes": len(parts.names), "json_offset": places[4], "json_bytes": len(text)} | parts.head
    struct.pack_into(f"<4s{len(HEADER_WORDS)}I", body, 0, FILE_MAGIC, *(head[name] & 0xFFFFFFFF
                                                                         for name in HEADER_WORDS))
    return body


def _pick(rng: Rng, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def _number(rng: Rng, old: int) -> int:
    choice = rng.random()
    if choice < 0.5:
        return int(_pick(rng, _WORDS))
    if choice < 0.8:
        return old + int(rng.integers(-17, 18))
    return old * int(rng.integers(2, 300)) if choice < 0.9 else int(rng.integers(1 << 32))


def _mutate_header(rng: Rng, parts: _Parts) -> None:
    name = str(_pick(rng, list(HEADER_WORDS)[1:]))
    old = {"arena_bytes": parts.arena_bytes, "image_bytes": len(parts.image), "inputs": parts.inputs,
           "command_offset": parts.command_offset, "command_bytes": parts.command_bytes}.get(name, 80)
    parts.head[name] = _number(rng, old)


def _mutate_port(rng: Rng, parts: _Parts) -> None:
    if not parts.ports:
        return
    record = _pick(rng, parts.ports)
    name = str(_pick(rng, list(PORT_MEMBERS)))
    codes = [code for code, _ in PORT_MEMBERS.values()]
    number = list(PORT_MEMBERS).index(name)
    at, code = struct.calcsize("<" + "".join(codes[:number])), codes[number]
    if code == "d":
        struct.pack_into("<d", record, at, float(_pick(rng, _SCALES)))
        return
    if code == "8I":
        at += 4 * int(rng.integers(8))
    size = 1 if code == "B" else 4
    old = int.from_bytes(record[at:at + size], "little")
    record[at:at + size] = (_number(rng, old) & (1 << 8 * size) - 1).to_bytes(size, "little")
    if rng.random() < 0.5:
        # A size that goes with the shape, so that what is after it is looked at.
        shape = struct.unpack_from("<8I", record, 32)[:record[10]]
        width = (1, 1, 2, 4, 8, 4, 1)[record[8] % 7]
        struct.pack_into("<I", record, 28, width * int(np.prod(shape, dtype=object)) & 0xFFFFFFFF)


def _mutate_ports(rng: Rng, parts: _Parts) -> None:
    choice = rng.random()
    if choice < 0.3 and parts.ports:
        parts.ports.insert(int(rng.integers(len(parts.ports) + 1)), bytearray(_pick(rng, parts.ports)))
    elif choice < 0.5 and parts.ports:
        del parts.ports[int(rng.integers(len(parts.ports)))]
    elif choice < 0.7:
        parts.inputs = int(rng.integers(len(parts.ports) + 1))
    elif parts.names:
        at = int(rng.integers(len(parts.names)))
        parts.names[at:at + 1] = rng.bytes(int(rng.integers(0, 4)))


def _places(values: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of everything in a JSON value."""
    keys: Any = list(values) if isinstance(values, dict) else range(len(values)) if isinstance(values, list) else ()
    for key in keys:
        yield values, key
        yield from _places(values[key])


def _mutate_json(rng: Rng, parts: _Parts) -> None:
    places = list(_places(parts.described))
    if not places:
        return
    container, key = _pick(rng, places)
    choice = rng.random()
    if choice < 0.6:
        container[key] = deepcopy(_pick(rng, _VALUES))
    elif choice < 0.75:
        del container[key]
    elif choice < 0.85 and isinstance(container, dict):
        container[str(_pick(rng, ("x", "", "runs", "rows", "name", "gpu", "\ud800")))] = deepcopy(_pick(rng, _VALUES))
    elif isinstance(container, list):
        container.append(deepcopy(container[key]))
    elif isinstance(container[key], int):
        container[key] = _number(rng, container[key])


def _mutate_text(rng: Rng, parts: _Parts) -> None:
    text = bytearray(json.dumps(parts.described).encode())
    choice = rng.random()
    if choice < 0.1:
        depth = int(_pick(rng, (10, 500, 990, 3000, 100_000)))
        text = bytearray(_pick(rng, (b"[" * depth, b"[" * depth + b"]" * depth, b'{"a":' * depth)))
    elif choice < 0.2:
        # Deep lists in a place that may hold anything.
        depth = int(_pick(rng, (10, 200, 400, 900)))
        text = bytearray(text.replace(b'"meta": {', b'"meta": {"deep": ' + b"[" * depth + b"]" * depth + b", ", 1))
    elif choice < 0.4:
        text = text[:int(rng.integers(len(text)))]
    else:
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(text)))
            text[at:at + int(rng.integers(0, 3))] = rng.bytes(int(rng.integers(0, 3)))
    parts.text = bytes(text)


def _mutate_config(rng: Rng, parts: _Parts) -> None:
    """Another configuration, with its own fingerprint."""
    values = parts.described.get("config")
    if not isinstance(values, dict) or "name" not in values:
        return
    name = str(_pick(rng, [key for key in values if key != "name"]))
    changed = values | {name: _pick(rng, (0, 1, 2, 3, 4, 5, 8, 9, 16, 32, 64, 128, 1024, 4096, 8192, 1 << 18, 1 << 20))}
    try:
        config = Config.from_mapping({key: value for key, value in changed.items() if key != "name"}, "fuzz")
    except ConfigError:
        return
    parts.described["config"] = changed
    parts.fingerprint = config.fingerprint


def _mutate_estimates(rng: Rng, parts: _Parts) -> None:
    """Let the layers say other cycles, which is what long operations are held against."""
    layers = parts.described.get("layers")
    for layer in layers if isinstance(layers, list) else ():
        if isinstance(layer, dict) and rng.random() < 0.5:
            layer["estimated_cycles"] = int(_pick(rng, _ESTIMATES))


def _mutate_bytes(rng: Rng, parts: _Parts) -> None:
    where = parts.image if rng.random() < 0.9 or not parts.state else parts.state
    if not where:
        return
    for _ in range(int(rng.integers(1, 9))):
        where[int(rng.integers(len(where)))] = int(_pick(rng, (0, 1, 127, 128, 255, int(rng.integers(256)))))


def _mutate_size(rng: Rng, parts: _Parts) -> None:
    choice = rng.random()
    if choice < 0.4:
        parts.arena_bytes = max(0, _number(rng, parts.arena_bytes)) & 0xFFFFFFFF
    elif choice < 0.7:
        parts.state = parts.state[:int(rng.integers(len(parts.state) + 1))] + rng.bytes(int(rng.integers(0, 40)))
    else:
        parts.image += bytes(int(rng.integers(0, 200)))
        parts.command_bytes = max(0, parts.command_bytes + 4 * int(rng.integers(-8, 9)))


def _commands(parts: _Parts) -> list[tuple[int, int, int, list[int]]]:
    """Return the commands as (unit, run, first, values); without what does not keep to the layout."""
    found: list[tuple[int, int, int, list[int]]] = []
    try:
        config = Config.from_mapping({k: v for k, v in parts.described["config"].items() if k != "name"}, "fuzz")
        end = parts.command_offset + parts.command_bytes
        for command in decode(bytes(parts.image[parts.command_offset:end]), config):
            found.append((command.unit, command.run, command.first, list(command.values)))
    except (EncodeError, ConfigError, KeyError, TypeError, AttributeError):
        pass
    return found


def _field_value(rng: Rng, one: Field, old: int) -> int:
    choice = rng.random()
    if choice < 0.45:
        value = int(_pick(rng, (0, 1, 2, 3, one.low, one.high, one.high // 2, one.high - 1, one.high // 256 + 1)))
    elif choice < 0.85:
        value = old + int(rng.integers(-4, 5))
    else:
        value = int(rng.integers(one.low, one.high + 1))
    return value & (1 << one.bits) - 1


def _fields_of(unit: int, register: int) -> Sequence[Field]:
    if unit == Unit.VECTOR and register >= UOP_BASE:
        return UOP[(register - UOP_BASE) % UOP_WORDS].fields
    if unit == Unit.ARRAY and register >= FOLD_BASE:
        return FOLD_ENTRY.fields
    registers = UNITS[Unit(unit)].registers
    return registers[register].fields if register < len(registers) else ()


def _mutate_field(rng: Rng, commands: list[tuple[int, int, int, list[int]]]) -> None:
    """Change a field of a command, or write a register in front of one that lets it be."""
    at = int(rng.integers(len(commands)))
    unit, _, first, values = commands[at]
    if unit not in UNITS:
        return
    if values and rng.random() < 0.6:
        place = int(rng.integers(len(values)))
        fields = _fields_of(unit, first + place)
        if fields:
            one = _pick(rng, fields)
            old = values[place] >> one.offset & (1 << one.bits) - 1
            values[place] ^= (old ^ _field_value(rng, one, old)) << one.offset
        return
    layout = UNITS[Unit(unit)]
    register, one = layout.fields[str(_pick(rng, list(layout.fields)))]
    commands.insert(at, (unit, 0, register.index, [_field_value(rng, one, 1) << one.offset]))


def _mutate_commands(rng: Rng, parts: _Parts) -> None:
    commands = _commands(parts)
    if not commands:
        return
    for _ in range(int(rng.integers(1, 4))):
        at, other = (int(number) for number in rng.integers(len(commands), size=2))
        unit, run, first, values = commands[at]
        choice = rng.random()
        if choice < 0.75:
            _mutate_field(rng, commands)
        elif choice < 0.8:
            commands[at] = (unit, 1 - run, first, values)
        elif choice < 0.84:
            commands[at] = (int(rng.integers(0, 6)), run, first, values)
        elif choice < 0.88:
            commands[at], commands[other] = commands[other], commands[at]
        elif choice < 0.92 and len(commands) > 1:
            del commands[at]
        elif choice < 0.96:
            commands[at:at] = [(unit, run, first, list(values))] * int(_pick(rng, (1, 2, 300)))
        else:
            commands[at] = (unit, run, int(_pick(rng, (0, 1, 15, 16, 17, 63, 64, 255, 511, 1023))), values)
    words = []
    for unit, run, first, values in commands:
        words += [unit & 7 | int(run) << 3 | (first & 1023) << 4 | (len(values) & 1023) << 14, *values]
    text = struct.pack(f"<{len(words)}I", *(word & 0xFFFFFFFF for word in words))
    parts.image[parts.command_offset:parts.command_offset + parts.command_bytes] = text
    parts.command_bytes = len(text)


def _mutate_words(rng: Rng, parts: _Parts) -> None:
    """Change words of the commands without a look at what they are."""
    for _ in range(int(rng.integers(1, 4))):
        at = parts.command_offset + 4 * int(rng.integers(max(parts.command_bytes // 4, 1)))
        if at + 4 <= len(parts.image):
            old, = struct.unpack_from("<I", parts.image, at)
            new = old ^ 1 << int(rng.integers(32)) if rng.random() < 0.5 else _number(rng, old)
            struct.pack_into("<I", parts.image, at, new & 0xFFFFFFFF)


#: How often each kind of mutation is made.
_KINDS: Sequence[tuple[float, Callable[[Rng, _Parts], None]]] = (
    (0.06, _mutate_header), (0.08, _mutate_port), (0.04, _mutate_ports), (0.12, _mutate_json), (0.04, _mutate_text),
    (0.03, _mutate_config), (0.08, _mutate_estimates), (0.05, _mutate_bytes), (0.05, _mutate_size),
    (0.38, _mutate_commands), (0.07, _mutate_words))


def mutate(rng: Rng, data: bytes) -> bytes:
    """Change one to three parts of a compiled file; now and then bytes anywhere, the length, or the checksum."""
    parts = _take_apart(data)
    shares = np.array([share for share, _ in _KINDS])
    for which in rng.choice(len(_KINDS), int(rng.integers(1, 4)), p=shares / shares.sum()):
        _KINDS[int(which)][1](rng, parts)
    out = _put_together(parts)
    right_size = "file_bytes" not in parts.head
    if rng.random() < 0.03:
        at = int(rng.integers(len(out)))
        out[at:at + 4] = rng.bytes(4)
    if rng.random() < 0.03:
        out = out[:int(rng.integers(len(out)))] if rng.random() < 0.5 else out + rng.bytes(int(rng.integers(1, 40)))
        right_size = rng.random() < 0.8
    if len(out) >= _HEADER_BYTES and rng.random() < 0.98:
        if right_size:
            struct.pack_into("<I", out, 12, len(out))
        struct.pack_into("<I", out, 4, zlib.crc32(out[CRC_FROM:]))
    return bytes(out)
