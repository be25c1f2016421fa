"""`tq-hw sim --soc`: the runtime on the soft core of a Verilated board."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import click
import numpy as np

from tq_hw.boards.build.firmware import Firmware, build_firmware
from tq_hw.boards.build.soc_header import SocFacts, soc_facts
from tq_hw.boards.catalog.board import Board
from tq_hw.boards.catalog.catalog import find_memory
from tq_hw.boards.link.room import check_program
from tq_hw.boards.soc.map import FLASH_OFFSET, RAM_BYTES, flash_image
from tq_hw.boards.soc.soc import CPU_PACKAGE, cpu_verilog
from tq_hw.cli.emulation.emulator import MOST_MEMORY_BYTES
from tq_hw.cli.report.layers import Report
from tq_hw.cli.shared.progress import ProgressBar
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.errors import DeviceError
from tq_hw.sim import edges
from tq_hw.sim.engines import Inference, InputSet
from tq_hw.sim.rtl.bench import SocBench
from tq_hw.sim.rtl.build import library
from tq_hw.sim.rtl.design import Design

__all__ = ["SocRun", "flash_contents", "print_console", "read_console", "run_soc", "soc_design",
           "soc_report"]

#: The fastest clock of the flash.
_FLASH_HALF_CYCLES = 1
#: Cycles between polls of the UART.
_SLICE_CYCLES = 20_000
#: Cycles of silence on the UART, in addition to four times a run's estimate, after which the program is given up.
_SILENCE_CYCLES = 60_000_000


@dataclass(frozen=True)
class SocRun:
    """The output of the firmware, and the results read from it.

    Members
    -------
    inferences : one per input set, in order
    console : the lines of the UART
    firmware : the program that ran
    total_cycles : from reset to the last character
    """

    inferences: list[Inference]
    console: list[str]
    firmware: Firmware
    total_cycles: int = 0
    set_cycles: list[int] = field(default_factory=list)


def soc_design(facts: SocFacts) -> Design:
    """Return the design of the simulator of a board with a soft core."""
    sequence = (number for step in facts.dram_sequence for number in step)
    return Design("tq_hw.boards.soc.emulated", "EmulatedSoc", ("tq_hw.hdl", "tq_hw.isa", "tq_hw.boards", CPU_PACKAGE),
                  (facts.memory_bytes, _FLASH_HALF_CYCLES, *sequence), link=True, soc=True)


def flash_contents(program: Program, inputs: Sequence[InputSet]) -> bytes:
    """Return the flash image of a compiled file and its inputs, as the runtime reads it."""
    sets = []
    for one in inputs:
        edges.check_inputs(program, one)
        sets.append(b"".join(edges.to_port(port, array) for port, array in zip(program.inputs, one, strict=True)))
    return flash_image(to_bytes(program), sets)


def run_soc(board: Board, program: Program, inputs: Sequence[InputSet], memory: Memory) -> SocRun:
    """Boot the board in the simulator with `program` and `inputs` in flash, and read its console.

    Raises OptionError for a program that is not for the board; DeviceError if the firmware reports an error or falls
    silent; MissingToolError without compiler, soft core or LiteDRAM.
    """
    cpu_verilog()
    facts = soc_facts(board, find_memory(board, None), MOST_MEMORY_BYTES)
    check_program(program, board.config.fingerprint, facts.memory_bytes)
    firmware = build_firmware(facts)
    image = flash_contents(program, inputs)
    with ProgressBar(f"{board.name} with a soft core") as bar:
        made = library(board.config, design=soc_design(facts),
                       progress=bar.building(f"{board.name} with a soft core: "))
        bench = SocBench(made, memory)
        with bench:
            bench.add_memory(0, facts.memory_bytes)
            bench.load(firmware.image, FLASH_OFFSET, image)
            bench.reset()
            console, cycles = _listen(bench, program, bar)
    inferences, set_cycles = read_console(program, console, len(inputs))
    return SocRun(inferences, console, firmware, cycles, set_cycles)


def _listen(bench: SocBench, program: Program, bar: ProgressBar) -> tuple[list[str], int]:
    """Run the clock until the firmware has printed its last line; return the lines and the cycles."""
    patience = _SILENCE_CYCLES + 4 * sum(layer.estimated_cycles for layer in program.layers)
    said, cycles, heard = b"", 0, 0
    while not _ended(said):
        some = bench.exchange(b"", _SLICE_CYCLES)
        said += some
        cycles += _SLICE_CYCLES
        heard = cycles if some else heard
        lines = _lines(said)
        bar.update(0, None, f"running {program.name}: {lines[-1][:50] if lines else 'booting'}")
        if cycles - heard > patience:
            raise DeviceError(f"{program.name}: the firmware has printed nothing for {cycles - heard:,} cycles; its "
                              f"last line: {lines[-1] if lines else 'none'}")
    return _lines(said), cycles


def _ended(said: bytes) -> bool:
    whole = _lines(said[:said.rfind(b"\n") + 1])
    return bool(whole) and (whole[-1] == "done" or whole[-1].startswith("error: "))


def _lines(said: bytes) -> list[str]:
    return said.decode("ascii", "replace").splitlines()


def read_console(program: Program, console: Sequence[str], sets: int) -> tuple[list[Inference], list[int]]:
    """Return outputs and accelerator cycles of each input set from the console, and the firmware's cycles per set.

    DeviceError if the firmware printed an error, or a line is missing.
    """
    for line in console:
        if line.startswith("error: "):
            before = next((one for one in console if one.startswith(("stopped ", "trap "))), "")
            raise DeviceError(f"{program.name}: the firmware says: {line.removeprefix('error: ')}"
                              + (f" ({before})" if before else ""))
    inferences, totals = [], []
    for number in range(sets):
        try:
            words = _find(console, f"set {number} took ").split()
            outputs = tuple(
                edges.from_port(port, bytes.fromhex(_find(console, f"set {number} output {index} ")))
                for index, port in enumerate(program.outputs))
        except ValueError as error:
            raise DeviceError(f"{program.name}: what the firmware printed cannot be read: {error}") from None
        totals.append(int(words[0]))
        inferences.append(Inference(tuple(map(np.asarray, outputs)), int(words[-1])))
    return inferences, totals


def _find(console: Sequence[str], start: str) -> str:
    for line in console:
        if line.startswith(start):
            return line.removeprefix(start)
    raise ValueError(f"there is no line {start.strip()!r}")


def soc_report(board: Board, run: SocRun) -> Report:
    """Return the additions to a simulation's report."""
    return {"board": board.name, "console": run.console, "firmware_bytes": run.firmware.ram_bytes,
            "ram_bytes": RAM_BYTES, "compiler": run.firmware.compiler, "set_cycles": run.set_cycles,
            "total_cycles": run.total_cycles}


def print_console(report: Report) -> None:
    """Print the lines of the UART, and the size of the firmware."""
    click.echo(f"{'firmware':12} {report['firmware_bytes']:,} bytes of {report['ram_bytes']:,} in block RAM, the rest "
               f"is for the stack ({report['compiler']})")
    for line in report["console"]:
        click.echo(f"{'uart':12} {line}")
