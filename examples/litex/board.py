"""Shared by ulx3s.py and arty.py: the accelerator in a board's SoC of LiteX, and the files to start it."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tq_hw.boards.build.litex_firmware import LitexProgram, build_litex_firmware
from tq_hw.boards.soc.map import flash_image
from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.program_file import to_bytes
from tq_hw.litex import add_tq_hw
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim import edges

DIGITS = Path(__file__).parents[2] / "model" / "samples" / "digits.tflite"
#: Of the main memory: the program with its stack, then the image.
PROGRAM_BYTES = 1 << 20


def main(board: str, config: str, make_soc: Callable[[], Any]) -> None:
    """Generate, or with --build make the BIOS and the bitstream; write the files that `litex_term --images` loads."""
    parser = argparse.ArgumentParser(description=f"The accelerator in LiteX's SoC for {board}.")
    parser.add_argument("--config", default=config)
    parser.add_argument("--model", type=Path, default=DIGITS)
    parser.add_argument("--sets", type=int, default=1, help="input sets, drawn")
    parser.add_argument("--build", action="store_true", help="make LiteX's BIOS (needs a RISC-V gcc, meson and ninja) "
                        "and the bitstream (needs the board's toolchain)")
    parser.add_argument("--folder", type=Path, default=Path("build") / f"litex_{board}")
    options = parser.parse_args()
    # LiteX's parts read the command line, too.
    sys.argv[1:] = []
    from litex.soc.integration.builder import Builder

    folder = options.folder.resolve()
    soc = make_soc()
    unit = add_tq_hw(soc, options.config)
    builder = Builder(soc, output_dir=str(folder), compile_software=options.build, compile_gateware=options.build)
    builder.build()
    memory = soc.bus.regions["main_ram"].origin
    program = build_litex_firmware(LitexProgram(
        "tq_hw", board, Path(builder.include_dir), "vexriscv", soc.cpu.gcc_flags, (memory, PROGRAM_BYTES),
        (memory, PROGRAM_BYTES), memory + PROGRAM_BYTES, booted=True))
    model = read_model(str(options.model))
    compiled = compile_model(model, load_config(options.config)).program
    image = flash_image(to_bytes(compiled), [b"".join(
        edges.to_port(port, array) for port, array in zip(compiled.inputs, one, strict=True))
        for one in draw_inputs(model, options.sets, 0)])
    (folder / "image.bin").write_bytes(image)
    (folder / "program.bin").write_bytes(program.image)
    # The last one is started.
    (folder / "images.json").write_text(json.dumps({"image.bin": hex(memory + PROGRAM_BYTES),
                                                    "program.bin": hex(memory)}, indent=1) + "\n",
                                        encoding="utf-8")
    print(f"{folder}: {board} with {unit.config.name}, {model.name}; load it with: litex_term --images "
          f"{folder / 'images.json'} PORT")
