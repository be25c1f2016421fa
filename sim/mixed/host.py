"""Operators of the host, in LiteRT's reference kernels."""

import importlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.model.errors import MissingToolError, ToolError
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.mixed.parts import HostPart
from tq_hw.sim.oracles import ENGINES, available

__all__ = ["HostRunner"]

Array = npt.NDArray[Any]

#: Kernels in the order in which they are tried: the second for operators that the reference resolver does not have.
KERNELS = ("litert-ref", "litert-opt")
_MISSING = "Didn't find op"


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
        self._interpreter: Any = None
        self._sizes: list[tuple[int, ...]] = []

    def reset(self) -> None:
        """Go back to the initial state."""
        if self.part.is_stateful:
            self._interpreter = None

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run one inference."""
        try:
            return self._run(inputs)
        except (RuntimeError, ValueError) as error:
            names = ", ".join(f"{op.index} ({op.op})" for op in self.part.operators[:8])
            more = ", ..." if len(self.part.operators) > 8 else ""
            raise ToolError(f"LiteRT does not run the host's operators {names}{more}: "
                            f"{' '.join(str(error).split())}") from error

    def _open(self) -> Any:
        """Return an interpreter with the first kernels that have all operators."""
        module = importlib.import_module(ENGINES[KERNELS[0]][1])
        for engine in KERNELS:
            resolver = getattr(module.OpResolverType, ENGINES[engine][2])
            try:
                return module.Interpreter(model_content=self._contents, experimental_op_resolver_type=resolver,
                                          num_threads=1)
            except ValueError as error:
                if engine == KERNELS[-1] or _MISSING not in str(error):
                    raise
        raise AssertionError("one of the kernels was returned or has raised")

    def _run(self, inputs: Sequence[Array]) -> list[Array]:
        sizes = [array.shape for array in inputs]
        if self._interpreter is None:
            self._interpreter, self._sizes = self._open(), []
        interpreter = self._interpreter
        details = interpreter.get_input_details()
        if self._sizes != sizes:
            for detail, array in zip(details, inputs, strict=True):
                if tuple(detail["shape"]) != array.shape:
                    interpreter.resize_tensor_input(detail["index"], array.shape)
            interpreter.allocate_tensors()
            self._sizes = sizes
        for detail, array in zip(details, inputs, strict=True):
            interpreter.set_tensor(detail["index"], np.ascontiguousarray(array))
        start = time.perf_counter()
        interpreter.invoke()
        self.seconds = time.perf_counter() - start
        return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
