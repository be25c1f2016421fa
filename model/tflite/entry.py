"""Selects the subgraph of an inference, the first or a signature's, and keeps only the subgraphs that it calls."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tq_hw.model.errors import UnmetError
from tq_hw.model.graph import Model, Operator, Signature, Subgraph
from tq_hw.model.tflite.flatbuffer import Table
from tq_hw.model.tflite.order import callees

__all__ = ["enter", "read_signatures"]


def read_signatures(root: Table, subgraphs: Sequence[Subgraph]) -> tuple[Signature, ...]:
    """Return the signatures, of two of one name the first; raise `ModelError` for what they name and is not there."""
    found: dict[str, Signature] = {}
    for table in root.tables(7, "signatures", "signature") or ():
        name = table.string(2, "signature_key")
        index = table.integer(4, "subgraph_index", "uint32")
        if index >= len(subgraphs):
            raise table.error(f"refers to subgraph {index}; the file has {len(subgraphs)} subgraphs", "subgraph_index")
        count = len(subgraphs[index].tensors)
        found.setdefault(name, Signature(name, index, _tensors(table, 0, "inputs", count),
                                         _tensors(table, 1, "outputs", count)))
    return tuple(found.values())


def _tensors(table: Table, slot: int, field: str, count: int) -> dict[str, int]:
    named: dict[str, int] = {}
    for entry in table.tables(slot, field, f"signature {field.removesuffix('s')}") or ():
        index = entry.integer(1, "tensor_index", "uint32")
        if index >= count:
            raise entry.error(f"refers to tensor {index}; the subgraph has {count} tensors", "tensor_index")
        named[entry.string(0, "name")] = index
    return named


def enter(model: Model, wanted: str, name: str) -> Model:
    """Return the model of the subgraph that the signature `wanted` names ("": subgraph 0) and of those that it calls.

    Subgraphs keep their order after that one and are counted again; signatures of others are left out. Raises
    `UnmetError`, naming the file as `name`, when there is no such signature.
    """
    signatures = {each.name: each.subgraph for each in model.signatures}
    if wanted and wanted not in signatures:
        has = f"the file has {', '.join(map(repr, signatures))}" if signatures else "the file has none"
        raise UnmetError(f"{name}: --signature {wanted}: there is no such signature; {has}")
    first = signatures[wanted] if wanted else 0
    # The first of them is where an inference begins.
    numbers = {old: new for new, old in enumerate((first, *sorted(_reached(model, first) - {first})))}
    subgraphs = (replace(model.subgraphs[old], operators=tuple(
        _renumbered(op, numbers) for op in model.subgraphs[old].operators)) for old in numbers)
    kept = tuple(replace(each, subgraph=numbers[each.subgraph]) for each in model.signatures
                 if each.subgraph in numbers)
    return replace(model, subgraphs=tuple(subgraphs), signatures=kept)


def _reached(model: Model, first: int) -> set[int]:
    """Return a subgraph and all that it calls, directly or not."""
    found, todo = {first}, [first]
    while todo:
        more = {callee for op in model.subgraphs[todo.pop()].operators for callee in callees(op).values()} - found
        found |= more
        todo += more
    return found


def _renumbered(op: Operator, numbers: Mapping[int, int]) -> Operator:
    called = callees(op)
    changed = {option: numbers[callee] for option, callee in called.items()}
    return op if changed == called else replace(op, options={**op.options, **changed})
