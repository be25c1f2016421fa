"""`tq-hw run`: a model on a board."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tq_hw.boards.link.device import Device
from tq_hw.boards.link.dram import described, in_words
from tq_hw.cli.attached import Place, attached_options
from tq_hw.cli.board import BoardEngine, repeat
from tq_hw.cli.mixed import MixedSubject, check_whole, is_mixed_file, open_mixed
from tq_hw.cli.refusal import explained
from tq_hw.cli.report.layers import Report, print_layers, print_summary, sim_report
from tq_hw.cli.report.mixed import mixed_sim_report
from tq_hw.cli.report.tables import print_pairs
from tq_hw.cli.shared.arrays import output_arrays
from tq_hw.cli.shared.files import check_outputs, npz_bytes, write, write_json
from tq_hw.cli.shared.infer import infer_all
from tq_hw.cli.shared.options import (
    FiniteRange,
    check_drawn,
    debug_option,
    draw_options,
    json_option,
    partition_option,
    shape_options,
)
from tq_hw.cli.subject import Subject, check_against_golden, open_for_board
from tq_hw.isa.program import Program
from tq_hw.model.errors import MismatchError
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.sim.engines import Engine, Inference, InputSet
from tq_hw.sim.mixed import MixedEngine

__all__ = ["run_command"]


def _open(path: str, place: Place, partitioned: bool, shapes: InputShapes) -> Subject | MixedSubject:
    """Read and compile the model. A file with accelerated parts must be for the board's own configuration."""
    if is_mixed_file(path):
        return open_mixed(path, None, None, shapes)
    if partitioned:
        return open_mixed(path, place.config, place.memory, shapes)
    with explained(path, shapes, None):
        return open_for_board(path, place.config, place.memory, shapes=shapes)


def _engines(subject: Subject | MixedSubject, device: Device) -> tuple[Engine, list[BoardEngine]]:
    """Return the engine of an inference, and the engine of each program on the board, with images loaded."""
    parts: list[BoardEngine] = []

    def on_board(program: Program) -> Engine:
        parts.append(BoardEngine(device, program))
        parts[-1].load()
        return parts[-1]

    if isinstance(subject, MixedSubject):
        return MixedEngine(subject.model, on_board), parts
    assert subject.program is not None
    return on_board(subject.program), parts


def _with_layers(found: Inference, parts: Sequence[BoardEngine]) -> Inference:
    """Return an inference with the cycles of its layers, measured by further runs."""
    cycles: dict[int, int] = {}
    for part, one in zip(parts, found.parts or (found,), strict=True):
        cycles |= part.layer_cycles(one.cycles or 0)
    return replace(found, layer_cycles=cycles)


def _check(subject: Subject | MixedSubject, shapes: InputShapes, inputs: list[InputSet],
           found: list[Inference]) -> tuple[bool | None, str | None]:
    """Return whether the outputs are right (None if nothing can tell), and the first difference as a message."""
    if isinstance(subject, MixedSubject):
        return check_whole(subject, shapes, inputs, found)
    difference = None if subject.model is None else check_against_golden(subject, inputs, found)
    return (None if subject.model is None else difference is None), difference


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _print_board(report: Report, dram: str) -> None:
    microseconds = report["cycles"] / report["clock_hz"] * 1e6
    lines = [("on the board", f"{microseconds:,.1f} us at {report['clock_hz'] / 1e6:g} MHz"),
             ("upload", f"{report['upload_bytes']:,} bytes in {report['upload_seconds']:.2f} s, "
                        f"{report['upload_bytes_per_second']:,} bytes per second"),
             ("link", f"{_count(report['repeats'], 'request')} repeated, {_count(report['resets'], 'reset')} of the "
                      "board"),
             *([("dram", dram)] if dram else [])]
    if report["bench"] is not None:
        for key, unit in (("cycles", "cycles"), ("microseconds", "us"), ("host_seconds", "s with the link")):
            one = report["bench"][key]
            lines.append(("bench", f"min {one['min']:,}, median {one['median']:,}, max {one['max']:,} {unit}"))
    print_pairs(lines)


@click.command("run")
@click.argument("path", metavar="MODEL")
@attached_options
@click.option("--inputs", "inputs_file", metavar="IN.npz|PICTURE", help="Inputs, as for `sim`.  [default: random]")
@click.option("--outputs", "outputs_file", metavar="OUT.npz", help="Write the outputs as output_0, output_1, ...")
@partition_option
@draw_options(1)
@click.option("--bench", type=click.IntRange(1), metavar="N", help="Repeat the first inference N times, for latency.")
@click.option("--layers/--no-layers", default=True, help="Measure the cycles of each layer, one run per layer.")
@click.option("--time-limit", type=FiniteRange(0.1), default=60, show_default=True, metavar="SECONDS",
              help="Stop an inference after this time.")
@shape_options
@json_option
@debug_option
def run_command(path: str, place: Place, inputs_file: str | None, outputs_file: str | None, partitioned: bool,
                seed: int, sets: int, bench: int | None, layers: bool, time_limit: float, shapes: InputShapes,
                json_file: str | None) -> None:
    """Load a model, or a file that `compile` made, onto an accelerator in hardware and run it there.

    Each input set starts from the initial state. A model's outputs are compared with the golden model's (with
    --partition, with LiteRT's); exit code 1 if they differ.
    """
    check_drawn(inputs_file)
    check_outputs({"--outputs": outputs_file, "--json": json_file}, [path, inputs_file, place.config_file])
    subject = _open(path, place, partitioned, shapes)
    inputs, stacked = subject.input_sets(inputs_file, sets, seed)
    link, close = place.open()
    try:
        device = Device(link, time_limit_seconds=time_limit)
        engine, parts = _engines(subject, device)
        found = infer_all(engine, inputs, f"running {Path(path).stem}")
        benched = None if bench is None else repeat(engine, inputs[0], bench, device.identity.clock_hz)
        if layers:
            found[0] = _with_layers(found[0], parts)
    finally:
        close()
    exact, difference = _check(subject, shapes, inputs, found)
    report: dict[str, Any]
    if isinstance(subject, MixedSubject):
        report = mixed_sim_report(path, subject.config, subject.model, subject.programs, place.name, found, exact)
    else:
        report = sim_report(path, subject.config, subject.model, subject.program, place.name, found, exact)
    upload_bytes = sum(part.upload_bytes for part in parts)
    upload_seconds = sum(part.upload_seconds for part in parts)
    report |= {
        "board": report.pop("engine"), "port": place.port, "clock_hz": device.identity.clock_hz,
        "upload_bytes": upload_bytes, "upload_seconds": round(upload_seconds, 3),
        "upload_bytes_per_second": round(upload_bytes / max(upload_seconds, 1e-6)),
        "repeats": link.repeats, "resets": device.resets, "dram": described(device.dram), "bench": benched,
    }
    if outputs_file is not None:
        write(outputs_file, npz_bytes(output_arrays([one.outputs for one in found], stacked)))
    write_json(json_file, report)
    if "-" not in (json_file, outputs_file):
        print_summary(report)
        _print_board(report, in_words(device.dram))
        print_layers(report)
    if difference is not None:
        raise MismatchError(difference)
