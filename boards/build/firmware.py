"""Compile firmware/runtime for a board with a soft core, with whichever RISC-V compiler is installed."""

import importlib.util
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tq_hw.boards.build.soc_header import SocFacts, header, linker_script
from tq_hw.boards.soc.map import RAM_BYTES
from tq_hw.model.errors import MissingToolError, ToolError, last_words

__all__ = ["FIRMWARE", "SOURCES", "Firmware", "build_firmware", "find_compiler"]

FIRMWARE = Path(str(files("tq_hw.firmware")))
_GCC = "riscv64-unknown-elf-gcc"
SOURCES = ("runtime/start.S", "runtime/main.c", "runtime/console.c", "runtime/uart.c", "runtime/memory.c",
           "runtime/check.c", "runtime/string.c", "driver/tq.c", "driver/tq_mmio.c")
_FLAGS = ("-std=c11", "-ffreestanding", "-Os", "-ffunction-sections", "-Wall", "-Wextra", "-Wconversion", "-Werror",
          "-nostdlib", "-Wl,--gc-sections,-e,tq_start")
#: In an ELF file: the header's offset to the program headers, and the type of a loaded segment.
_ELF_PROGRAM_HEADERS, _LOADED = 28, 1


@dataclass(frozen=True)
class Firmware:
    """A compiled program.

    Members
    -------
    image : initial contents of block RAM
    ram_bytes : code, data and variables; the stack has the rest of RAM_BYTES
    compiler : the compiler that was used
    """

    image: bytes
    ram_bytes: int
    compiler: str


def find_compiler() -> tuple[str, list[str]]:
    """Return name and command of a RISC-V compiler, with the options that select the processor.

    Debian's gcc has priority over the Python package ziglang; MissingToolError when there is neither.
    """
    if shutil.which(_GCC) is not None:
        return _GCC, [_GCC, "-march=rv32im_zicsr", "-mabi=ilp32", "-Wl,--no-warn-rwx-segments"]
    if importlib.util.find_spec("ziglang") is not None:
        return "zig", [sys.executable, "-m", "ziglang", "cc", "-target", "riscv32-freestanding-none",
                       "-mcpu=generic_rv32+m+zicsr"]
    raise MissingToolError(f"no RISC-V compiler is installed: pip install ziglang, or on Debian and Ubuntu: "
                           f"apt install gcc-riscv64-unknown-elf (program {_GCC})")


def build_firmware(facts: SocFacts) -> Firmware:
    """Return the runtime of a board; ToolError when it does not compile or does not fit."""
    name, command = find_compiler()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "tq_soc.h").write_text(header(facts), encoding="utf-8")
        (folder / "tq_soc.ld").write_text(linker_script(), encoding="utf-8")
        target = folder / "runtime.elf"
        run = subprocess.run([*command, *_FLAGS, "-I", str(folder), "-I", str(FIRMWARE / "driver"), "-T",
                              str(folder / "tq_soc.ld"), *(str(FIRMWARE / source) for source in SOURCES), "-o",
                              str(target)], capture_output=True, encoding="utf-8", errors="replace", check=False)
        if run.returncode:
            raise ToolError(f"{name} did not compile the runtime; {last_words(run.stderr)}")
        image, ram_bytes = read_elf(target.read_bytes())
    return Firmware(image, ram_bytes, name)


def read_elf(data: bytes, origin: int = 0, size_bytes: int = RAM_BYTES) -> tuple[bytes, int]:
    """Return the contents of memory from address `origin` on, and how much of it the program occupies.

    `data` is a 32-bit little-endian ELF file; ToolError for another, and for one with contents beyond `size_bytes`.
    Segments without contents may lie elsewhere.
    """
    if data[:6] != b"\x7fELF\x01\x01":
        raise ToolError("the compiler did not write a 32-bit little-endian ELF file")
    at, = struct.unpack_from("<I", data, _ELF_PROGRAM_HEADERS)
    size, count = struct.unpack_from("<HH", data, 42)
    image = bytearray(size_bytes)
    end = used = 0
    for number in range(count):
        kind, offset, address, _physical, file_bytes, memory_bytes = struct.unpack_from("<6I", data, at + number * size)
        if kind != _LOADED:
            continue
        address -= origin
        if not file_bytes and not 0 <= address < size_bytes:
            continue
        if address < 0 or address + memory_bytes > size_bytes:
            raise ToolError(f"the program needs {address + memory_bytes} bytes, block RAM has {size_bytes}")
        image[address:address + file_bytes] = data[offset:offset + file_bytes]
        end, used = max(end, address + file_bytes), max(used, address + memory_bytes)
    return bytes(image[:end]), used
