"""Values in Verilog: slices, extensions, constants, and choices between values."""

from dataclasses import dataclass

from tq_hw.hdl.netlist.rtlil import Assign, Bits, Part, Sig, Switch, width_of

__all__ = ["Choice", "Condition", "Leaf", "Node", "chosen", "condition_of", "constant", "extended", "piece",
           "references", "segments"]

#: One of these values has these bits.
Condition = tuple[tuple[Sig, str], ...]
#: From this number of cases on, a switch becomes a binary tree over the bits, with logarithmic depth.
_TREE_CASES = 5


def constant(bits: str) -> str:
    """Return a constant; bits that do not matter are 0."""
    value = int(bits.replace("-", "0").replace("x", "0"), 2)
    if len(bits) <= 1:
        return f"1'b{value}"
    return f"{len(bits)}'d{value}" if len(bits) <= 16 else f"{len(bits)}'h{value:x}"


def piece(sig: Sig, start: int, width: int) -> Sig:
    """Return bits `start` to `start + width - 1`."""
    found: list[Part | Bits] = []
    low = 0
    for part in reversed(sig):
        first, last = max(start - low, 0), min(start + width - low, part.width)
        if first < last:
            if isinstance(part, Bits):
                found.append(Bits(part.bits[part.width - last:part.width - first]))
            else:
                found.append(Part(part.wire, part.start + first, last - first))
        low += part.width
    return tuple(reversed(found))


def extended(sig: Sig, width: int, signed: bool) -> Sig:
    """Return `sig` with zeros, or copies of its highest bit, in front."""
    more = width - width_of(sig)
    if more < 0:
        raise ValueError(f"{width_of(sig)} bits are more than {width}")
    if not more:
        return sig
    if not signed or not sig:
        return (Bits("0" * more), *sig)
    return (*piece(sig, width_of(sig) - 1, 1) * more, *sig)


@dataclass(frozen=True)
class Leaf:
    """A value."""

    sig: Sig


@dataclass(frozen=True)
class Choice:
    """`then` where the condition holds."""

    condition: Condition
    then: "Node"
    other: "Node"


Node = Leaf | Choice


def condition_of(value: Sig, patterns: tuple[str, ...]) -> Condition:
    """Return the condition that one of the patterns matches."""
    found = []
    for pattern in patterns:
        kept = [at for at, bit in enumerate(reversed(pattern)) if bit in "01"]
        if not kept:
            return (((Bits("1"),), "1"),)
        sig: Sig = tuple(part for at in reversed(kept) for part in piece(value, at, 1))
        if kept == list(range(kept[0], kept[-1] + 1)):
            sig = piece(value, kept[0], len(kept))
        found.append((sig, "".join(pattern[len(pattern) - 1 - at] for at in reversed(kept))))
    return tuple(found)


def segments(body: list[Assign | Switch], width: int) -> list[tuple[int, int]]:
    """Return the pieces of a target that are assigned together, as first bit and width."""
    edges = {0, width}

    def visit(items: list[Assign | Switch]) -> None:
        for item in items:
            if isinstance(item, Switch):
                for case in item.cases:
                    visit(case.body)
            else:
                (part,) = item.target
                assert isinstance(part, Part)
                edges.update((part.start, part.start + part.width))

    visit(body)
    ordered = sorted(edges)
    return [(low, high - low) for low, high in zip(ordered, ordered[1:], strict=False)]


def chosen(body: list[Assign | Switch], start: int, width: int, now: Node) -> Node:
    """Return the new value of a segment of the target; `now` is its old value."""
    for item in body:
        if isinstance(item, Assign):
            (part,) = item.target
            assert isinstance(part, Part)
            if part.start <= start and start + width <= part.start + part.width:
                now = Leaf(piece(item.value, start - part.start, width))
        else:
            results = [(case.patterns, chosen(case.body, start, width, now)) for case in item.cases]
            if any(result != now for _, result in results):
                now = _switched(item.value, results, now)
    return now


def _switched(value: Sig, results: list[tuple[tuple[str, ...], Node]], now: Node) -> Node:
    exact = all(set(pattern) <= set("01") for patterns, _ in results for pattern in patterns)
    if exact and len(results) >= _TREE_CASES and 2 * len(results) >= 1 << width_of(value):
        table: dict[str, Node] = {}
        other = now
        for patterns, result in results:
            for pattern in patterns:
                table.setdefault(pattern, result)
            if not patterns:
                other = result
                break
        return _tree(value, "", table, other)
    for patterns, result in reversed(results):
        now = Choice(condition_of(value, patterns), result, now) if patterns and result != now else (
            now if patterns else result)
    return now


def _tree(value: Sig, prefix: str, table: dict[str, Node], other: Node) -> Node:
    """Return the choice among the patterns that begin with `prefix`, by the highest bit after it."""
    width = width_of(value)
    if len(prefix) == width:
        return table.get(prefix, other)
    one, zero = (_tree(value, prefix + bit, table, other) for bit in "10")
    if one == zero:
        return one
    return Choice(((piece(value, width - 1 - len(prefix), 1), "1"),), one, zero)


def references(node: Node) -> list[Sig]:
    """Return all values of a choice, each as often as it stands there."""
    if isinstance(node, Leaf):
        return [node.sig]
    return [*(sig for sig, _ in node.condition), *references(node.then), *references(node.other)]
