"""Verify that operators form a graph that runs in the order of the file.

One pass over the operators of each subgraph: what is read must exist by then, what is written must be
written once, and never over an input, a constant or a variable.
"""

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Model, Operator, Subgraph, Tensor

__all__ = ["callees", "check_order", "reached"]

#: Options that are the index of a subgraph.
SUBGRAPH_OPTIONS = ("subgraph", "init_subgraph_index", "then_subgraph_index",
                     "else_subgraph_index", "cond_subgraph_index", "body_subgraph_index")


def check_order(model: Model, name: str) -> None:
    """Raise `ModelError`, naming the file as `name`, unless every subgraph runs in its order."""
    if not model.main.outputs:
        raise ModelError(f"{name}: subgraph 0 has no output")
    for index, subgraph in enumerate(model.subgraphs):
        place = f"{name}: subgraph {index}"
        _check_subgraph(subgraph, place)
        for operator in subgraph.operators:
            _check_calls(operator, index, model, place)


def callees(operator: Operator) -> dict[str, int]:
    """Return the subgraphs that an operator calls, by option."""
    return {option: callee for option in SUBGRAPH_OPTIONS
            if isinstance(callee := operator.options.get(option), int)}


def reached(model: Model, first: int) -> set[int]:
    """Return a subgraph and all that it calls, directly or not."""
    found, todo = {first}, [first]
    while todo:
        number = todo.pop()
        operators = model.subgraphs[number].operators if 0 <= number < len(model.subgraphs) else ()
        more = {callee for op in operators for callee in callees(op).values()} - found
        found |= more
        todo += more
    return found


def _check_calls(operator: Operator, caller: int, model: Model, place: str) -> None:
    subgraph_count = len(model.subgraphs)
    for option in SUBGRAPH_OPTIONS:
        callee = operator.options.get(option)
        if callee is None:
            continue
        where = f"{place}, operator {operator.index} {operator.op}, {option}"
        if not isinstance(callee, int) or not 0 <= callee < subgraph_count:
            raise ModelError(f"{where}: refers to subgraph {callee}; the file has {subgraph_count} "
                             f"subgraphs")
        if caller in reached(model, callee):
            raise ModelError(f"{where}: subgraph {caller} calls subgraph {callee}, which is or calls subgraph "
                             f"{caller}: recursion is not supported")
        if operator.op == "CALL_ONCE" and (model.subgraphs[callee].inputs or model.subgraphs[callee].outputs):
            raise ModelError(f"{where}: subgraph {callee} has inputs or outputs, expected none")


def _check_subgraph(subgraph: Subgraph, place: str) -> None:
    tensors = subgraph.tensors
    writer: dict[int, int] = {}
    for operator in subgraph.operators:
        for index in operator.outputs:
            where = f"{place}, operator {operator.index} {operator.op}, output tensor {index}"
            if index in writer:
                raise ModelError(f"{where}: is produced twice, also by operator {writer[index]}")
            writer[index] = operator.index
    inputs = set(subgraph.inputs)
    if len(inputs) != len(subgraph.inputs):
        raise ModelError(f"{place}: lists a tensor twice among its inputs")
    for index in subgraph.inputs:
        if tensors[index].data is not None:
            raise ModelError(f"{place}, tensor {_label(tensors[index])}: is an input of the "
                             f"subgraph, but has constant contents")
    ready = inputs | {tensor.index for tensor in tensors
                      if tensor.data is not None or tensor.is_variable}
    for operator in subgraph.operators:
        where = f"{place}, operator {operator.index} {operator.op}"
        for index in operator.inputs:
            if index >= 0 and index not in ready:
                raise ModelError(f"{where}: reads tensor {_label(tensors[index])}, "
                                 + _missing(index, writer))
        for index in operator.outputs:
            tensor = tensors[index]
            if index in ready:
                kind = ("an input of the subgraph" if index in inputs
                        else "a variable" if tensor.is_variable else "a constant")
                raise ModelError(f"{where}: writes tensor {_label(tensor)}, which is {kind}")
            ready.add(index)
    for index in subgraph.outputs:
        if index not in ready:
            raise ModelError(f"{place}: output tensor {_label(tensors[index])} is never produced")


def _missing(index: int, writer: dict[int, int]) -> str:
    if index in writer:
        return (f"which operator {writer[index]} produces later: operators are not in topological "
                f"order")
    return ("which nothing provides: it is no constant, input or variable, and no operator "
            "produces it")


def _label(tensor: Tensor) -> str:
    return f"{tensor.index} {tensor.name[:60]!r}"
