"""Verify that operators form a graph that runs in the order of the file.

One pass over the operators of each subgraph: what is read must exist by then, what is written must be
written once, and never over an input, a constant or a variable.
"""

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Model, Operator, Subgraph, Tensor

__all__ = ["callees", "check_order"]

#: Options that are the index of a subgraph.
SUBGRAPH_OPTIONS = ("subgraph", "init_subgraph_index", "then_subgraph_index", "else_subgraph_index",
                    "cond_subgraph_index", "body_subgraph_index", "decomposition_subgraph_index",
                    "update_computation_subgraph_index")


def check_order(model: Model, name: str) -> None:
    """Raise `ModelError`, naming the file as `name`, unless every subgraph runs in its order."""
    if not model.main.outputs:
        raise ModelError(f"{name}: subgraph 0 has no output")
    for index, subgraph in enumerate(model.subgraphs):
        place = f"{name}: subgraph {index}"
        _check_subgraph(subgraph, place)
        for operator in subgraph.operators:
            _check_calls(operator, model, place)
    _check_recursion(model, name)
    _check_once(model, name)


def callees(operator: Operator) -> dict[str, int]:
    """Return the subgraphs that an operator calls, by option."""
    return {option: callee for option in SUBGRAPH_OPTIONS
            if isinstance(callee := operator.options.get(option), int)}


def _check_recursion(model: Model, name: str) -> None:
    """Raise where a subgraph calls one on the way to itself; each call is looked at once, however many there are."""
    calls = [[(op, option, callee) for op in subgraph.operators for option, callee in callees(op).items()]
             for subgraph in model.subgraphs]
    ended = set[int]()
    for root in range(len(calls)):
        # The calls from each subgraph of the way on, the last one first.
        way = {} if root in ended else {root: calls[root][::-1]}
        while way:
            caller, left = next(reversed(way.items()))
            if not left:
                ended.add(caller)
                del way[caller]
            elif (callee := left[-1][2]) in ended:
                left.pop()
            elif callee not in way:
                way[callee] = calls[callee][::-1]
            else:
                op, option, called = way[callee][-1]
                raise ModelError(f"{name}: subgraph {callee}, operator {op.index} {op.op}, {option}: subgraph {callee} "
                                 f"calls subgraph {called}, which is or calls subgraph {callee}: recursion is not "
                                 "supported")


def _check_once(model: Model, name: str) -> None:
    for index, subgraph in enumerate(model.subgraphs):
        for op in subgraph.operators:
            for option, callee in callees(op).items() if op.op == "CALL_ONCE" else ():
                if model.subgraphs[callee].inputs or model.subgraphs[callee].outputs:
                    raise ModelError(f"{name}: subgraph {index}, operator {op.index} {op.op}, {option}: subgraph "
                                     f"{callee} has inputs or outputs, expected none")


def _check_calls(operator: Operator, model: Model, place: str) -> None:
    subgraph_count = len(model.subgraphs)
    for option in SUBGRAPH_OPTIONS:
        callee = operator.options.get(option)
        if callee is None:
            continue
        where = f"{place}, operator {operator.index} {operator.op}, {option}"
        if not isinstance(callee, int) or not 0 <= callee < subgraph_count:
            raise ModelError(f"{where}: refers to subgraph {callee}; the file has {subgraph_count} "
                             f"subgraphs")


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
    return ("which nothing provides: it is not a constant, input or variable, and no operator produces it")


def _label(tensor: Tensor) -> str:
    return f"{tensor.index} {tensor.name[:60]!r}"
