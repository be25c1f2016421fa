"""Mutations of compiled files: a file is taken apart, some of its parts are changed, and it is sealed again.

Size and checksum are corrected in most cases, and so is the fingerprint of a changed configuration. Otherwise the first
checks would refuse every file, and nothing after them would be tested.
"""

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from command_mutations import mutate_commands, mutate_words
from program_parts import HEADER_BYTES, Parts, Rng, new_number, pick, put_together, take_apart

from tq_hw.isa.config import Config, ConfigError
from tq_hw.isa.program_file import CRC_FROM, HEADER_WORDS, PORT_MEMBERS

__all__ = ["mutate"]

_SCALES = (0.0, -0.0, 1.0, -1.0, 1e-46, 1e-38, 1e38, 1e39, 1e300, 5e-324, float("inf"), float("-inf"), float("nan"))
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 63, 255, 65536, 2**31, 2**53, 2**63 - 1, 2**63, 10**30, -(2**63), 0.5, -0.0, 1e300,
    float("nan"), float("inf"), float("-inf"), "", "x", "0", "a\nb", "\x1b[31m", "\0", "\ud800", "ж" * 300,
    "y" * 100_000, "array", "vector", "host", "serial", "%s{0}", [], {}, [[]], [0, 0], [[0, 1]], [[5, 2]], [[-1, 3]],
    [[0, 10**9]], [["0", 1]], [None], {"": None}, {"load": [[0, 0]]}, {"dma": [[0, 0]]})
_ESTIMATES = (0, 1, 100, 5000, 200_000, 10**7, 2**40)


def _mutate_header(rng: Rng, parts: Parts) -> None:
    name = str(pick(rng, list(HEADER_WORDS)[1:]))
    old = {"arena_bytes": parts.arena_bytes, "image_bytes": len(parts.image), "inputs": parts.inputs,
           "command_offset": parts.command_offset, "command_bytes": parts.command_bytes}.get(name, 80)
    parts.head[name] = new_number(rng, old)


def _mutate_port(rng: Rng, parts: Parts) -> None:
    if not parts.ports:
        return
    record = pick(rng, parts.ports)
    name = str(pick(rng, list(PORT_MEMBERS)))
    codes = [code for code, _ in PORT_MEMBERS.values()]
    number = list(PORT_MEMBERS).index(name)
    at, code = struct.calcsize("<" + "".join(codes[:number])), codes[number]
    if code == "d":
        struct.pack_into("<d", record, at, float(pick(rng, _SCALES)))
        return
    if code == "8I":
        at += 4 * int(rng.integers(8))
    size = 1 if code == "B" else 4
    old = int.from_bytes(record[at:at + size], "little")
    record[at:at + size] = (new_number(rng, old) & (1 << 8 * size) - 1).to_bytes(size, "little")
    if rng.random() < 0.5:
        # Use the size that matches the shape, so that the checks after it are reached.
        shape = struct.unpack_from("<8I", record, 32)[:record[10]]
        width = (1, 1, 2, 4, 8, 4, 1)[record[8] % 7]
        struct.pack_into("<I", record, 28, width * int(np.prod(shape, dtype=object)) & 0xFFFFFFFF)


def _mutate_ports(rng: Rng, parts: Parts) -> None:
    choice = rng.random()
    if choice < 0.3 and parts.ports:
        parts.ports.insert(int(rng.integers(len(parts.ports) + 1)), bytearray(pick(rng, parts.ports)))
    elif choice < 0.5 and parts.ports:
        del parts.ports[int(rng.integers(len(parts.ports)))]
    elif choice < 0.7:
        parts.inputs = int(rng.integers(len(parts.ports) + 1))
    elif parts.names:
        at = int(rng.integers(len(parts.names)))
        parts.names[at:at + 1] = rng.bytes(int(rng.integers(0, 4)))


def _places(values: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every item in a JSON value."""
    keys: Any = list(values) if isinstance(values, dict) else range(len(values)) if isinstance(values, list) else ()
    for key in keys:
        yield values, key
        yield from _places(values[key])


def _mutate_json(rng: Rng, parts: Parts) -> None:
    places = list(_places(parts.described))
    if not places:
        return
    container, key = pick(rng, places)
    choice = rng.random()
    if choice < 0.6:
        container[key] = deepcopy(pick(rng, _VALUES))
    elif choice < 0.75:
        del container[key]
    elif choice < 0.85 and isinstance(container, dict):
        container[str(pick(rng, ("x", "", "runs", "rows", "name", "gpu", "\ud800")))] = deepcopy(pick(rng, _VALUES))
    elif isinstance(container, list):
        container.append(deepcopy(container[key]))
    elif isinstance(container[key], int):
        container[key] = new_number(rng, container[key])


def _mutate_text(rng: Rng, parts: Parts) -> None:
    text = bytearray(json.dumps(parts.described).encode())
    choice = rng.random()
    if choice < 0.1:
        depth = int(pick(rng, (10, 500, 990, 3000, 100_000)))
        text = bytearray(pick(rng, (b"[" * depth, b"[" * depth + b"]" * depth, b'{"a":' * depth)))
    elif choice < 0.2:
        # Deeply nested lists in a field that accepts any value.
        depth = int(pick(rng, (10, 200, 400, 900)))
        text = bytearray(text.replace(b'"meta": {', b'"meta": {"deep": ' + b"[" * depth + b"]" * depth + b", ", 1))
    elif choice < 0.4:
        text = text[:int(rng.integers(len(text)))]
    else:
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(text)))
            text[at:at + int(rng.integers(0, 3))] = rng.bytes(int(rng.integers(0, 3)))
    parts.text = bytes(text)


def _mutate_config(rng: Rng, parts: Parts) -> None:
    """Change the configuration, with its fingerprint."""
    values = parts.described.get("config")
    if not isinstance(values, dict) or "name" not in values:
        return
    name = str(pick(rng, [key for key in values if key != "name"]))
    changed = values | {name: pick(rng, (0, 1, 2, 3, 4, 5, 8, 9, 16, 32, 64, 128, 1024, 4096, 8192, 1 << 18, 1 << 20))}
    try:
        config = Config.from_mapping({key: value for key, value in changed.items() if key != "name"}, "fuzz")
    except ConfigError:
        return
    parts.described["config"] = changed
    parts.fingerprint = config.fingerprint


def _mutate_estimates(rng: Rng, parts: Parts) -> None:
    """Change the estimated cycles of layers, from which time limits of long operations are derived."""
    layers = parts.described.get("layers")
    for layer in layers if isinstance(layers, list) else ():
        if isinstance(layer, dict) and rng.random() < 0.5:
            layer["estimated_cycles"] = int(pick(rng, _ESTIMATES))


def _mutate_bytes(rng: Rng, parts: Parts) -> None:
    where = parts.image if rng.random() < 0.9 or not parts.state else parts.state
    if not where:
        return
    for _ in range(int(rng.integers(1, 9))):
        where[int(rng.integers(len(where)))] = int(pick(rng, (0, 1, 127, 128, 255, int(rng.integers(256)))))


def _mutate_size(rng: Rng, parts: Parts) -> None:
    choice = rng.random()
    if choice < 0.4:
        parts.arena_bytes = max(0, new_number(rng, parts.arena_bytes)) & 0xFFFFFFFF
    elif choice < 0.7:
        parts.state = parts.state[:int(rng.integers(len(parts.state) + 1))] + rng.bytes(int(rng.integers(0, 40)))
    else:
        parts.image += bytes(int(rng.integers(0, 200)))
        parts.command_bytes = max(0, parts.command_bytes + 4 * int(rng.integers(-8, 9)))


#: The frequency of each kind of mutation.
_KINDS: Sequence[tuple[float, Callable[[Rng, Parts], None]]] = (
    (0.06, _mutate_header), (0.08, _mutate_port), (0.04, _mutate_ports), (0.12, _mutate_json), (0.04, _mutate_text),
    (0.03, _mutate_config), (0.08, _mutate_estimates), (0.05, _mutate_bytes), (0.05, _mutate_size),
    (0.38, mutate_commands), (0.07, mutate_words))


def mutate(rng: Rng, data: bytes) -> bytes:
    """Change one to three parts of a compiled file; occasionally any bytes, the length, or the checksum."""
    parts = take_apart(data)
    shares = np.array([share for share, _ in _KINDS])
    for which in rng.choice(len(_KINDS), int(rng.integers(1, 4)), p=shares / shares.sum()):
        _KINDS[int(which)][1](rng, parts)
    out = put_together(parts)
    right_size = "file_bytes" not in parts.head
    if rng.random() < 0.03:
        at = int(rng.integers(len(out)))
        out[at:at + 4] = rng.bytes(4)
    if rng.random() < 0.03:
        out = out[:int(rng.integers(len(out)))] if rng.random() < 0.5 else out + rng.bytes(int(rng.integers(1, 40)))
        right_size = rng.random() < 0.8
    if len(out) >= HEADER_BYTES and rng.random() < 0.98:
        if right_size:
            struct.pack_into("<I", out, 12, len(out))
        struct.pack_into("<I", out, 4, zlib.crc32(out[CRC_FROM:]))
    return bytes(out)
