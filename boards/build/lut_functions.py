"""Boolean functions of a few nets as truth tables: a LUT4's function, and its composition with others."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["PINS", "Function", "Net", "lut_function", "of_pins", "substituted", "value_at", "without_idle"]

#: A net of a netlist that Yosys wrote as JSON: its number, or a constant "0", "1", "x".
Net = Any
#: The inputs of a LUT4, the least significant bit of its table's index first.
PINS = ("A", "B", "C", "D")


class Function(NamedTuple):
    """A function of distinct, non-constant nets: bit i of `table` is its value where net k is bit k of i."""

    nets: tuple[Net, ...]
    table: int


def _is_constant(net: Net) -> bool:
    """Return whether a net is a constant; "x", an unconnected input, counts as 0."""
    return isinstance(net, str)


def value_at(function: Function, values: Mapping[Net, int]) -> int:
    """Return the function's value for given values of its nets."""
    return function.table >> sum(values[net] << bit for bit, net in enumerate(function.nets)) & 1


def of_pins(nets: Sequence[Net], table: int) -> Function:
    """Return the function of a table indexed by these nets, with constants and repeated nets eliminated."""
    distinct = tuple(dict.fromkeys(net for net in nets if not _is_constant(net)))
    place = {net: bit for bit, net in enumerate(distinct)}
    result = 0
    for index in range(1 << len(distinct)):
        pins = sum((int(net == "1") if _is_constant(net) else index >> place[net] & 1) << bit
                   for bit, net in enumerate(nets))
        result |= (table >> pins & 1) << index
    return Function(distinct, result)


def lut_function(cell: Mapping[str, Any]) -> Function:
    """Return a LUT4's function of the nets on which it depends."""
    pins = cell["connections"]
    nets = [pins[pin][0] if pins.get(pin) else "0" for pin in PINS]
    return without_idle(of_pins(nets, int(cell["parameters"]["INIT"], 2)))


def substituted(function: Function, net: Net, inner: Function) -> Function:
    """Return the function with `inner` substituted for a net; it may list nets on which it does not depend."""
    nets = tuple(dict.fromkeys((*(each for each in function.nets if each != net), *inner.nets)))
    table = 0
    for index in range(1 << len(nets)):
        values = {each: index >> bit & 1 for bit, each in enumerate(nets)}
        values[net] = value_at(inner, values)
        table |= value_at(function, values) << index
    return Function(nets, table)


def without_idle(function: Function) -> Function:
    """Return the function reduced to the nets on which it depends."""
    nets, table = function
    bit = 0
    while bit < len(nets):
        low = sum((table >> index & 1) << index for index in range(1 << len(nets)) if not index >> bit & 1)
        high = sum((table >> (index | 1 << bit) & 1) << index for index in range(1 << len(nets))
                   if not index >> bit & 1)
        if low != high:
            bit += 1
            continue
        kept = [index for index in range(1 << len(nets)) if not index >> bit & 1]
        table = sum((table >> index & 1) << place for place, index in enumerate(kept))
        nets = nets[:bit] + nets[bit + 1:]
    return Function(nets, table)
