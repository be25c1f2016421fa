"""Runs a whole model in integers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.model.errors import InputError, ModelError, OptionError, UnsupportedError
from tq_hw.model.graph import Model, Operator, Subgraph, Tensor
from tq_hw.model.rules.check import check_shapes
from tq_hw.model.rules.node import Node
from tq_hw.model.rules.variables import STATE_POSITIONS
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.profiles import check_profile
from tq_hw.sim.golden.registry import Array, located
from tq_hw.sim.golden.state import RESOURCE_KERNELS, State

__all__ = ["Result", "check_inputs", "operator_inputs", "run", "run_operator"]


@dataclass(frozen=True, eq=False)
class Result:
    """Result of one inference.

    Members
    -------
    outputs : one array per model output
    tensors : every tensor of the main subgraph by index if requested, else empty; variable tensors have their contents
        after the inference
    state : state after the inference; pass it to the next call of a stateful model
    """

    outputs: tuple[Array, ...]
    tensors: dict[int, Array]
    state: State


def check_inputs(model: Model, inputs: Sequence[Array]) -> None:
    """Raise `OptionError` unless there is one array of the right dtype and shape per input."""
    main = model.main
    if len(inputs) != len(main.inputs):
        raise OptionError(f"{model.name}: expected {len(main.inputs)} inputs, found {len(inputs)}")
    for position, (index, array) in enumerate(zip(main.inputs, inputs, strict=True)):
        tensor = main.tensors[index]
        if array.dtype.name != tensor.dtype or array.shape != tensor.shape:
            raise OptionError(f"{model.name}: input {position} ({tensor.name!r}) must be "
                              f"{tensor.dtype}{list(tensor.shape)}, found "
                              f"{array.dtype.name}{list(array.shape)}")


def run(model: Model, inputs: Sequence[Array], state: State | None = None,
        keep: bool = False) -> Result:
    """Run one inference of `model` in the arithmetic of its profile (`model.under("tflm")` for another one).

    Parameters
    ----------
    inputs : one array per model input, of its dtype and shape
    state : state before the inference, left unchanged; the initial state by default
    keep : whether to return every tensor of the main subgraph

    Raises `UnsupportedError` or `ModelError` naming the operator and its index, `OptionError` for inputs that do not
    fit.
    """
    check_inputs(model, inputs)
    check_profile(model)
    new_state = State() if state is None else state.copy()
    values = _execute(model, 0, inputs, new_state)
    try:
        outputs = tuple(values[index].copy() for index in model.main.outputs)
    except KeyError as error:
        raise ModelError(f"{model.name}: output tensor {error} is never computed") from error
    return Result(outputs, values if keep else {}, new_state)


def operator_inputs(op: Operator, values: dict[int, Array]) -> list[Array | None]:
    """Look up an operator's inputs, None for an absent one."""
    found: list[Array | None] = []
    for position, index in enumerate(op.inputs):
        if index >= 0 and index not in values:
            raise ModelError(f"input {position} (tensor {index}) is not computed yet")
        found.append(values[index] if index >= 0 else None)
    return found


def _execute(model: Model, number: int, inputs: Sequence[Array],
             state: State) -> dict[int, Array]:
    subgraph = model.subgraphs[number]
    values: dict[int, Array] = {tensor.index: tensor.data for tensor in subgraph.tensors
                                if tensor.data is not None}
    values |= {tensor.index: state.variable(model, number, tensor.index)
               for tensor in subgraph.tensors if tensor.is_variable}
    values |= {index: array.copy() if subgraph.tensors[index].is_variable else array
               for index, array in zip(subgraph.inputs, inputs, strict=True)}
    for op in subgraph.operators:
        with located(op):
            for index, array in zip(op.outputs, run_operator(model, number, op, values, state),
                                    strict=True):
                _check_output(subgraph.tensors[index], array)
                values[index] = array
    return values


def run_operator(model: Model, number: int, op: Operator, values: dict[int, Array],
                 state: State) -> list[Array]:
    """Compute the outputs of one operator of subgraph `number` from the tensors computed so far."""
    found = operator_inputs(op, values)
    if op.op not in STATE_POSITIONS:
        # A result may be a view of a state tensor; copy it, since the owner may change the state.
        tensors = model.subgraphs[number].tensors
        found = [array.copy() if array is not None and tensors[index].is_variable else array
                 for index, array in zip(op.inputs, found, strict=True)]
    if op.op in RESOURCE_KERNELS:
        return RESOURCE_KERNELS[op.op](
            op, found, state, lambda index: _call(model, index, state))
    if op.op not in KERNELS:
        raise UnsupportedError("the golden model has no kernel for this operator; see the list of "
                               "supported operators")
    _check_sizes(op, model.subgraphs[number], found)
    return KERNELS[op.op](op, model.subgraphs[number], found)


def _check_sizes(op: Operator, subgraph: Subgraph, inputs: Sequence[Array | None]) -> None:
    """Raise `InputError` unless computed operands, such as sizes and axes, give the declared shapes.

    Constant operands were checked when the model was read. A kernel would allocate any computed size, however large.
    """
    computed = {index: array for index, array in zip(op.inputs, inputs, strict=True)
                if array is not None and array.dtype in (np.int32, np.int64) and subgraph.tensors[index].data is None}
    if not computed:
        return
    tensors = list(subgraph.tensors)
    for index, array in computed.items():
        tensors[index] = replace(tensors[index], data=array)
    try:
        check_shapes(Node(op, tensors, f"operator {op.index} ({op.op})"))
    except ModelError as error:
        raise InputError(str(error)) from error


def _call(model: Model, number: int, state: State) -> None:
    if not 0 <= number < len(model.subgraphs):
        raise ModelError(f"subgraph {number} does not exist, the model has "
                         f"{len(model.subgraphs)}")
    _execute(model, number, (), state)


def _check_output(tensor: Tensor, array: Array) -> None:
    """Require the declared shape, since later stages plan with it."""
    if tensor.dtype != "resource" and (array.dtype.name != tensor.dtype
                                       or array.shape != tensor.shape):
        raise ModelError(f"output tensor {tensor.index} ({tensor.name!r}) is declared "
                         f"{tensor.dtype}{list(tensor.shape)}, computed "
                         f"{array.dtype.name}{list(array.shape)}")
