"""Merge the programs of successive layers into one, ordered by level, in eight registers.

A micro-operation waits for all results but the newest one. Independent micro-operations therefore form a level, and a
level costs one wait. A stream is read only when its elements are needed, because registers are few.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tq_hw.compiler.ir.chain import ChainPart
from tq_hw.isa.uop import VECTOR_REGISTERS, Destination, Source

__all__ = ["Node", "chained"]


@dataclass(eq=False)
class Node:
    """A micro-operation before registers are allocated.

    Members
    -------
    uop : its fields, except the sources and registers of `a` and `b` and the destination
    a, b : the number of an input, the node whose result is read, or None for an immediate or no operand
    """

    uop: Mapping[str, int]
    a: "int | Node | None" = None
    b: "int | Node | None" = None
    level: int = 0

    @property
    def needs(self) -> "list[Node]":
        """The nodes whose results are its operands."""
        return [operand for operand in (self.a, self.b) if isinstance(operand, Node)]


def _leveled(nodes: Sequence[Node]) -> list[Node]:
    """Sort nodes by level; a node that reads only streams is one level before its first user."""
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        node.level = 1 + max((other.level for other in node.needs), default=-1)
        for other in node.needs:
            users.setdefault(other, []).append(node)
    for node in nodes:
        if not node.needs and node in users:
            node.level = max(0, min(user.level for user in users[node]) - 1)
    return sorted(nodes, key=lambda node: (node.level, _streams(node) != (None, None), str(_streams(node))))


def _streams(node: Node) -> tuple[int | None, int | None]:
    a, b = (operand if isinstance(operand, int) else None for operand in (node.a, node.b))
    return a, b


def _allocated(order: Sequence[Node]) -> list[tuple[Node, dict[str, int]]] | None:
    """Return each node with its fields, registers included; None if there are too few registers."""
    last = {other: number for number, node in enumerate(order) for other in node.needs}
    free, held = list(range(VECTOR_REGISTERS)), dict[Node, int]()
    found = []
    for number, node in enumerate(order):
        uop = dict(node.uop)
        for name, operand in (("a", node.a), ("b", node.b)):
            if isinstance(operand, Node):
                uop |= {f"{name}_source": Source.REGISTER, f"{name}_register": held[operand]}
            elif operand is not None:
                uop[f"{name}_source"] = Source.STREAM
        for other in dict.fromkeys(node.needs):
            if last[other] == number:
                free.append(held.pop(other))
        if node not in last:
            uop["destination"] = Destination.OUTPUT
        elif free:
            held[node] = min(free)
            free.remove(held[node])
            uop |= {"destination": Destination.REGISTER, "d_register": held[node]}
        else:
            return None
        found.append((node, uop))
    return found


def chained(nodes: Sequence[Node]) -> tuple[ChainPart, ...] | None:
    """Return the parts of a program with one output; None if there are too few registers.

    A new part begins where a node needs a stream that is not one of the part's two.
    """
    allocated = _allocated(_leveled(nodes))
    if allocated is None:
        return None
    parts: list[tuple[int | None, int | None, list[Mapping[str, int]]]] = [(None, None, [])]
    for node, uop in allocated:
        wanted, (a, b, uops) = _streams(node), parts[-1]
        if any(want is not None and have not in (None, want) for want, have in zip(wanted, (a, b), strict=True)):
            a, b, uops = None, None, []
            parts.append((a, b, uops))
        uops.append(uop)
        parts[-1] = (a if wanted[0] is None else wanted[0], b if wanted[1] is None else wanted[1], uops)
    return tuple(ChainPart(a, b, tuple(uops)) for a, b, uops in parts)
