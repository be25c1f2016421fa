"""A compiled file taken apart and put together again, for mutations of its parts."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tq_hw.isa.program_file import FILE_MAGIC, HEADER_WORDS

__all__ = ["HEADER_BYTES", "Parts", "Rng", "new_number", "pick", "put_together", "take_apart"]

Rng = np.random.Generator

_ALIGN, HEADER_BYTES = 16, 4 + 4 * len(HEADER_WORDS)
_WORDS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 64, 80, 255, 256, 4096, 65535, 65536, 1 << 20, 1 << 24, 1 << 28, 1 << 30,
          (1 << 31) - 1, 1 << 31, (1 << 32) - 16, (1 << 32) - 1)


@dataclass
class Parts:
    """The parts of a file. `head` overrides values of the header."""

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


def take_apart(data: bytes) -> Parts:
    """Return the parts of a compiled file."""
    head = dict(zip(HEADER_WORDS, struct.unpack_from(f"<{len(HEADER_WORDS)}I", data, 4), strict=True))
    size = head["port_bytes"]

    def section(name: str) -> bytes:
        return data[head[f"{name}_offset"]:head[f"{name}_offset"] + head[f"{name}_bytes"]]
    ports = [bytearray(data[head["port_offset"] + size * number:][:size])
             for number in range(head["inputs"] + head["outputs"])]
    return Parts(ports, head["inputs"], bytearray(section("names")), bytearray(section("image")),
                  bytearray(section("state")), json.loads(section("json")), head["command_offset"],
                  head["command_bytes"], head["arena_bytes"], head["fingerprint"])


def put_together(parts: Parts) -> bytearray:
    """Return the file made of the parts, with a checksum of 0."""
    text = parts.text if parts.text is not None else json.dumps(parts.described).encode()
    body = bytearray(HEADER_BYTES)
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


def pick(rng: Rng, values: Sequence[Any]) -> Any:
    """Return a random element."""
    return values[int(rng.integers(len(values)))]


def new_number(rng: Rng, old: int) -> int:
    """Return a number to replace `old`: a boundary value, one near it, a multiple, or any."""
    choice = rng.random()
    if choice < 0.5:
        return int(pick(rng, _WORDS))
    if choice < 0.8:
        return old + int(rng.integers(-17, 18))
    return old * int(rng.integers(2, 300)) if choice < 0.9 else int(rng.integers(1 << 32))
