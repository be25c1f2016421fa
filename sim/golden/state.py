"""State of an interpreter between inferences: variable tensors and resource variables.

Sources: `Interpreter::ResetVariableTensors` (int8 variables start at their zero point, others at 0),
`var_handle.cc`, `read_variable.cc`, `assign_variable.cc`, `call_once.cc`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Model, Operator, Subgraph
from tq_hw.sim.golden.registry import Array, Inputs, int_option, kernel, str_option, value

__all__ = ["RESOURCE_KERNELS", "State", "initial_value"]


@dataclass
class State:
    """State of one model; empty before the first inference.

    Members
    -------
    tensors : contents of variable tensors by (subgraph, tensor index)
    resources : contents of resource variables by name
    called : subgraphs that a CALL_ONCE has run
    """

    tensors: dict[tuple[int, int], Array] = field(default_factory=dict)
    resources: dict[str, Array] = field(default_factory=dict)
    called: set[int] = field(default_factory=set)

    def copy(self) -> "State":
        """Independent copy, arrays included."""
        return State({key: array.copy() for key, array in self.tensors.items()},
                     {key: array.copy() for key, array in self.resources.items()},
                     set(self.called))

    def variable(self, model: Model, subgraph: int, index: int) -> Array:
        """Contents of a variable tensor, which the caller may change in place."""
        key = (subgraph, index)
        if key not in self.tensors:
            self.tensors[key] = initial_value(model.subgraphs[subgraph], index)
        return self.tensors[key]


def initial_value(subgraph: Subgraph, index: int) -> Array:
    """Contents of a variable tensor before the first inference."""
    tensor = subgraph.tensors[index]
    fill = 0
    if tensor.dtype == "int8" and tensor.quantization is not None:
        fill = tensor.zero_point
    return np.full(tensor.shape, fill, tensor.dtype)


Execute = Callable[[int], None]
ResourceKernel = Callable[[Operator, Inputs, State, Execute], list[Array]]


def _var_handle(op: Operator, inputs: Inputs, state: State, execute: Execute) -> list[Array]:
    """Name of a resource variable; the handle's value is that name."""
    return [np.array(f"{str_option(op, 'container')}/{str_option(op, 'shared_name')}")]


def _read_variable(op: Operator, inputs: Inputs, state: State, execute: Execute) -> list[Array]:
    name = str(value(inputs, 0))
    if name not in state.resources:
        raise ModelError(f"resource variable {name!r} is read before it is assigned")
    return [state.resources[name].copy()]


def _assign_variable(op: Operator, inputs: Inputs, state: State, execute: Execute) -> list[Array]:
    state.resources[str(value(inputs, 0))] = value(inputs, 1).copy()
    return []


def _call_once(op: Operator, inputs: Inputs, state: State, execute: Execute) -> list[Array]:
    index = int_option(op, "init_subgraph_index")
    if index not in state.called:
        state.called.add(index)
        execute(index)
    return []


@kernel("STATE_COPY")
def _state_copy(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Current contents of a variable tensor, as a copy; an operator of the compiler."""
    return [value(inputs, 0)]


#: Kernels that read or change the state in addition to their inputs.
RESOURCE_KERNELS: dict[str, ResourceKernel] = {
    "VAR_HANDLE": _var_handle, "READ_VARIABLE": _read_variable,
    "ASSIGN_VARIABLE": _assign_variable, "CALL_ONCE": _call_once}
