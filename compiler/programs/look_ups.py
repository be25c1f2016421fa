"""Merge the subtraction of a zero point from a looked-up code into the micro-operation that looks it up."""

from collections.abc import Sequence

from tq_hw.compiler.programs.chain import Node
from tq_hw.isa.uop import Alu, Multiply

__all__ = ["with_offsets"]

_MOST_OFFSET, _LEAST = (1 << 15) - 1, -(1 << 31)


def with_offsets(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes of a program with the same results, with fewer nodes where possible.

    `code - zero_point` of a looked-up code becomes the look-up with `-zero_point` added. So does `zero_point - code`
    if its only user is a product whose only users are high products with a constant: the constant changes its sign.
    """
    users: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for other in dict.fromkeys(node.needs):
            users[other].append(node)
    left = list(nodes)
    for node in nodes:
        found = users[node]
        if not _looks_up(node) or not found or not all(_takes_off(user) for user in found):
            continue
        offsets = {-user.uop["immediate"] for user in found}
        turned = [user for user in found if user.b is node]
        products = [product for user in turned for product in users[user]]
        scaled = [scale for product in products for scale in users[product]]
        if (len(offsets) > 1 or abs(min(offsets)) > _MOST_OFFSET or not all(map(_multiplies, products))
                or not all(users[one] for one in (*turned, *products)) or not all(map(_scales, scaled))):
            continue
        node.uop = {**node.uop, "zero_point": offsets.pop()}
        for user in found:
            for product in users[user]:
                turns = user.b is node and (product.a is user) != (product.b is user)
                product.a, product.b = (node if operand is user else operand for operand in (product.a, product.b))
                for scale in users[product] if turns else ():
                    scale.uop = {**scale.uop, "immediate": -scale.uop["immediate"]}
            left.remove(user)
        users[node] = [product for user in found for product in users[user]]
    return left


def _looks_up(node: Node) -> bool:
    """Whether a node is a plain table look-up."""
    uop = node.uop
    return (bool(uop.get("a_table")) and uop.get("multiply", Multiply.NONE) in (Multiply.NONE, Multiply.SHL_B)
            and not any(uop.get(name) for name in ("clamp", "zero_point")))


def _takes_off(node: Node) -> bool:
    """Whether a node is a plain difference of an operand and a constant."""
    uop = node.uop
    return (uop.get("alu") == Alu.SUB and "immediate" in uop and len(node.needs) == 1 and None in (node.a, node.b)
            and not any(uop.get(name) for name in ("multiply", "clamp", "zero_point", "shift", "a_table", "b_table")))


def _multiplies(node: Node) -> bool:
    """Whether a node is a plain product of two other nodes."""
    uop = node.uop
    return (uop.get("multiply") == Multiply.LOW_B and uop.get("alu", Alu.PASS) == Alu.PASS
            and not any(uop.get(name) for name in ("clamp", "zero_point", "shift", "a_table", "b_table")))


def _scales(node: Node) -> bool:
    """Whether a node is a high product with a constant, whose sign can change together with the operand's."""
    uop = node.uop
    return (uop.get("multiply") == Multiply.HIGH_IMMEDIATE and uop.get("alu", Alu.PASS) == Alu.PASS
            and uop["immediate"] != _LEAST and not uop.get("truncate") and not uop.get("a_table"))
