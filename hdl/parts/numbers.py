"""How operations are told apart, and multiples of numbers."""

from amaranth.hdl import Value

__all__ = ["NUMBER_BITS", "multiple"]

#: A unit's operations are told apart by this many low bits of their numbers: enough for those in flight and just done.
NUMBER_BITS = 3


def multiple(value: Value, factor: int) -> Value:
    """Return a value times a constant of at least 1, as a sum of shifts: synthesis may spend a multiplier on a product.

    A power of two is left to synthesis, which makes wires of it.
    """
    bits = [bit for bit in range(factor.bit_length()) if factor >> bit & 1]
    if len(bits) == 1:
        return value * factor
    total = value << bits[0]
    for bit in bits[1:]:
        total = total + (value << bit)
    return total
