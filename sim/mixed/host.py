"""Run the host's operators in LiteRT's reference kernels, in a separate process, since LiteRT may crash it."""

import atexit
import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from tq_hw.model.errors import MissingToolError, ToolError
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.mixed.parts import HostPart
from tq_hw.sim.oracles import ENGINES, Oracle, available

__all__ = ["HostRunner", "close_engines"]

Array = npt.NDArray[Any]

#: Kernels in order of preference: the second ones for operators that the reference resolver lacks.
KERNELS = ("litert-ref", "litert-opt")
_MISSING = "Didn't find op"
_numbers = itertools.count()


#: The engines shared by all host parts of this process, created on demand.
_engines: dict[str, Oracle] = {}


def _engine(name: str) -> Oracle:
    if name not in _engines:
        _engines[name] = Oracle(name)
    return _engines[name]


@atexit.register
def close_engines() -> None:
    """End the engines of all host parts; a later run starts new ones."""
    while _engines:
        _engines.popitem()[1].close()


class HostRunner:
    """One host part in an interpreter of its own.

    Attributes
    ----------
    seconds : wall time of the last inference

    Raises `MissingToolError` without LiteRT, `ToolError` when it does not run the operators.
    """

    def __init__(self, part: HostPart):
        if not available(KERNELS[0]):
            raise MissingToolError(f"{ENGINES[KERNELS[0]][0]} is not installed, which runs the operators that stay "
                                   'with the host; run: pip install "tq-hw[oracles]"')
        self.part, self.seconds = part, 0.0
        self._contents = write_model(part.model)
        self._key, self._kernels, self._fresh = next(_numbers), KERNELS[0], True
        weakref.finalize(self, _drop, self._key)

    def reset(self) -> None:
        """Go back to the initial state."""
        self._fresh = self._fresh or self.part.is_stateful

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run one inference."""
        try:
            return self._run(inputs)
        except ToolError as error:
            names = ", ".join(f"{op.index} ({op.op})" for op in self.part.operators[:8])
            more = ", ..." if len(self.part.operators) > 8 else ""
            raise ToolError(f"LiteRT does not run the host's operators {names}{more}: {error}") from error

    def _run(self, inputs: Sequence[Array]) -> list[Array]:
        if self.part.is_stateful and not self._fresh and not _engine(self._kernels).keeps(self._key):
            raise ToolError("their state was lost with LiteRT's process; begin again from the initial state")
        try:
            found, self.seconds = _engine(self._kernels).run_kept(self._key, self._contents, inputs, self._fresh)
        except ToolError as error:
            if self._kernels == KERNELS[-1] or _MISSING not in str(error):
                raise
            self._kernels = KERNELS[-1]
            found, self.seconds = _engine(self._kernels).run_kept(self._key, self._contents, inputs, self._fresh)
        self._fresh = False
        return found


def _drop(key: int) -> None:
    """Release the interpreter of a runner that no longer exists."""
    for engine in _engines.values():
        engine.drop(key)
