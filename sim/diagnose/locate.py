"""Locate a difference: the first operator, tile, element and stage that an engine computes differently."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.program import Program
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Model
from tq_hw.sim import golden
from tq_hw.sim.diagnose.compare import Divergence, divergences
from tq_hw.sim.diagnose.patch import STAGES, find_tile, with_stage
from tq_hw.sim.diagnose.tensors import with_outputs
from tq_hw.sim.engines import InputSet
from tq_hw.sim.golden.explain import MAC_OPERATORS, explain

__all__ = ["locate"]

Array = npt.NDArray[Any]
Compile = Callable[[Model], Program]
RunProgram = Callable[[Program, InputSet], Sequence[Array]]


def locate(model: Model, inputs: InputSet, compile_other: Compile, run_program: RunProgram) -> str:
    """Describe the first operator that an engine computes differently from the golden model.

    `compile_other` compiles the model with additional outputs; `run_program` runs a program on the engine in question.
    """
    tensors = golden.run(model, inputs, keep=True).tensors
    wanted = [(op, index) for op in model.main.operators for index in op.outputs
              if model.main.tensors[index].dtype in ("int8", "uint8", "int16", "int32")]
    first = len(model.main.outputs)
    try:
        program = compile_other(with_outputs(model, [index for _, index in wanted]))
        found = run_program(program, inputs)[first:]
    except TqError as error:
        return f"the operator is not known, because the intermediate tensors are not available: {error}"
    different = divergences(found, [tensors[index] for _, index in wanted])
    if not different:
        return ("no operator differs when every intermediate tensor is stored, so the difference lies in how the "
                "commands store or order tensors; see docs/guide/debug-a-mismatch.md")
    output = different[0].output
    op, index = wanted[output]
    text = f"first at operator {op.index} ({op.op}), tensor {model.main.tensors[index].name!r}"
    if different[0].index is None:
        return f"{text}: {different[0].found}, expected {different[0].expected}"
    element = int(np.ravel_multi_index(different[0].index, tensors[index].shape))
    tile = find_tile(program, program.outputs[first + output], element, op.index)
    where = f", {tile}" if tile is not None else ""
    text += f"{where}, element {list(different[0].index)}: {_values(different[0])}"
    if op.op not in MAC_OPERATORS:
        return text
    stages = explain(model, tensors, op.index, element)
    shown = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in stages.items())

    def low_byte(changed: Program) -> int:
        return int(run_program(changed, inputs)[first + output].reshape(-1)[element]) & 0xFF

    stage = _stage(program, tile.run, stages, low_byte) if tile is not None else ""
    return f"{text}; the golden model has {shown}{stage}"


def _values(difference: Divergence) -> str:
    return f"{difference.found}, expected {difference.expected} ({difference.count} of {difference.total} differ)"


def _stage(program: Program, run: int, stages: Mapping[str, int], low_byte: Callable[[Program], int]) -> str:
    """Name the first stage whose low byte differs from the golden model's."""
    for stage in STAGES:
        changed = with_stage(program, run, stage)
        if changed is None:
            return ""
        try:
            value = low_byte(changed)
        except TqError as error:
            return f"; the {stage.replace('_', ' ')} is not available: {error}"
        if value != stages[stage] & 0xFF:
            return (f"; the first stage that differs is {stage.replace('_', ' ')}: its low byte is {value:#04x}, "
                    f"expected {stages[stage] & 0xFF:#04x}")
    return "; the first stage that differs is after clamp"
