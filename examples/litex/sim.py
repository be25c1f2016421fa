"""Run a model on a simulated LiteX SoC: VexRiscv, LiteDRAM with its model of an SDRAM, the accelerator, a UART.

    python examples/litex/sim.py --config n8                      # the digits network
    python examples/litex/sim.py --config n8 --model kws.tflite

The SoC is LiteX's own (`SoCCore`), built by LiteX's own builder; only `add_tq_hw` is added. The firmware starts
from ROM, initializes the DRAM with LiteX's sequence, loads the model and runs it. Every integer that it prints is
compared with the golden model.
"""

import argparse
import contextlib
import hashlib
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tq_hw.boards.build.litex_firmware import LitexProgram, build_litex_firmware
from tq_hw.boards.soc.map import flash_image
from tq_hw.cli.emulation.soc import read_console
from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim import edges
from tq_hw.sim.golden.run import run
from tq_hw.sim.rtl.tools import verilator

HERE = Path(__file__).parent
DIGITS = HERE.parents[1] / "model" / "samples" / "digits.tflite"
CLOCK_HZ = 50_000_000
ROM_BYTES = 0x4000
IMAGE_AT = 0x20000000
SERIAL = {"source_valid": 1, "source_ready": 1, "source_data": 8, "sink_valid": 1, "sink_ready": 1, "sink_data": 8}


class Writer:
    """LiteX's toolchain for the simulation: it only writes the Verilog."""

    def build(self, platform: Any, soc: Any, build_dir: str, build_name: str, **_: object) -> Any:
        """Write NAME.v and the memories' contents into the folder."""
        fragment = soc.get_fragment()
        platform.finalize(fragment)
        verilog = platform.get_verilog(fragment, name=build_name)
        with contextlib.chdir(build_dir):
            verilog.write(f"{build_name}.v")
        return verilog.ns


def words(data: bytes) -> list[int]:
    """Return the contents of a LiteX ROM."""
    return [int(word) for word in np.frombuffer(data + bytes(-len(data) % 4), "<u4")]


def make_soc(config: Config, options: argparse.Namespace, image: bytes) -> Any:
    """Return the SoC; its ROM is filled when the headers for the firmware exist."""
    from litedram.modules import MT41K128M16, MT48LC16M16
    from litedram.phy.model import SDRAMPHYModel
    from litex.build.generic_platform import Pins, Subsignal
    from litex.build.io import CRG
    from litex.build.sim import SimPlatform
    from litex.soc.integration.soc_core import SoCCore

    from tq_hw.litex import add_tq_hw

    platform = SimPlatform("SIM", [("sys_clk", 0, Pins(1)), ("sys_rst", 0, Pins(1)), ("serial", 0, *(
        Subsignal(name, Pins(width)) for name, width in SERIAL.items()))])
    platform.toolchain = Writer()
    integrated = options.ram == "integrated"
    soc = SoCCore(platform, CLOCK_HZ, cpu_type="vexriscv", cpu_variant=options.cpu_variant, uart_name="sim",
                  integrated_rom_size=ROM_BYTES, integrated_sram_size=0x2000, timer_uptime=True,
                  integrated_main_ram_size=0x100000 if integrated else 0)
    soc.crg = CRG(platform.request("sys_clk"), platform.request("sys_rst"))
    if not integrated:
        chip = MT48LC16M16(CLOCK_HZ, "1:1") if options.ram == "sdram" else MT41K128M16(CLOCK_HZ, "1:4")
        soc.sdrphy = SDRAMPHYModel(chip, data_width=16, clk_freq=CLOCK_HZ)
        soc.add_sdram("sdram", phy=soc.sdrphy, module=chip, l2_cache_size=options.l2)
    add_tq_hw(soc, config, memory=options.way, memory_bytes=0x80000)
    size = 1 << (len(image) - 1).bit_length()
    soc.add_rom("image", IMAGE_AT, size, contents=words(image.ljust(size, b"\0")))
    return soc


def build(soc: Any, folder: Path) -> Path:
    """Let LiteX write headers and Verilog, compile firmware and simulator; return the folder to run it in."""
    from litex.soc.integration.builder import Builder

    builder = Builder(soc, output_dir=str(folder), compile_software=False)

    def init_mems(**_: object) -> None:
        rom, ram = (soc.bus.regions[name] for name in ("rom", "sram"))
        firmware = build_litex_firmware(LitexProgram(
            "tq_hw", "LiteX", Path(builder.include_dir), "vexriscv", soc.cpu.gcc_flags, (rom.origin, rom.size),
            (ram.origin, ram.size), IMAGE_AT))
        print(f"firmware: {firmware.ram_bytes:,} bytes", flush=True)
        soc.init_rom("rom", contents=words(firmware.image), auto_size=False)

    soc.init_mems = init_mems
    with (folder / "litex.log").open("w", encoding="utf-8") as log, contextlib.redirect_stdout(log), \
            contextlib.redirect_stderr(log):
        builder.build(build_name="sim")
    gateware = Path(builder.gateware_dir)
    sources = [Path(source[0]) for source in soc.platform.sources] + [gateware / "sim.v"]
    verilate(sources, gateware)
    return gateware


def verilate(sources: list[Path], folder: Path) -> None:
    """Build the simulator, unless it exists and the Verilog has changed only in comments."""
    lines = [line for path in (*sources, HERE / "bench.cpp") for line in path.read_text(encoding="utf-8").splitlines()
             if not line.lstrip().startswith("//")]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    note = folder / "simulator.sha256"
    if note.is_file() and note.read_text(encoding="ascii") == digest:
        return
    print("building the simulator, a minute or two", flush=True)
    with (folder / "verilator.log").open("w", encoding="utf-8") as log:
        for command in ([*verilator(), "--cc", "--exe", "--no-timing", "--top-module", "sim", "--prefix", "Vsim", "-O3",
                         "--x-assign", "fast", "--x-initial", "fast", "--no-assert", "-Wno-fatal", "-Wno-lint",
                         "-Wno-style", "--output-split", "12000", "--Mdir", "obj", "-o", "../simulator",
                         *map(str, sources), str(HERE / "bench.cpp")],
                        ["make", "-C", "obj", "-f", "Vsim.mk", f"-j{os.cpu_count() or 1}", "CXX=g++", "LINK=g++",
                         "CFG_CXXFLAGS_PCH_I=-include", "OPT_FAST=-Os", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2"]):
            if subprocess.run(command, cwd=folder, stdout=log, stderr=log, check=False).returncode:
                sys.exit(f"the simulator was not built: see {folder / 'verilator.log'}")
    note.write_text(digest, encoding="ascii")


def main() -> None:
    """Build, run, compare."""
    parser = argparse.ArgumentParser(description="Run a model on a simulated LiteX SoC.")
    parser.add_argument("--config", default="n8")
    parser.add_argument("--model", type=Path, default=DIGITS)
    parser.add_argument("--sets", type=int, default=1, help="input sets, drawn")
    parser.add_argument("--ram", choices=("sdram", "ddr3", "integrated"), default="sdram", help="main memory")
    parser.add_argument("--way", choices=("auto", "dram", "bus"), default="auto", help="the accelerator's way to it")
    parser.add_argument("--cpu-variant", default="standard")
    parser.add_argument("--l2", type=int, default=2048, help="bytes of L2 cache, 0: none")
    parser.add_argument("--folder", type=Path, default=Path("build/litex"))
    options = parser.parse_args()
    # LiteX's parts read the command line, too, and print much.
    sys.argv[1:] = []
    logging.disable(logging.INFO)
    config, model = load_config(options.config), read_model(str(options.model))
    program = compile_model(model, config).program
    sets = draw_inputs(model, options.sets, 0)
    image = flash_image(to_bytes(program), [b"".join(
        edges.to_port(port, array) for port, array in zip(program.inputs, one, strict=True)) for one in sets])
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    gateware = build(make_soc(config, options, image), folder)
    most = 20_000_000 + 40 * options.sets * sum(layer.estimated_cycles for layer in program.layers)
    done = subprocess.run([gateware / "simulator", str(most)], cwd=gateware, stdout=subprocess.PIPE, text=True,
                          check=False)
    print(done.stdout, end="")
    inferences, _ = read_console(program, done.stdout.splitlines(), len(sets))
    for number, (found, one) in enumerate(zip(inferences, sets, strict=True)):
        for output, expected in zip(found.outputs, run(model, one).outputs, strict=True):
            if not np.array_equal(output, expected):
                sys.exit(f"{model.name}: set {number} differs from the golden model")
    print(f"{model.name} on {config.name}: {len(sets)} input sets, every integer equals the golden model's")


if __name__ == "__main__":
    main()
