"""A common interface to golden model, executor and Verilated RTL."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from tq_hw.cli.shared.progress import ProgressBar
from tq_hw.sim.engines import Engine, Inference, InputSet

__all__ = ["Array", "infer_all"]

Array = npt.NDArray[Any]


def infer_all(engine: Engine, inputs: Sequence[InputSet], text: str) -> list[Inference]:
    """Run every input set, with a progress bar labelled `text`."""
    found = []
    with ProgressBar(text) as bar:
        building = bar.building("RTL simulator: ")
        for number, one in enumerate(inputs):
            found.append(engine.infer(one, building))
            bar.update(number + 1, len(inputs), text)
    return found
