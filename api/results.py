"""The result of a simulation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tq_hw.tensors import Array

__all__ = ["Result"]


@dataclass(frozen=True, repr=False, eq=False)
class Result:
    """Outputs of one or several input sets, with the cycles of the first.

    Members
    -------
    outputs : one array per output, with a leading axis of sets if the inputs had one
    engine : "rtl", "executor" or "golden"
    cycles : from start to the last write response, from a cold start; None if the engine does not model time
    layers : a record per operator, as of a compiled network, with the measured cycles
    exact : whether every integer equals the golden model's; None for the golden model itself
    """

    name: str
    outputs: tuple[Array, ...]
    engine: str
    cycles: int | None
    layers: tuple[Mapping[str, Any], ...]
    exact: bool | None

    @property
    def output(self) -> Array:
        """The only output; ValueError if there are several."""
        output, = self.outputs
        return output

    def __repr__(self) -> str:
        time = "" if self.cycles is None else f", {self.cycles:,} cycles"
        exact = {None: "", True: ", equal to the golden model", False: ", NOT equal to the golden model"}[self.exact]
        shapes = ", ".join(f"{array.dtype.name}{list(array.shape)}" for array in self.outputs)
        return f"<Result of {self.name} on {self.engine}: {shapes}{time}{exact}>"
