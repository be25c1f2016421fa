"""Compile the runtime for a LiteX SoC: firmware/runtime and firmware/litex against LiteX's headers."""

import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tq_hw.boards.build.firmware import FIRMWARE, Firmware, read_elf
from tq_hw.boards.build.soc_header import image_lines
from tq_hw.isa.c_header import defines, guarded
from tq_hw.model.errors import MissingToolError, OptionError, ToolError, last_words

__all__ = ["LitexProgram", "build_litex_firmware"]

_SOURCES = ("runtime/start.S", "runtime/main.c", "runtime/console.c", "runtime/check.c", "runtime/string.c",
            "litex/uart.c", "litex/memory.c", "driver/tq.c", "driver/tq_mmio.c")
#: LiteX's headers need gcc's extensions of C11.
_FLAGS = ("-std=gnu11", "-ffreestanding", "-Os", "-ffunction-sections", "-Wall", "-Wextra", "-Werror", "-nostdlib",
          "-Wl,--gc-sections,-e,tq_start")
_MARCH = re.compile(r"-march=rv32i(?:2p0)?_?([a-z]*)\b")


@dataclass(frozen=True)
class LitexProgram:
    """The program to compile and its address map, as the processor sees it.

    Members
    -------
    name : of the accelerator in the SoC
    board : for the first line that it prints
    include_dir : of LiteX's generated headers: the folder that contains `generated/`
    cpu : LiteX's name of the processor, such as "vexriscv"
    cpu_flags : LiteX's compiler flags for it
    code, data : origin and bytes of the region for code, and for variables and stack; they may be the same
    image : address of the image: `tq_hw.boards.soc.map.flash_image`
    booted : LiteX's BIOS ran before and initialized the memory
    """

    name: str
    board: str
    include_dir: Path
    cpu: str
    cpu_flags: str
    code: tuple[int, int]
    data: tuple[int, int]
    image: int
    booted: bool = False


def _header(program: LitexProgram) -> Iterator[str]:
    macro = program.name.upper()
    yield from ("", "#include <generated/mem.h>", "", f'#define TQ_BOARD_NAME "{program.board}"',
                f"#define TQ_BOARD_MEMORY_BYTES ((uint32_t){macro}_MEMORY_SIZE)",
                f"#define TQ_SOC_MEMORY ((uint32_t){macro}_MEMORY_BASE)",
                "#define TQ_SOC_MEMORY_ADDRESS TQ_SOC_MEMORY",
                f"#define TQ_SOC_ACCELERATOR ((uint32_t){macro}_BASE)")
    yield from defines("The image, and whether the BIOS ran before.", (
        ("soc_flash", program.image), ("litex_booted", int(program.booted))), "#x")
    yield from image_lines(0)


def _linker_script(program: LitexProgram) -> str:
    code, data = program.code, program.data
    regions = f"code (rx) : ORIGIN = {code[0]:#x}, LENGTH = {code[1]:#x}"
    if data != code:
        regions += f"\n    data (rw) : ORIGIN = {data[0]:#x}, LENGTH = {data[1]:#x}"
    where = "code" if data == code else "data"
    bss = "tq_bss = .; *(.bss .bss.* .sbss .sbss.* COMMON) . = ALIGN(4); tq_bss_end = .;"
    # An initialized variable would have to be copied from the code region.
    refuse = "" if data == code else 'ASSERT(SIZEOF(.data) == 0, "variables with first values")'
    return f"""ENTRY(tq_start)
MEMORY {{
    {regions}
}}
SECTIONS {{
    .text : {{ KEEP(*(.start)) *(.text .text.*) *(.rodata .rodata.* .srodata .srodata.*) }} > code
    .data : ALIGN(4) {{ *(.data .data.* .sdata .sdata.*) . = ALIGN(4); }} > {where}
    .bss (NOLOAD) : ALIGN(4) {{ {bss} }} > {where}
    tq_stack_top = ORIGIN({where}) + LENGTH({where});
    /DISCARD/ : {{ *(.comment) *(.note*) *(.eh_frame*) *(.riscv.attributes) }}
}}
{refuse}
"""


def build_litex_firmware(program: LitexProgram) -> Firmware:
    """Return the runtime for a SoC with generated headers; its image begins at the origin of `code`.

    Raises OptionError for a processor that is not RV32, MissingToolError without ziglang or LiteX, ToolError when it
    does not compile.
    """
    march = _MARCH.search(program.cpu_flags)
    if march is None:
        raise OptionError(f"the firmware is for RV32 processors, not for {program.cpu} "
                          f"({program.cpu_flags.strip()})")
    for package in ("ziglang", "litex"):
        if importlib.util.find_spec(package) is None:
            raise MissingToolError(f'the Python package {package} is not installed: pip install "tq-hw[litex]"')
    spec = importlib.util.find_spec("litex")
    assert spec is not None and spec.origin is not None
    litex = Path(spec.origin).parent / "soc"
    features = "".join(f"+{letter}" for letter in "mac" if letter in march.group(1))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "tq_soc.h").write_text(guarded("TQ_SOC_H", "tq_hw.boards.build.litex_firmware", "the SoC",
                                                 _header(program)), encoding="utf-8")
        (folder / "tq_soc.ld").write_text(_linker_script(program), encoding="utf-8")
        system = [flag for path in (program.include_dir, litex / "software" / "include", litex / "cores" / "cpu" /
                                    program.cpu) for flag in ("-isystem", str(path))]
        run = subprocess.run([
            sys.executable, "-m", "ziglang", "cc", "-target", "riscv32-freestanding-none",
            f"-mcpu=generic_rv32{features}+zicsr", *_FLAGS, "-I", place, "-I", str(FIRMWARE / "runtime"), "-I",
            str(FIRMWARE / "driver"), *system, "-T", str(folder / "tq_soc.ld"),
            *(str(FIRMWARE / source) for source in _SOURCES), "-o", str(folder / "program.elf")],
            capture_output=True, encoding="utf-8", errors="replace", check=False)
        if run.returncode:
            raise ToolError(f"zig did not compile the runtime; {last_words(run.stderr)}")
        image, used = read_elf((folder / "program.elf").read_bytes(), *program.code)
    return Firmware(image, used, "zig")
