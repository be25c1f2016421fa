"""Models of some operators of a model: what is cut out at tensors."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from tq_hw.model.graph import Model, Operator, Subgraph

__all__ = ["compact", "cut", "reads"]


def reads(subgraph: Subgraph, op: Operator) -> list[int]:
    """Return the tensors that an operator reads and another one, or a caller, gives: no constants, no variables."""
    return [index for index in dict.fromkeys(op.inputs) if index >= 0 and subgraph.tensors[index].data is None
            and not subgraph.tensors[index].is_variable]


def cut(model: Model, operators: Sequence[Operator], wanted: Collection[int]) -> Model:
    """Return the model of `operators`, in their order, of the main subgraph.

    Tensors and operators keep their index. Inputs are what the operators read and do not give, in the order in which
    they are read; outputs what they give and `wanted` has. Contents of constants that they do not read are left out,
    as are subgraphs where no operator calls one.
    """
    main = model.main
    given = {index for op in operators for index in op.outputs}
    inputs = dict.fromkeys(index for op in operators for index in reads(main, op) if index not in given)
    used = {index for op in operators for index in op.inputs}
    tensors = tuple(tensor if tensor.data is None or tensor.index in used else replace(tensor, data=None)
                    for tensor in main.tensors)
    outputs = tuple(index for op in operators for index in op.outputs if index in wanted)
    part = replace(main, tensors=tensors, operators=tuple(operators), inputs=tuple(inputs), outputs=outputs)
    calls = any("subgraph" in option for op in operators for option in op.options)
    return replace(model, subgraphs=(part, *(model.subgraphs[1:] if calls else ())), signatures=())


def compact(model: Model) -> Model:
    """Return the model without tensors of the main subgraph that nothing names; the others are counted again.

    Signatures keep what is left of their tensors.
    """
    main = model.main
    named = {*main.inputs, *main.outputs}
    named.update(index for op in main.operators for index in (*op.inputs, *op.outputs, *op.intermediates))
    numbers = {old: new for new, old in enumerate(sorted(named - {-1}))} | {-1: -1}

    def renumbered(indices: Sequence[int]) -> tuple[int, ...]:
        return tuple(numbers[index] for index in indices)

    part = replace(
        main, tensors=tuple(replace(main.tensors[old], index=new) for old, new in numbers.items() if old >= 0),
        operators=tuple(replace(op, inputs=renumbered(op.inputs), outputs=renumbered(op.outputs),
                                intermediates=renumbered(op.intermediates)) for op in main.operators),
        inputs=renumbered(main.inputs), outputs=renumbered(main.outputs))
    signatures = tuple(each if each.subgraph else replace(
        each, inputs={name: numbers[index] for name, index in each.inputs.items() if index in numbers},
        outputs={name: numbers[index] for name, index in each.outputs.items() if index in numbers})
        for each in model.signatures)
    return replace(model, subgraphs=(part, *model.subgraphs[1:]), signatures=signatures)
