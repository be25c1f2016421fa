"""One program of several: micro-operations of layers that follow each other, level by level, in eight registers.

A micro-operation waits for all results but the newest one, so those that need none of each other's go together: a
level takes the time of one wait. Streams are read as late as they are needed, for registers are few.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tq_hw.compiler.ir.chain import ChainPart
from tq_hw.isa.uop import Destination, Source

__all__ = ["Node", "REGISTERS", "chained"]

REGISTERS = 8
#: An input of the chain by its number, or what another micro-operation gives.
Operand = "int | Node | None"


@dataclass(eq=False)
class Node:
    """A micro-operation without registers.

    Members
    -------
    uop : its fields but sources and registers of `a` and `b`, and the destination
    a, b : number of an input, what another one gives, or None: an immediate or nothing
    """

    uop: Mapping[str, int]
    a: "int | Node | None" = None
    b: "int | Node | None" = None
    level: int = field(default=0)

    @property
    def needs(self) -> "list[Node]":
        """Those that give its operands."""
        return [operand for operand in (self.a, self.b) if isinstance(operand, Node)]


def _leveled(nodes: Sequence[Node]) -> list[Node]:
    """Nodes by level; who needs streams alone is one level before the first one that needs it."""
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


def _allocated(order: Sequence[Node]) -> Iterator[tuple[Node, dict[str, int]]]:
    """Give each node its registers; raises IndexError where there are too few."""
    last = {other: number for number, node in enumerate(order) for other in node.needs}
    free, held = list(range(REGISTERS)), dict[Node, int]()
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
        if node in last:
            held[node] = min(free, default=REGISTERS)
            if held[node] == REGISTERS:
                raise IndexError("too few registers")
            free.remove(held[node])
            uop |= {"destination": Destination.REGISTER, "d_register": held[node]}
        else:
            uop["destination"] = Destination.OUTPUT
        yield node, uop


def chained(nodes: Sequence[Node]) -> tuple[ChainPart, ...] | None:
    """Return the parts of a program, of which one node gives the output; None if there are too few registers.

    A part goes on until another stream is needed than it has.
    """
    parts: list[tuple[int | None, int | None, list[Mapping[str, int]]]] = [(None, None, [])]
    try:
        for node, uop in _allocated(_leveled(nodes)):
            wanted, (a, b, uops) = _streams(node), parts[-1]
            if any(want is not None and have not in (None, want) for want, have in zip(wanted, (a, b), strict=True)):
                a, b, uops = None, None, []
                parts.append((a, b, uops))
            uops.append(uop)
            parts[-1] = (a if wanted[0] is None else wanted[0], b if wanted[1] is None else wanted[1], uops)
    except IndexError:
        return None
    return tuple(ChainPart(a, b, tuple(uops)) for a, b, uops in parts)
