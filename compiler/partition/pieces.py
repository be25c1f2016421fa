"""The pieces of a model, each of which runs on one side: single operators, float32 islands, operators with one state.

Lowering a piece by itself shows whether the accelerator can run it: there is no second list of supported operators.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tq_hw.compiler.lower.legalize import LOWERINGS, legalize
from tq_hw.compiler.partition.clusters import Edges
from tq_hw.compiler.rewrite.float_moves import MOVES
from tq_hw.compiler.rewrite.reasons import alone
from tq_hw.model.cut import cut
from tq_hw.model.errors import ModelError, TqError, UnsupportedError
from tq_hw.model.graph import Model, Operator, Subgraph
from tq_hw.model.rules.check import check_model
from tq_hw.model.rules.signatures import (
    COMPARISONS,
    FLOAT_OPERATORS,
    FLOAT_POOLS,
    FLOAT_REDUCTIONS,
    FLOAT_RESIZES,
    FLOAT_ROWS,
    RANKINGS,
    SEGMENTS,
    SIGNATURES,
)
from tq_hw.sim.golden.profiles import check_profile
from tq_hw.sim.golden.state import RESOURCE_KERNELS

__all__ = ["CONSTANTS_ALONE", "Piece", "find_pieces", "order_of", "used_outputs"]

#: Reason why an operator is left that could have been folded.
CONSTANTS_ALONE = "it reads constants alone"
_ENTRIES = ("DEQUANTIZE", "CAST")
#: Operators that may compute in float32 between codes.
_INSIDE = (*_ENTRIES, *FLOAT_OPERATORS, *FLOAT_POOLS, *FLOAT_REDUCTIONS, *FLOAT_RESIZES, *FLOAT_ROWS, *COMPARISONS,
           *MOVES, *SEGMENTS, "SCATTER_ND", "CUMSUM", "ADD_N")
#: Types of int8 models.
_KNOWN = ("int8", "int32", "int64", "bool", "resource")


@dataclass(frozen=True, eq=False)
class Piece:
    """Operators that run on the same side.

    Members
    -------
    operators : in the order of the model
    refusal : the reason why the accelerator does not run them, "" if it does
    """

    operators: tuple[Operator, ...]
    refusal: str


def order_of(subgraph: Subgraph, groups: Sequence[Sequence[Operator]]) -> Edges:
    """Return for each group of operators the groups that read its results."""
    giver = {index: number for number, group in enumerate(groups) for op in group for index in op.outputs}
    after: list[set[int]] = [set() for _ in groups]
    for number, group in enumerate(groups):
        for op in group:
            for index in op.inputs:
                if index in giver and giver[index] != number:
                    after[giver[index]].add(number)
    return after


def used_outputs(subgraph: Subgraph, operators: Iterable[Operator]) -> set[int]:
    """Return the results of these operators that others or the caller read, or that nothing reads."""
    chosen = list(operators)
    own = {op.index for op in chosen}
    outside = {index for op in subgraph.operators if op.index not in own for index in op.inputs}
    inside = {index for op in chosen for index in op.inputs}
    return {index for op in chosen for index in op.outputs
            if index in outside or index in subgraph.outputs or index not in inside}


def find_pieces(model: Model, *, packs: bool) -> list[Piece]:
    """Return the pieces of the main subgraph, in an order in which they can run.

    With `packs` the accelerator also runs float32 that is computed operator by operator, which the host does faster.
    Raises `ModelError` for an int8 operator that violates its rules.
    """
    main = model.main
    groups = _Groups(main)
    for island in _islands(main):
        operators = [op for op in main.operators if op.index in island]
        if not _refusal(model, operators, packs):
            groups.join(island)
    for sharing in _stateful(main):
        groups.join(sharing)
        wider = _with_edges(main, groups.of(sharing))
        if not _refusal(model, [op for op in main.operators if op.index in wider], packs):
            groups.join(wider)
    found = []
    for operators in groups.in_order():
        found.append(Piece(tuple(operators), _refusal(model, operators, packs)))
    return found


def _refusal(model: Model, operators: Sequence[Operator], packs: bool) -> str:
    main = model.main
    part = cut(model, operators, used_outputs(main, operators))
    if not part.main.inputs:
        return CONSTANTS_ALONE
    try:
        # With the constants of the whole model, from which the message knows how it is quantized.
        check_model(replace(part, subgraphs=(replace(part.main, tensors=main.tensors), *part.subgraphs[1:])))
        check_profile(part)
        legalize(part, packs=packs)
    except TqError as error:
        # The rules are for int8: a float32 operator is only refused, an invalid int8 operator is an error everywhere.
        if isinstance(error, ModelError) and not any(_is_foreign(main, op) for op in operators):
            raise
        in_float = alone(main, operators[0]) if len(operators) == 1 and isinstance(error, UnsupportedError) else ""
        return in_float or _without_place(error.reason, operators)
    return ""


def _is_foreign(main: Subgraph, op: Operator) -> bool:
    """Whether an operator has tensors of types that the rules of int8 models do not cover."""
    return op.op not in SIGNATURES or any(main.tensors[index].dtype not in _KNOWN for index in (*op.inputs, *op.outputs)
                                          if index >= 0)


def _without_place(message: str, operators: Sequence[Operator]) -> str:
    """Return a message without the operator's name, which the caller adds."""
    if len(operators) > 1:
        return message
    if operators[0].op not in LOWERINGS and message.startswith("not supported: "):
        reason = message.partition(" lists the operators that are; ")[2]
        return reason or "the accelerator does not support this operator"
    return re.sub(r"^(.*: subgraph 0, )?operator \d+ \(?[\w:]+\)?: ", "", message, count=1)


def _islands(main: Subgraph) -> list[set[int]]:
    """Return the operators of each float32 function of codes that a QUANTIZE, comparison or ranking reads."""
    maker = {index: op for op in main.operators for index in op.outputs}
    found = []
    for op in main.operators:
        # The model is not checked against the rules, so inputs may be absent.
        given = [index for index in op.inputs if index >= 0]
        if op.op not in ("QUANTIZE", *COMPARISONS, *RANKINGS) or not given or main.tensors[given[0]].dtype != "float32":
            continue
        island, todo = {op.index}, given
        while todo:
            index = todo.pop()
            made_by = maker.get(index)
            is_compared = made_by is not None and made_by.op in COMPARISONS
            if main.tensors[index].data is not None or (main.tensors[index].dtype != "float32" and not is_compared):
                continue
            if made_by is None or made_by.op not in _INSIDE:
                island.clear()
                break
            if made_by.index not in island:
                island.add(made_by.index)
                todo += [each for each in made_by.inputs if each >= 0] if made_by.op not in _ENTRIES else []
        if len(island) > 1:
            found.append(island)
    return found


def _stateful(main: Subgraph) -> list[set[int]]:
    """Return sets of operators that share a state: those of resources, and those of each variable tensor."""
    resources = {op.index for op in main.operators if op.op in RESOURCE_KERNELS}
    variables = [{op.index for op in main.operators if tensor.index in op.inputs}
                 for tensor in main.tensors if tensor.is_variable]
    return [group for group in (resources, *variables) if len(group) > 1]


def _with_edges(main: Subgraph, members: set[int]) -> set[int]:
    """Return operators together with each DEQUANTIZE of their inputs and each QUANTIZE of their results."""
    inside = [op for op in main.operators if op.index in members]
    read, made = ({index for op in inside for index in (op.inputs if reads else op.outputs)} for reads in (True, False))
    return members | {op.index for op in main.operators if (op.op == "DEQUANTIZE" and read & set(op.outputs)) or (
        op.op == "QUANTIZE" and made & set(op.inputs))}


class _Groups:
    """Groups of operators, with all operators on paths between them."""

    def __init__(self, main: Subgraph):
        self.main = main
        self.group = {op.index: op.index for op in main.operators}
        giver = {index: op.index for op in main.operators for index in op.outputs}
        self.before = {op.index: {giver[index] for index in op.inputs if index in giver} for op in main.operators}
        self.after: dict[int, set[int]] = {op.index: set() for op in main.operators}
        for index, sources in self.before.items():
            for source in sources:
                self.after[source].add(index)

    def join(self, members: set[int]) -> None:
        """Merge operators, the groups that they are in, and all operators between them into one group."""
        size = 0
        while len(members) > size:
            size = len(members)
            members = members | (self._reach(members, self.after) & self._reach(members, self.before))
            members |= self.of(members)
        first = min(members)
        self.group |= dict.fromkeys(members, first)

    def of(self, members: set[int]) -> set[int]:
        """Return all operators in the groups of these operators."""
        touched = {self.group[index] for index in members}
        return {index for index, group in self.group.items() if group in touched}

    @staticmethod
    def _reach(start: set[int], edges: dict[int, set[int]]) -> set[int]:
        seen: set[int] = set()
        todo = list(start)
        while todo:
            more = edges[todo.pop()] - seen
            seen |= more
            todo += more
        return seen

    def in_order(self) -> list[list[Operator]]:
        """Return the groups in an order in which they can run."""
        members: dict[int, list[Operator]] = {}
        for op in self.main.operators:
            members.setdefault(self.group[op.index], []).append(op)
        waiting = {group: {self.group[source] for op in ops for source in self.before[op.index]} - {group}
                   for group, ops in members.items()}
        order: list[list[Operator]] = []
        done: set[int] = set()
        while waiting:
            ready = next(group for group, needs in waiting.items() if needs <= done)
            del waiting[ready]
            done.add(ready)
            order.append(members[ready])
        return order

