"""Operation numbers, and multiples by shift and add."""

from amaranth.hdl import Value

__all__ = ["NUMBER_BITS", "multiple"]

#: Low bits that identify a unit's operation: enough for those in flight and the one just done.
NUMBER_BITS = 3


def multiple(value: Value, factor: int) -> Value:
    """Return a value times a constant of at least 1, as shifts and sums: synthesis may spend a multiplier on a product.

    Powers of two stay a product, which synthesis turns into wires.
    """
    bits = [bit for bit in range(factor.bit_length()) if factor >> bit & 1]
    if len(bits) == 1:
        return value * factor
    total = value << bits[0]
    for bit in bits[1:]:
        total = total + (value << bit)
    return total
