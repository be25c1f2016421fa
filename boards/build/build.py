"""Builds a bitstream and a report from a board's record."""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tq_hw.boards.build.block_registers import absorb_registers
from tq_hw.boards.build.carry_inputs import pack_carry_inputs
from tq_hw.boards.build.dram_core import DramCore, core_description, generate_core
from tq_hw.boards.build.ecp5_scripts import ecp5_scripts
from tq_hw.boards.build.fasm_check import check_frames
from tq_hw.boards.build.figures import Timing, count_cells, modules, read_json, vivado_figures
from tq_hw.boards.build.floorplan import place_blocks
from tq_hw.boards.build.folder import FailedStepError
from tq_hw.boards.build.gowin import PACKED, gowin_commands, synthesis_options
from tq_hw.boards.build.lut_pairs import pair_luts
from tq_hw.boards.build.open_netlist import SINGLE_PORT, SINGLE_PORT_FILE, clock_table, prepare, synthesis_script
from tq_hw.boards.build.open_pins import PINS_FILE, pin_constraints
from tq_hw.boards.build.openxc7 import FASM, OpenFlow, openxc7_timing
from tq_hw.boards.build.part_names import HIDE_PARTS
from tq_hw.boards.build.steps import Progress, Steps, results_of
from tq_hw.boards.build.toolchains import choose
from tq_hw.boards.build.tools import require_tool
from tq_hw.boards.build.top import BoardTop, input_hz, load_platform
from tq_hw.boards.catalog.board import FAMILIES, Board, Ddr3, Memory, Sdr, Toolchain
from tq_hw.model.errors import OptionError, ToolError

__all__ = ["BuildResult", "Progress", "build", "critical_path", "dram_core", "elaborate", "synthesize", "with_chip"]

TOP = "top"
_MHZ = 1_000_000
_BITSTREAM = {Toolchain.ECP5: "top.bit", Toolchain.ICE40: "top.bin", Toolchain.GOWIN: PACKED,
              Toolchain.XILINX: "top.bit"}
_STAT = "stat.json"


@dataclass(frozen=True)
class BuildResult:
    """The outcome of a build.

    Members
    -------
    bitstream : file name in the folder; "" when a tool was missing
    resources : cells by kind, of the whole board
    timings : by clock; empty when nothing was routed
    toolchain : the tools that made the bitstream, or would make it
    slowest : the clock furthest from its target, None when nothing was routed
    missing : programs that were not found; apart from their results the folder is complete
    seconds : by step
    seed, seeds : the placer's seed; for each seed tried, the lowest ratio of a clock's rate to its target
    why : why other programs were not used, "" where there was no choice
    """

    bitstream: str
    bitstream_bytes: int
    resources: Mapping[str, float]
    timings: Mapping[str, Timing]
    missing: tuple[str, ...]
    toolchain: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    seed: int = 1
    seeds: Mapping[int, float] = field(default_factory=dict)
    why: str = ""

    @property
    def slowest(self) -> Timing | None:
        """The clock that misses its target by most, or exceeds it by least."""
        return min(self.timings.values(), key=lambda timing: timing.fmax_mhz / timing.target_mhz, default=None)

    @property
    def system(self) -> Timing | None:
        """The accelerator's clock."""
        fastest = [timing for timing in self.timings.values() if timing.path]
        return max(fastest, key=lambda timing: timing.target_mhz, default=self.slowest)

    @property
    def met(self) -> bool:
        """Whether every clock reaches its target."""
        return all(timing.fmax_mhz >= timing.target_mhz for timing in self.timings.values())


def dram_core(board: Board, memory: Memory) -> DramCore | None:
    """Return the DRAM core that `memory` needs; OptionError when it does not have the size that the record says."""
    if not isinstance(memory, Sdr | Ddr3):
        return None
    core = generate_core(core_description(memory, board.device.name, input_hz(load_platform(board))))
    if core.size_bytes != memory.size_bytes:
        raise OptionError(f"LiteDRAM's {memory.chip} has {core.size_bytes:,} bytes, {board.name} is described with "
                          f"{memory.size_bytes:,}")
    return core


def with_chip(board: Board, memory: Memory, chip: str) -> Memory:
    """Return the memory with another chip, at its size; OptionError when LiteDRAM does not know it."""
    if not isinstance(memory, Sdr | Ddr3):
        raise OptionError(f"--dram-chip {chip}: {board.name} is built with {memory.name}, which has no chip to choose")
    other = replace(memory, chip=chip)
    core = generate_core(core_description(other, board.device.name, input_hz(load_platform(board))))
    return replace(other, size_bytes=core.size_bytes)


def elaborate(board: Board, memory: Memory, *, image: bytes = b"", seed: int = 1) -> Any:
    """Return Amaranth's build plan: netlist, constraints and the tools' command lines."""
    platform = load_platform(board)
    top = BoardTop(board, memory, core=dram_core(board, memory), image=image)
    pnr = f"--report timing.json --seed {seed} --timing-allow-fail --freq {board.clock_hz / _MHZ:g}"
    stat = f"tee -q -o {_STAT} stat -json"
    options: dict[str, Any] = {"emit_src": False}
    if board.toolchain is Toolchain.ECP5:
        options |= {"nextpnr_opts": f"{pnr} --placer static --router router1", **ecp5_scripts(stat)}
    elif board.toolchain is Toolchain.ICE40:
        # This device has no small RAM: a memory that asks for it becomes flip-flops or block RAM.
        options |= {"script_after_synth": stat, "nextpnr_opts": f"{pnr} --router router2", "synth_opts": "-dsp",
                    "script_after_read": "setattr -unset ram_style */*"}
    elif board.toolchain is Toolchain.GOWIN:
        options |= {"script_after_read": HIDE_PARTS, "script_after_synth": stat,
                    "synth_opts": synthesis_options(platform)}
    with _yosys_for_amaranth():
        plan = platform.prepare(top, TOP, **options)
    if board.toolchain is Toolchain.XILINX:
        plan.add_file(PINS_FILE, pin_constraints(platform.iter_port_constraints_bits()))
        plan.add_file(SINGLE_PORT_FILE, SINGLE_PORT)
    return plan


@contextmanager
def _yosys_for_amaranth() -> Iterator[None]:
    """Let Amaranth's Verilog writer find the Yosys that this package uses."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = Path(folder) / "yosys"
        words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in require_tool("yosys"))
        launcher.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        launcher.chmod(0o755)
        before = {name: os.environ.get(name) for name in ("AMARANTH_USE_YOSYS", "YOSYS")}
        os.environ |= {"AMARANTH_USE_YOSYS": "system", "YOSYS": str(launcher)}
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _synthesize(steps: Steps, board: Board, memory: Memory, image: bytes, seed: int) -> tuple[Mapping[str, float], Any]:
    """Elaborate and synthesize; return the cells, and the commands that follow."""
    steps.progress("elaborating", 0.0)
    start = time.monotonic()
    plan = elaborate(board, memory, image=image, seed=seed)
    plan.extract(steps.folder)
    steps.seconds["elaborate"] = time.monotonic() - start
    commands = json.loads(plan.files[f"build_{TOP}.json"])["commands"]
    if board.toolchain is Toolchain.XILINX:
        sources = " ".join(sorted(name for name in plan.files if _is_source(name)))
        steps.run("yosys", ["-q", "-p", synthesis_script(sources, TOP, _STAT)])
    else:
        steps.run(*_split(commands.pop(0)))
    if board.toolchain is Toolchain.GOWIN:
        commands = gowin_commands(load_platform(board), board.clock_hz / _MHZ, seed)
    with results_of("yosys"):
        resources = count_cells(read_json(steps.folder / _STAT), FAMILIES[board.toolchain])
        (steps.folder / _STAT).unlink()
        if board.toolchain is Toolchain.ECP5:
            absorb_registers(steps.folder / f"{TOP}.json")
            resources["luts"] -= pack_carry_inputs(steps.folder / f"{TOP}.json")
            resources["luts"] -= pair_luts(steps.folder / f"{TOP}.json")
            place_blocks(steps.folder / f"{TOP}.json", board.device.name)
    return resources, commands


def _split(command: list[str]) -> tuple[str, list[str]]:
    return command[0], command[1:]


def synthesize(board: Board, memory: Memory, folder: Path, *,
               progress: Progress = lambda _text, _done: None) -> Mapping[str, float]:
    """Elaborate and synthesize a board in `folder`; return its cells by kind."""
    return _synthesize(Steps(folder, progress), board, memory, b"", 1)[0]


def build(board: Board, memory: Memory, folder: Path, *, image: bytes = b"", seed: int | None = None,
          seeds: int = 0, toolchain: str = "", scheduler: str | None = None,
          progress: Progress = lambda _text, _done: None) -> BuildResult:
    """Elaborate, synthesize, place, route and pack in `folder`.

    nextpnr runs with `seeds` seeds at once, starting at `seed`. With a `scheduler`, they run on the workers of that
    Dask cluster. The defaults None and 0 select the values of the board's record.

    `toolchain` is `toolchains.VIVADO` or `toolchains.OPENXC7`; "" selects what is installed.

    A missing program that does not come from pip is not an error: the folder then contains all that it needs. Missed
    timing is not an error either: see `BuildResult.met`. Raises MissingToolError for programs that come from pip,
    ToolError when one fails or the design does not fit.
    """
    seed = board.seed if seed is None else seed
    choice = choose(board, toolchain)
    steps = Steps(folder, progress, scheduler)
    resources, commands = _synthesize(steps, board, memory, image, seed)
    timings: Mapping[str, Timing] = {}
    reached: Mapping[int, float] = {}
    if board.toolchain is Toolchain.XILINX:
        # Yosys counts one by one the LUTs that Vivado combines: only the placer can tell whether the design fits.
        if choice.flow is not None or choice.missing:
            with results_of("yosys"):
                prepare(folder / f"{TOP}.json", TOP)
        if choice.flow is not None:
            timings = _place_openly(steps, board, choice.flow, seed)
        elif not choice.missing:
            for command in commands:
                steps.run(*_split(command))
            with results_of("vivado"):
                resources, timing = vivado_figures(folder, TOP, board.clock_hz / _MHZ)
            timings = {timing.clock: timing}
    else:
        _check_fit(board, resources)
        for command in commands:
            if command[0].startswith("nextpnr"):
                placed = steps.place(*_split(command), range(seed, seed + (seeds or board.seeds)))
                seed, timings, reached = placed.seed, placed.timings, placed.reached
            else:
                steps.run(*_split(command))
    bitstream = "" if choice.missing else _BITSTREAM[board.toolchain]
    if bitstream and not (folder / bitstream).is_file():
        raise FailedStepError(f"{list(steps.seconds)[-1]} ended without an error and wrote no {bitstream}")
    progress("done", 1.0)
    return BuildResult(bitstream, (folder / bitstream).stat().st_size if bitstream else 0, resources, timings,
                       choice.missing, choice.name, steps.seconds, seed, reached, choice.why)


def _place_openly(steps: Steps, board: Board, flow: OpenFlow, seed: int) -> Mapping[str, Timing]:
    """Run the open tools of an Artix-7; return the clocks, each with its own target."""
    platform = load_platform(board)
    pins = {f"{platform.default_clk}_0__io": input_hz(platform)}
    with results_of("yosys"):
        targets = clock_table(read_json(steps.folder / f"{TOP}.json"), TOP, pins)
    timings: Mapping[str, Timing] = {}
    for command in flow.commands(board.clock_hz / _MHZ, seed):
        steps.run(*_split(command))
        with results_of(command[0]):
            if command[0] == "nextpnr-xilinx":
                (steps.folder / FASM).stat()
                timings = openxc7_timing(steps.folder, targets)
            elif command[0] == "fasm2frames":
                check_frames(steps.folder, flow.family, flow.part, flow.die)
    return timings


def _is_source(name: str) -> bool:
    return name.endswith(".v") and not name.endswith(".debug.v") and name != SINGLE_PORT_FILE


def _check_fit(board: Board, resources: Mapping[str, float]) -> None:
    """Raise ToolError when the design exceeds a resource of the device, before hours of placing."""
    for kind in ("luts", "flip_flops", "multipliers", "block_rams"):
        have = getattr(board.device, kind)
        if resources[kind] > have:
            raise ToolError(f"{board.name}: the design does not fit: it needs {resources[kind]:,} "
                            f"{kind.replace('_', ' ')}, {board.device.name} has {have:,}; a smaller configuration "
                            "would help")


def critical_path(timing: Timing) -> dict[str, Any]:
    """Return the critical path of a clock for a report: length, share of the wires, modules."""
    return {"ns": round(sum(hop.delay_ns for hop in timing.path), 2),
            "wires_ns": round(sum(hop.delay_ns for hop in timing.path if hop.kind == "routing"), 2),
            "modules": modules(timing.path)}
