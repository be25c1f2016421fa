"""The soft core's view of the system: memory map, device registers, and the image in flash.

`boards/soc/soc.py` decodes these addresses; `boards/build/soc_header.py` writes them for C and the linker.
"""

import zlib
from collections.abc import Sequence
from enum import IntEnum

__all__ = ["FLASH_FILE", "FLASH_HEADER_WORDS", "FLASH_MAGIC", "FLASH_OFFSET", "FLASH_VERSION", "RAM_BYTES", "Device",
           "Region", "flash_image"]

#: Block RAM for code, data and stack.
RAM_BYTES = 16 << 10
#: Where the image begins in the board's flash: after the largest bitstream.
FLASH_OFFSET = 4 << 20
#: File name of the image in a build's folder.
FLASH_FILE = "flash.bin"


class Region(IntEnum):
    """Byte addresses of the processor; the highest four bits decide."""

    #: code, data and stack
    RAM = 0x00000000
    #: the board's flash from its first byte on, for reading
    FLASH = 0x20000000
    #: the accelerator's memory from its byte 0 on, up to 1 GiB
    MEMORY = 0x40000000
    #: registers of the DRAM controller, for writing
    DRAM = 0xD0000000
    #: registers of `Device`
    DEVICES = 0xE0000000
    #: registers of isa/control.py
    ACCELERATOR = 0xF0000000


class Device(IntEnum):
    """Byte offsets of the devices' registers."""

    #: write: send the low byte, waits until the line is free; read: a byte that came, or bit 8 when none did
    UART = 0
    #: read: cycles since reset, modulo 2^32
    TIMER = 4


FLASH_MAGIC = int.from_bytes(b"TQFL", "little")
FLASH_VERSION = 1
#: Words of the header. The CRC-32 covers everything between it and the model, which has a CRC of its own. Offsets count
#: from the magic; `set_bytes` is the size of one inference's inputs, which are consecutive.
FLASH_HEADER_WORDS = ("magic", "crc", "version", "model_offset", "model_bytes", "sets", "set_bytes", "inputs_offset")
_ALIGN = 16


def flash_image(model: bytes, sets: Sequence[bytes]) -> bytes:
    """Return the image for FLASH_OFFSET: a compiled file, and the stored inputs of each inference.

    ValueError when the sets do not have the same size.
    """
    set_bytes = len(sets[0]) if sets else 0
    if any(len(one) != set_bytes for one in sets):
        raise ValueError("all sets of inputs must have the same size")
    inputs_at = 4 * len(FLASH_HEADER_WORDS)
    inputs = b"".join(sets)
    inputs += bytes(-len(inputs) % _ALIGN)
    words = (FLASH_VERSION, inputs_at + len(inputs), len(model), len(sets), set_bytes, inputs_at)
    rest = b"".join(word.to_bytes(4, "little") for word in words) + inputs
    return FLASH_MAGIC.to_bytes(4, "little") + zlib.crc32(rest).to_bytes(4, "little") + rest + model
