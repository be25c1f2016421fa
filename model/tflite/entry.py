"""Which subgraph an inference runs: the first one, or that of a signature; the others stay as far as it calls them."""

from collections.abc import Mapping
from dataclasses import replace

from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Model, Operator
from tq_hw.model.tflite.flatbuffer import Table
from tq_hw.model.tflite.order import SUBGRAPH_OPTIONS

__all__ = ["enter", "read_signatures"]


def read_signatures(root: Table, subgraph_count: int) -> dict[str, int]:
    """Return the subgraph of each signature by its name; raise `ModelError` for one that does not exist."""
    found: dict[str, int] = {}
    for table in root.tables(7, "signatures", "signature") or ():
        name = table.string(2, "signature_key")
        index = table.integer(4, "subgraph_index", "uint32")
        if index >= subgraph_count:
            raise table.error(f"refers to subgraph {index}; the file has {subgraph_count} subgraphs", "subgraph_index")
        found.setdefault(name, index)
    return found


def enter(model: Model, signatures: Mapping[str, int], wanted: str, name: str) -> Model:
    """Return the model of the subgraph that the signature `wanted` names ("": subgraph 0) and of those that it calls.

    Subgraphs keep their order and are counted again. Raises `OptionError`, naming the file as `name`, when there is no
    such signature.
    """
    if wanted and wanted not in signatures:
        has = f"the file has {', '.join(map(repr, signatures))}" if signatures else "the file has none"
        raise OptionError(f"{name}: --signature {wanted}: there is no such signature; {has}")
    first = signatures[wanted] if wanted else 0
    reached = {first}
    # A callee comes after its caller, so that one pass reaches all.
    for number, subgraph in enumerate(model.subgraphs):
        if number in reached:
            reached.update(callee for op in subgraph.operators for callee in _callees(op).values())
    numbers = {old: new for new, old in enumerate(sorted(reached))}
    subgraphs = (replace(model.subgraphs[old], operators=tuple(
        _renumbered(op, numbers) for op in model.subgraphs[old].operators)) for old in numbers)
    return replace(model, subgraphs=tuple(subgraphs))


def _callees(op: Operator) -> dict[str, int]:
    return {option: callee for option in SUBGRAPH_OPTIONS
            if isinstance(callee := op.options.get(option), int)}


def _renumbered(op: Operator, numbers: Mapping[int, int]) -> Operator:
    callees = _callees(op)
    changed = {option: numbers[callee] for option, callee in callees.items()}
    return op if changed == callees else replace(op, options={**op.options, **changed})
