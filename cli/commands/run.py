"""`tq-hw run`: a model on a board."""

import statistics
import time
from collections.abc import Sequence
from typing import Any

import click

from tq_hw.boards.link.device import Device, DeviceRun, MachineError
from tq_hw.cli.attached import Place, attached_options
from tq_hw.cli.report.layers import Report, print_layers, print_summary, sim_report
from tq_hw.cli.shared.arrays import output_arrays
from tq_hw.cli.shared.files import check_outputs, npz_bytes, write, write_json
from tq_hw.cli.shared.options import debug_option, draw_options, json_option, shape_options
from tq_hw.cli.shared.progress import ProgressBar
from tq_hw.cli.subject import check_against_golden, open_for_board
from tq_hw.isa.encode import decode, pack
from tq_hw.isa.layout import HEADER, Unit
from tq_hw.isa.program import Program
from tq_hw.model.errors import DeviceError, MismatchError
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.sim import edges
from tq_hw.sim.engines import Inference, InputSet
from tq_hw.sim.faults import located

__all__ = ["layer_ends", "run_command"]

_END = pack(HEADER, {"unit": Unit.CONTROL, "run": 1}).to_bytes(4, "little")


def layer_ends(program: Program) -> list[tuple[int, int]]:
    """Return layer index and bytes of commands up to the layer's last RUN, in the order of the stream."""
    ends: dict[tuple[str, int], int] = {}
    runs = dict.fromkeys(Unit, 0)
    for command in decode(program.commands, program.config):
        if command.run:
            ends[command.unit.name.lower(), runs[command.unit]] = 4 * (command.word_index + 1 + len(command.values))
            runs[command.unit] += 1
    found = [(max(ends[unit, last] for unit, ranges in layer.runs.items() for _, last in ranges), layer.index)
             for layer in program.layers if any(layer.runs.values())]
    return [(index, end) for end, index in sorted(found)]


def layer_cycles(device: Device, program: Program, whole: int) -> dict[int, int]:
    """Return cycles by operator index: what the commands up to a layer's end take more than those before.

    Cycles do not depend on data, so the runs need no inputs.
    """
    cycles: dict[int, int] = {}
    before = 0
    ends = layer_ends(program)
    with ProgressBar("cycles of the layers") as bar:
        for number, (index, end) in enumerate(ends):
            until = whole if number == len(ends) - 1 else max(before, min(device.run_part(end, _END), whole))
            cycles[index] = until - before
            before = until
            bar.update(number + 1, len(ends))
    return cycles


def _infer(device: Device, program: Program, inputs: InputSet) -> tuple[Inference, DeviceRun]:
    edges.check_inputs(program, inputs)
    stored = [edges.to_port(port, array) for port, array in zip(program.inputs, inputs, strict=True)]
    try:
        run = device.run(stored)
    except MachineError as error:
        raise DeviceError(f"{program.name}: {located(program, error.unit, error.run)}: {error.status.name}") from None
    outputs = tuple(edges.from_port(port, data) for port, data in zip(program.outputs, run.outputs, strict=True))
    return Inference(outputs, run.cycles), run


def _bench(device: Device, program: Program, inputs: InputSet, count: int) -> Report:
    """Return latencies of `count` inferences: on the accelerator, and from the host with the link."""
    cycles: list[int] = []
    seconds: list[float] = []
    with ProgressBar("bench") as bar:
        for number in range(count):
            began = time.monotonic()
            cycles.append(_infer(device, program, inputs)[1].cycles)
            seconds.append(time.monotonic() - began)
            bar.update(number + 1, count)

    def summary(values: Sequence[float]) -> dict[str, float]:
        return {"min": min(values), "median": statistics.median(values), "max": max(values)}
    return {"inferences": count, "cycles": summary(cycles), "microseconds": summary(
        [round(one * 1e6 / device.identity.clock_hz, 3) for one in cycles]),
        "host_seconds": summary([round(one, 6) for one in seconds])}


def _print_board(report: Report) -> None:
    microseconds = report["cycles"] / report["clock_hz"] * 1e6
    lines = [("on the board", f"{microseconds:,.1f} us at {report['clock_hz'] / 1e6:g} MHz"),
             ("upload", f"{report['upload_bytes']:,} bytes in {report['upload_seconds']:.2f} s, "
                        f"{report['upload_bytes_per_second']:,} bytes per second"),
             ("link", f"{report['repeats']} requests repeated, {report['resets']} resets of the board")]
    if report["bench"] is not None:
        for key, unit in (("cycles", "cycles"), ("microseconds", "us"), ("host_seconds", "s with the link")):
            one = report["bench"][key]
            lines.append(("bench", f"min {one['min']:,}, median {one['median']:,}, max {one['max']:,} {unit}"))
    for name, value in lines:
        click.echo(f"{name:12} {value}")


@click.command("run")
@click.argument("path", metavar="MODEL")
@attached_options
@click.option("--inputs", "inputs_file", metavar="IN.npz|PICTURE", help="Input arrays, as for `sim`.  [default: drawn]")
@click.option("--outputs", "outputs_file", metavar="OUT.npz", help="Write the outputs as output_0, output_1, ...")
@draw_options(1)
@click.option("--bench", type=click.IntRange(1), metavar="N", help="Repeat the first inference N times, for latency.")
@click.option("--layers/--no-layers", default=True, help="Measure the cycles of each layer, with one run each.")
@click.option("--time-limit", type=click.FloatRange(0.1), default=60, show_default=True, metavar="SECONDS",
              help="Stop an inference after this time.")
@shape_options
@json_option
@debug_option
def run_command(path: str, place: Place, inputs_file: str | None, outputs_file: str | None, seed: int, sets: int,
                bench: int | None, layers: bool, time_limit: float, shapes: InputShapes,
                json_file: str | None) -> None:
    """Load a model, or a file that `compile` made, onto an accelerator in hardware and run it there.

    Each input set starts from the initial state. A model's outputs are held against the golden model; a difference is
    exit code 1.
    """
    check_outputs({"--outputs": outputs_file, "--json": json_file}, [path, inputs_file])
    subject = open_for_board(path, place.config, shapes=shapes)
    program = subject.program
    assert program is not None
    inputs, stacked = subject.input_sets(inputs_file, sets, seed)
    link, close = place.open()
    try:
        device = Device(link, time_limit_seconds=time_limit)
        began = time.monotonic()
        with ProgressBar(f"loading {program.name}") as bar:
            device.load(program, lambda done: bar.update(done, len(program.image)))
        upload_seconds = time.monotonic() - began
        found: list[Inference] = []
        with ProgressBar(f"running {program.name}") as bar:
            for number, one in enumerate(inputs):
                found.append(_infer(device, program, one)[0])
                bar.update(number + 1, len(inputs))
        benched = None if bench is None else _bench(device, program, inputs[0], bench)
        whole = found[0].cycles or 0
        if layers:
            found[0] = Inference(found[0].outputs, whole, layer_cycles(device, program, whole))
    finally:
        close()
    difference = None if subject.model is None else check_against_golden(subject, inputs, found)
    exact = None if subject.model is None else difference is None
    report: dict[str, Any] = sim_report(path, program.config, subject.model, program, place.name, found, exact)
    report |= {
        "board": report.pop("engine"), "port": place.port, "clock_hz": device.identity.clock_hz,
        "upload_bytes": len(program.image), "upload_seconds": round(upload_seconds, 3),
        "upload_bytes_per_second": round(len(program.image) / max(upload_seconds, 1e-6)),
        "repeats": link.repeats, "resets": device.resets, "bench": benched,
    }
    if outputs_file is not None:
        write(outputs_file, npz_bytes(output_arrays([one.outputs for one in found], stacked)))
    if "-" not in (json_file, outputs_file):
        print_summary(report)
        _print_board(report)
        print_layers(report)
    write_json(json_file, report)
    if difference is not None:
        raise MismatchError(difference)
