"""What the executor hands back: outputs, memories, and who wrote what."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.layout import Unit
from tq_hw.isa.operations import Operation
from tq_hw.model.errors import OptionError
from tq_hw.sim.executor.machine import Bytes
from tq_hw.sim.executor.move import store_covers

__all__ = ["ExecutionResult"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ExecutionResult:
    """Outcome of one run.

    Members
    -------
    outputs : one array per output port, as the model has it
    state : region 2 after the run; pass it to the next run of a stateful model
    runs : RUN commands done, per unit
    tokens_left : tokens that nobody took, per (giver, taker)
    memory, scratchpad : contents after the run, when asked for with `keep`
    """

    outputs: tuple[Array, ...]
    state: bytes
    runs: dict[Unit, int]
    tokens_left: dict[tuple[Unit, Unit], int]
    memory: tuple[Bytes, ...] = ()
    scratchpad: Bytes | None = None
    _writers: npt.NDArray[np.int64] | None = None
    _stores: tuple[Operation, ...] = ()

    def writer_of_word(self, word: int) -> tuple[Unit, int] | None:
        """Return (unit, RUN) that wrote a scratchpad word last; None: nobody. Needs `keep`."""
        if self._writers is None:
            raise OptionError("who wrote a word is known only of a run with keep=True")
        value = int(self._writers[word])
        return None if value < 0 else (Unit(value >> 24), value & 0xFFFFFF)

    def writer_of(self, region: int, byte: int) -> tuple[Unit, int] | None:
        """Return (unit, RUN) that wrote a byte of a region last; None: the host. Needs `keep`."""
        if self._writers is None:
            raise OptionError("who wrote a byte is known only of a run with keep=True")
        for operation in reversed(self._stores):
            if operation.fields["region"] == region and store_covers(operation.fields, byte):
                return Unit.STORE, operation.run
        return None
