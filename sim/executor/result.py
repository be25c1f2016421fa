"""The executor's result: outputs, memories, and the writer of each word."""

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
    """Result of one run.

    Members
    -------
    outputs : one array per output port, in the model's type and shape
    state : region 2 after the run; pass it to the next run of a stateful model
    runs : number of RUN commands, per unit
    tokens_left : tokens that nobody took, per (giver, taker)
    memory, scratchpad : contents after the run, if requested by `keep`
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
        """Return the (unit, RUN) that last wrote a scratchpad word, None if none did. Needs `keep`."""
        if self._writers is None:
            raise OptionError("who wrote a word is known only for a run with keep=True")
        value = int(self._writers[word])
        return None if value < 0 else (Unit(value >> 24), value & 0xFFFFFF)

    def writer_of(self, region: int, byte: int) -> tuple[Unit, int] | None:
        """Return the (unit, RUN) that last wrote a byte of a region, None for the host. Needs `keep`."""
        if self._writers is None:
            raise OptionError("who wrote a byte is known only for a run with keep=True")
        for operation in reversed(self._stores):
            if operation.fields["region"] == region and store_covers(operation.fields, byte):
                return Unit.STORE, operation.run
        return None
