"""A board at the end of a link as an engine: load programs once, run inferences, measure the cycles of each layer."""

import statistics
import time
from collections.abc import Sequence

from tq_hw.boards.link.device import Device, MachineError
from tq_hw.cli.report.layers import Report
from tq_hw.cli.shared.progress import ProgressBar
from tq_hw.isa.encode import decode, pack
from tq_hw.isa.layout import HEADER, Unit
from tq_hw.isa.program import Program
from tq_hw.model.errors import DeviceError
from tq_hw.sim import edges
from tq_hw.sim.engines import Engine, Inference, InputSet
from tq_hw.sim.faults import located
from tq_hw.sim.rtl.build import Progress

__all__ = ["BoardEngine", "layer_ends", "repeat"]

_END = pack(HEADER, {"unit": Unit.CONTROL, "run": 1}).to_bytes(4, "little")


class BoardEngine:
    """One program on a board. Several programs share a device, which keeps as many images as fit into its memory.

    Attributes
    ----------
    upload_bytes, upload_seconds : total of all uploads of the image
    """

    def __init__(self, device: Device, program: Program) -> None:
        self.device, self.program = device, program
        self.upload_bytes, self.upload_seconds = 0, 0.0

    def load(self) -> None:
        """Load the image, unless the board's memory still has it."""
        began = time.monotonic()
        with ProgressBar(f"loading {self.program.name}") as bar:
            kept = self.device.select(self.program, lambda done: bar.update(done, len(self.program.image)))
        if not kept:
            self.upload_bytes += len(self.program.image)
            self.upload_seconds += time.monotonic() - began

    def infer(self, inputs: InputSet, progress: Progress | None = None) -> Inference:
        """Run one inference from the initial state."""
        self.load()
        program = self.program
        edges.check_inputs(program, inputs)
        stored = [edges.to_port(port, array) for port, array in zip(program.inputs, inputs, strict=True)]
        try:
            run = self.device.run(stored)
        except MachineError as error:
            where = located(program, error.unit, error.run)
            raise DeviceError(f"{program.name}: {where}: {error.status.name}") from None
        outputs = tuple(edges.from_port(port, data) for port, data in zip(program.outputs, run.outputs, strict=True))
        return Inference(outputs, run.cycles)

    def layer_cycles(self, whole: int) -> dict[int, int]:
        """Return cycles by operator index: those up to the end of a layer's commands, less those of the layers before.

        Cycles do not depend on data, so the runs need no inputs. `whole` is the cycles of a whole inference.
        """
        self.load()
        cycles: dict[int, int] = {}
        before = 0
        ends = layer_ends(self.program)
        with ProgressBar("cycles of the layers") as bar:
            for number, (index, end) in enumerate(ends):
                last = number == len(ends) - 1
                until = whole if last else max(before, min(self.device.run_part(end, _END), whole))
                cycles[index] = until - before
                before = until
                bar.update(number + 1, len(ends))
        return cycles


def layer_ends(program: Program) -> list[tuple[int, int]]:
    """Return each layer's index and the end of its last RUN in bytes of commands, in stream order."""
    ends: dict[tuple[str, int], int] = {}
    runs = dict.fromkeys(Unit, 0)
    for command in decode(program.commands, program.config):
        if command.run:
            ends[command.unit.name.lower(), runs[command.unit]] = 4 * (command.word_index + 1 + len(command.values))
            runs[command.unit] += 1
    found = [(max(ends[unit, last] for unit, ranges in layer.runs.items() for _, last in ranges), layer.index)
             for layer in program.layers if any(layer.runs.values())]
    return [(index, end) for end, index in sorted(found)]


def repeat(engine: Engine, inputs: InputSet, count: int, clock_hz: int) -> Report:
    """Return latencies of `count` inferences: on the accelerator, and on the host including the link."""
    cycles: list[int] = []
    seconds: list[float] = []
    with ProgressBar("bench") as bar:
        for number in range(count):
            began = time.monotonic()
            cycles.append(engine.infer(inputs).cycles or 0)
            seconds.append(time.monotonic() - began)
            bar.update(number + 1, count)

    def summary(values: Sequence[float]) -> dict[str, float]:
        return {"min": min(values), "median": statistics.median(values), "max": max(values)}
    return {"inferences": count, "cycles": summary(cycles),
            "microseconds": summary([round(one * 1e6 / clock_hz, 3) for one in cycles]),
            "host_seconds": summary([round(one, 6) for one in seconds])}
