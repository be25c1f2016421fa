"""When outputs differ, find the first operator, element and stage that does.

Every intermediate tensor of any engine is to be had by one trick: the model is compiled again with that tensor among
its outputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.cli.arrays import InputSet
from tq_hw.model.errors import OptionError, TqError
from tq_hw.model.graph import Model, Operator
from tq_hw.sim import golden
from tq_hw.sim.compare import Divergence, divergences
from tq_hw.sim.golden.explain import MAC_OPERATORS, explain

__all__ = ["find_tensor", "locate", "with_outputs"]

Array = npt.NDArray[Any]
#: Runs a model (not the one of the command: one with more outputs) on one input set.
RunModel = Callable[[Model, InputSet], Sequence[Array]]


def find_tensor(model: Model, wanted: str) -> int:
    """Return the index of an activation tensor of the main subgraph, named by its name or its index."""
    made = {index: op for op in model.main.operators for index in op.outputs}
    names = {model.main.tensors[index].name: index for index in made}
    if wanted in names:
        return names[wanted]
    if wanted.isdecimal() and int(wanted) in made:
        return int(wanted)
    raise OptionError(f"--dump {wanted}: no operator of {model.name} computes a tensor of that name or index; there "
                      f"are, for example, {', '.join(repr(name) for name in list(names)[:4])}")


def with_outputs(model: Model, tensors: Sequence[int]) -> Model:
    """Return the model with more tensors among its outputs."""
    main = replace(model.main, outputs=(*model.main.outputs, *tensors))
    return replace(model, subgraphs=(main, *model.subgraphs[1:]))


def locate(model: Model, inputs: InputSet, run_model: RunModel) -> str:
    """Say which operator of the model an engine computes differently from the golden model first.

    `run_model` runs a model by the engine in question.
    """
    tensors = golden.run(model, inputs, keep=True).tensors
    wanted = [(op, index) for op in model.main.operators for index in op.outputs
              if model.main.tensors[index].dtype in ("int8", "uint8", "int16", "int32")]
    try:
        found = run_model(with_outputs(model, [index for _, index in wanted]), inputs)[len(model.main.outputs):]
    except TqError as error:
        return f"the operator is not known, because the intermediate tensors cannot be had: {error}"
    expected = [tensors[index] for _, index in wanted]
    if not (different := divergences(found, expected)):
        return ("no operator differs when every intermediate tensor is stored, so the difference lies in how the "
                "commands keep or order tensors; see docs/guide/debug-a-mismatch.md")
    op, index = wanted[different[0].output]
    return _describe(model, tensors, op, index, different[0])


def _describe(model: Model, tensors: dict[int, Array], op: Operator, index: int, difference: Divergence) -> str:
    text = f"first at operator {op.index} ({op.op}), tensor {model.main.tensors[index].name!r}"
    if difference.index is None:
        return f"{text}: {difference.found}, expected {difference.expected}"
    text += (f", element {list(difference.index)}: {difference.found}, expected {difference.expected} "
             f"({difference.count} of {difference.total} differ)")
    if op.op not in MAC_OPERATORS:
        return text
    element = int(np.ravel_multi_index(difference.index, tensors[index].shape))
    shown = ", ".join(f"{name.replace('_', ' ')} {value}"
                      for name, value in explain(model, tensors, op.index, element).items())
    return f"{text}; the golden model has {shown}"
