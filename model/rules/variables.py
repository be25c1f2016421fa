"""Resource variables, which VAR_HANDLE names and others write and read, and variable tensors that operators change."""

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Model, Subgraph, Tensor

__all__ = ["LSTM_CELL", "LSTM_HIDDEN", "STATE_POSITIONS", "SVDF_STATE", "check_variables", "variable_names"]

SVDF_STATE = 4
LSTM_HIDDEN, LSTM_CELL = 18, 19
#: Operators that change variable tensors, and which of their inputs these are.
STATE_POSITIONS = {"SVDF": (SVDF_STATE,), "UNIDIRECTIONAL_SEQUENCE_LSTM": (LSTM_HIDDEN, LSTM_CELL)}


def variable_names(subgraph: Subgraph) -> dict[int, str]:
    """Return the name of the variable of each resource tensor that a VAR_HANDLE gives."""
    return {operator.outputs[0]: f"{operator.options['container']}/{operator.options['shared_name']}"
            for operator in subgraph.operators if operator.op == "VAR_HANDLE" and operator.outputs}


def check_variables(model: Model, name: str) -> None:
    """Raise `ModelError` unless each variable is written somewhere, and has one type and shape everywhere."""
    written: dict[str, Tensor] = {}
    uses = []
    for index, subgraph in enumerate(model.subgraphs):
        names = variable_names(subgraph)
        for operator in subgraph.operators:
            if operator.op not in ("ASSIGN_VARIABLE", "READ_VARIABLE"):
                continue
            place = f"{name}: subgraph {index}, operator {operator.index} {operator.op}"
            variable = names.get(operator.inputs[0])
            if variable is None:
                raise ModelError(f"{place}: input 0 must come from a VAR_HANDLE of the same subgraph")
            is_write = operator.op == "ASSIGN_VARIABLE"
            tensor = subgraph.tensors[operator.inputs[1] if is_write else operator.outputs[0]]
            if is_write:
                written.setdefault(variable, tensor)
            uses.append((place, variable, tensor))
    for place, variable, tensor in uses:
        first = written.get(variable)
        if first is None:
            raise ModelError(f"{place}: variable {variable!r} is read, but never assigned")
        if (tensor.dtype, tensor.shape) != (first.dtype, first.shape):
            raise ModelError(f"{place}: variable {variable!r} is {tensor.dtype} {list(tensor.shape)} here and "
                             f"{first.dtype} {list(first.shape)} elsewhere")
