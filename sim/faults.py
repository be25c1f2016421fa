"""The error of a machine that stopped, common to executor, RTL and boards."""

from tq_hw.isa.control import NO_RUN, Status
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Program
from tq_hw.model.errors import DeviceError

__all__ = ["SimulationError", "located"]


class SimulationError(DeviceError):
    """The machine stopped, would hang, or has a race.

    Members
    -------
    status : the hardware's error code, or None for an error that only a simulation detects (deadlock, race)
    unit, run : the RUN command that stopped, if there is one
    """

    def __init__(self, message: str, status: Status | None = None, unit: Unit | None = None,
                 run: int | None = None) -> None:
        super().__init__(message)
        self.status, self.unit, self.run = status, unit, run


def located(program: Program, unit: Unit, run: int) -> str:
    """Return "array RUN 12 (operator 3, CONV_2D 'name')"; only "array" for NO_RUN."""
    if run == NO_RUN:
        return unit.name.lower()
    layer = program.layer_of(unit, run)
    of = "" if layer is None else f" (operator {layer.index}, {layer.op} {layer.name!r})"
    return f"{unit.name.lower()} RUN {run}{of}"
