"""Copies of variable tensors for readers other than their owner.

The owner, an SVDF or LSTM, updates a variable tensor in place. A view of the tensor, or an operator that a pattern
moved, would read the updated contents; the copy is made where the model reads the tensor.
"""

from dataclasses import replace

from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.model.rules.variables import STATE_POSITIONS

__all__ = ["copied_states"]


def copied_states(subgraph: Subgraph) -> Subgraph:
    """Return the subgraph with STATE_COPY before operators that read a variable tensor without updating it.

    Raises UnsupportedError if a variable tensor is an input of the model.
    """
    for tensor in (subgraph.tensors[index] for index in subgraph.inputs):
        if tensor.is_variable:
            raise UnsupportedError(f"model input {tensor.name!r} (tensor {tensor.index}) is a variable, which stays in "
                                   "the accelerator; give the operator that changes it one of its own")
    tensors, operators = list(subgraph.tensors), list[Operator]()
    for op in subgraph.operators:
        owned, inputs = STATE_POSITIONS.get(op.op, ()), list(op.inputs)
        for position, index in enumerate(op.inputs):
            if index < 0 or position in owned or not tensors[index].is_variable:
                continue
            inputs[position] = len(tensors)
            tensors.append(replace(tensors[index], index=len(tensors), name=f"{tensors[index].name} (read)",
                                   is_variable=False))
            operators.append(Operator(op.index, "STATE_COPY", (index,), (inputs[position],)))
        operators.append(op if inputs == list(op.inputs) else replace(op, inputs=tuple(inputs)))
    return subgraph if len(operators) == len(subgraph.operators) else replace(
        subgraph, tensors=tuple(tensors), operators=tuple(operators))
