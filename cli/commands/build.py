"""`tq-hw build`: a board's bitstream, after its RTL was verified against the golden model."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from tq_hw.boards.build.build import BuildResult, build, critical_path, dram_core, with_chip
from tq_hw.boards.build.dram_core import need_litedram
from tq_hw.boards.build.firmware import build_firmware
from tq_hw.boards.build.folder import REPORT, new_folder
from tq_hw.boards.build.open_pins import PINS_FILE
from tq_hw.boards.build.soc_header import soc_facts
from tq_hw.boards.build.toolchains import OPENXC7, VIVADO, choose
from tq_hw.boards.build.tools import TOOLS
from tq_hw.boards.build.top import check_board, load_platform
from tq_hw.boards.catalog.board import Board, Ddr3, Memory, OnChip, Sdr, Toolchain
from tq_hw.boards.catalog.catalog import all_boards, find_board, find_memory
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.boards.soc.map import FLASH_FILE, FLASH_OFFSET
from tq_hw.cli.cases import find_cases
from tq_hw.cli.emulation.soc import flash_contents
from tq_hw.cli.shared.files import check_outputs, check_stay, write_json
from tq_hw.cli.shared.options import debug_option, json_option, shape_options
from tq_hw.cli.shared.progress import ProgressBar
from tq_hw.cli.subject import Subject, check_engine, compile_program
from tq_hw.cli.verifier import FAILED, PASSED, Verifier
from tq_hw.isa.memory import YARDSTICK
from tq_hw.isa.program import Program
from tq_hw.isa.program_file import to_bytes
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import MismatchError, MissingToolError, OptionError, ToolError, UnsupportedError
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.tflite.reader import read_model
from tq_hw.work import check_scheduler

__all__ = ["DEMO_MODEL", "build_command", "check_room", "memory_contents"]

#: The model for verification if none is named.
DEMO_MODEL = Path(str(files("tq_hw.model.samples"))) / "digits.tflite"
#: Alignment of regions.
_ALIGN_BYTES = 256


def _aligned(size_bytes: int) -> int:
    return ceil_div(size_bytes, _ALIGN_BYTES) * _ALIGN_BYTES


def check_room(program: Program, board: Board, memory: Memory) -> None:
    """Raise OptionError if image, state and arena do not fit into the board's memory."""
    parts = (len(program.image), len(program.state), program.arena_bytes)
    need = sum(map(_aligned, parts))
    if need > memory.size_bytes:
        raise OptionError(f"{program.name} does not fit on {board.name}: it needs {need:,} bytes (image {parts[0]:,}, "
                          f"state {parts[1]:,}, arena {parts[2]:,}), its {memory.name} has {memory.size_bytes:,}; try "
                          "a smaller model, or a board or --memory with more")


def memory_contents(program: Program) -> bytes:
    """Return the contents of memory before the first run, as the host's end of the link would write them."""
    parts = (program.image, bytes(program.arena_bytes), program.state)
    return b"".join(part.ljust(_aligned(len(part)), b"\0") for part in parts)


def check_programs(board: Board, memory: Memory, toolchain: str, verify: bool, seeding: Mapping[str, object]) -> None:
    """Raise MissingToolError before the verification, which takes minutes, if a build would fail for want of a tool.

    The vendor's tools are not checked: without them the folder is written all the same. OptionError if an option of
    `seeding` (None: not given) would have no effect.
    """
    chosen = choose(board, toolchain)
    if board.toolchain is Toolchain.XILINX:
        given = [option for option, value in seeding.items()
                 if value is not None and (option != "--seed" or chosen.name == Toolchain.XILINX.value)]
        if given:
            raise OptionError(f"{' and '.join(given)}: {board.name} is placed once"
                              + (", and Vivado has no seeds" if chosen.name == Toolchain.XILINX.value else ""))
    load_platform(board)
    if isinstance(memory, Sdr | Ddr3):
        need_litedram()
        dram_core(board, memory)
    if verify:
        check_engine("rtl", board.config)


def with_soft_core(board: Board, memory: Memory) -> Board:
    """Return the board with the firmware in a soft core; OptionError if the board supports none."""
    if not board.soc_clock_hz:
        able = ", ".join(one.name for one in all_boards() if one.soc_clock_hz)
        raise OptionError(f"{board.name}: a soft core is built for {able} only")
    facts = soc_facts(board, memory)
    return replace(board, clock_hz=facts.clock_hz, program=build_firmware(facts).image)


def verify(board: Board, model: Path, seed: int, shapes: InputShapes | None = None) -> None:
    """Compare the RTL of the board's configuration with the golden model; MismatchError if they differ."""
    case = find_cases([str(model)])[0]
    with Verifier("rtl", "golden", board.config, YARDSTICK, 1, seed, shapes=shapes) as verifier:
        verdict = verifier.check(case)
    if verdict.status == FAILED:
        raise MismatchError(f"{board.name}: the RTL differs from the golden model, nothing was built: "
                            f"{verdict.message}")
    if verdict.status != PASSED:
        raise UnsupportedError(f"{board.name}: {model} cannot be verified: {verdict.message}")


def describe(board: Board, memory: Memory, result: BuildResult, verified: bool) -> dict[str, Any]:
    """Return the report. `luts`, `ffs`, `dsps` and `brams` also appear in `resources`, in the device's own units."""
    resources, timing = result.resources, result.system
    return {
        "board": board.name, "device": board.device.name, "config": board.config.name,
        "fingerprint": f"{board.config.fingerprint:08x}", "macs": board.config.macs, "memory": memory.name,
        "memory_bytes": memory.size_bytes, "bitstream": result.bitstream or None,
        "bitstream_bytes": result.bitstream_bytes or None,
        "fmax_mhz": round(timing.fmax_mhz, 2) if timing else None, "target_mhz": board.clock_hz / 1e6,
        "timing_met": result.met if result.timings else None,
        "clocks": {name: {"fmax_mhz": round(one.fmax_mhz, 2), "target_mhz": round(one.target_mhz, 2)}
                   for name, one in result.timings.items()},
        "critical_path": critical_path(timing) if timing else None,
        "luts": resources["luts"], "ffs": resources["flip_flops"], "dsps": resources["multipliers"],
        "brams": resources["block_rams"], "resources": dict(resources),
        "available": {kind: getattr(board.device, kind) for kind in ("luts", "flip_flops", "multipliers",
                                                                     "block_rams")},
        "toolchain": result.toolchain, "toolchain_why": result.why or None, "missing": list(result.missing),
        "verified": verified,
        "seed": result.seed, "seeds": {str(seed): round(part, 3) for seed, part in result.seeds.items()},
        "seconds": {name: round(taken, 1) for name, taken in result.seconds.items()},
    }


def print_report(report: dict[str, Any], folder: Path) -> None:
    """Print the report as text."""
    have = report["available"]
    used = ", ".join(f"{report['resources'][kind]:,} of {have[kind]:,} {kind.replace('_', ' ')}" for kind in have)
    click.echo(f"{report['board']} ({report['device']}): {used}")
    if report["fmax_mhz"] is not None:
        path = report["critical_path"]
        for name, clock in report["clocks"].items():
            click.echo(f"clock {name}: {clock['fmax_mhz']:.1f} MHz, target {clock['target_mhz']:g} MHz")
        click.echo(f"critical path {path['ns']} ns, {path['wires_ns']} of it wires: {' -> '.join(path['modules'])}")
    if len(report["seeds"]) > 1:
        click.echo(f"seed {report['seed']} of " + ", ".join(
            f"{seed} ({part:.1%} of the target)" for seed, part in report["seeds"].items()))
    if report["toolchain_why"]:
        click.echo(report["toolchain_why"])
    click.echo("verified against the golden model before the build" if report["verified"] else
               "NOT VERIFIED: --no-verify was given")
    if report["bitstream"]:
        click.echo(f"{folder / report['bitstream']}: {report['bitstream_bytes']:,} bytes")


@click.command("build")
@click.option("--board", "board_name", metavar="BOARD", required=True, help="`tq-hw boards` lists them.")
@click.option("-o", "--dir", "folder", metavar="DIR", help="Folder for all output.  [default: build/BOARD]")
@click.option("--model", "model_file", metavar="MODEL.tflite", help="Model to verify with, and to compile for the "
              "board.  [default: verify with the digits network]")
@click.option("--memory", "memory_name", metavar="NAME", help="Which of the board's memories to use.")
@click.option("--dram-chip", metavar="CHIP", help="LiteDRAM's name for the DRAM chip, if the board has another.")
@click.option("--soc", is_flag=True, help="Add a soft core that runs the firmware, instead of the link to a host.")
@click.option("--inputs", "inputs_file", metavar="IN.npz|PICTURE", help="Inputs to put into flash with --model, for "
              "--soc.  [default: one random set]")
@click.option("--no-verify", is_flag=True, help="Build without first checking the RTL against the golden model.")
@click.option("--allow-timing-fail", is_flag=True, help="Do not fail if a clock misses its target.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="Placer seed.  [default: the board's, usually 1]")
@click.option("--seeds", type=click.IntRange(1, 64), help="Number of seeds to try in parallel, from --seed on; the "
              "first that meets timing is taken, or else the best.  [default: the board's, usually 1]")
@click.option("--scheduler", metavar="tcp://HOST:PORT", help="Let the workers of a Dask cluster try the seeds.")
@click.option("--toolchain", type=click.Choice([VIVADO, OPENXC7]), help="Toolchain for an Artix-7.  [default: the one "
              "installed, vivado if both are]")
@shape_options
@json_option
@debug_option
def build_command(board_name: str, folder: str | None, model_file: str | None, memory_name: str | None,
                  dram_chip: str | None, soc: bool, inputs_file: str | None, no_verify: bool, allow_timing_fail: bool,
                  seed: int | None, seeds: int | None, scheduler: str | None, toolchain: str | None,
                  shapes: InputShapes, json_file: str | None) -> int:
    """Make the bitstream of a board: verify, synthesize, place, route, pack.

    Exit code 3 if a program is missing (without a vendor's, the folder is still complete), 4 if the design does
    not fit or a clock misses its target.
    """
    board = find_board(board_name)
    memory = find_memory(board, memory_name)
    if dram_chip is not None:
        memory = with_chip(board, memory, dram_chip)
    target = Path(folder or Path("build") / board.name)
    check_outputs({"--json": json_file}, [model_file, inputs_file], {str(target): "the folder of -o"})
    check_stay(target, {"--model": model_file, "--inputs": inputs_file})
    if inputs_file is not None and not (soc and model_file):
        raise OptionError("--inputs needs --soc and --model: they go into flash with the model")
    if model_file is None and shapes != InputShapes():
        raise OptionError("--batch, --shape and --signature need --model")
    check_programs(board, memory, toolchain or "", not no_verify,
                   {"--seed": seed, "--seeds": seeds, "--scheduler": scheduler})
    if scheduler is not None:
        check_scheduler(scheduler)
    if soc:
        board = with_soft_core(board, memory)
    check_board(board, memory)
    program = None
    flash = b""
    if model_file is not None:
        model = read_model(model_file, shapes=shapes)
        program = compile_program(model, board.config, model_file, memory_rate(board, memory))
        check_room(program, board, memory)
        if soc:
            inputs, _ = Subject(model_file, board.config, model, program).input_sets(inputs_file, 1, 0)
            flash = flash_contents(program, inputs)
    elif not no_verify and not DEMO_MODEL.is_file():
        raise OptionError(f"there is no {DEMO_MODEL.name} to verify with: name a model with --model, or --no-verify")
    with new_folder(target) as work:
        if not no_verify:
            ProgressBar(board.name).say(f"{board.name}: verifying on the RTL")
            verify(board, Path(model_file) if model_file else DEMO_MODEL, seed=0, shapes=shapes)
        image = b""
        if program is not None:
            (work / f"{Path(str(model_file)).stem}.tqm").write_bytes(to_bytes(program))
            if flash:
                (work / FLASH_FILE).write_bytes(flash)
            elif isinstance(memory, OnChip):
                image = memory_contents(program)
        with ProgressBar(board.name) as bar:
            result = build(board, memory, work, image=image, seed=seed, seeds=seeds or 0, toolchain=toolchain or "",
                           scheduler=scheduler, progress=bar.stages(f"{board.name}: "))
        report = describe(board, memory, result, not no_verify) | {"soc": soc}
        if program is not None:
            report["model"] = {"file": f"{Path(str(model_file)).stem}.tqm", "in_bitstream": bool(image)}
        write_json(str(work / REPORT), report)
    write_json(json_file, report)
    if json_file != "-":
        print_report(report, target)
        if flash:
            click.echo(f"{target / FLASH_FILE}: {len(flash):,} bytes, for byte {FLASH_OFFSET} of the flash")
    if result.missing:
        raise MissingToolError(finish_elsewhere(target, result))
    if not result.met and not allow_timing_fail:
        raise ToolError(too_slow(board, target, result))
    return 0


def too_slow(board: Board, target: Path, result: BuildResult) -> str:
    """Return the message for a clock that misses its target."""
    slow = result.slowest
    assert slow is not None
    cure = "" if result.toolchain == Toolchain.XILINX.value else "another --seed, or "
    return (f"{board.name} misses its timing: clock {slow.clock} reaches {slow.fmax_mhz:.1f} MHz of "
            f"{slow.target_mhz:g} MHz; try {cure}--allow-timing-fail to keep the bitstream of {target} all the same")


def finish_elsewhere(target: Path, result: BuildResult) -> str:
    """Return the message for a folder that needs the vendor's tools, which do not come from pip."""
    name = result.missing[0]
    if name not in TOOLS:
        return (f"{result.why}. {target} holds what {name} needs, the netlist top.json and the pins {PINS_FILE}: "
                f"complete it here and build again, or copy the folder to a machine that has it")
    return (f"{name} is not installed, so there is no bitstream. {target} holds all that it needs: copy it to a "
            f"machine with {name} and run there: {name} -mode batch -source top.tcl; or {TOOLS[name].install}, and "
            "build again" + (f". {result.why}" if result.why else ""))
