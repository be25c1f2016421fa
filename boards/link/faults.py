"""Effects of a bad line on a byte."""

import random
from enum import IntEnum

__all__ = ["Fault", "damage"]


class Fault(IntEnum):
    """Kinds of faults, equally likely."""

    DROPPED = 0
    FLIPPED = 1
    DOUBLED = 2
    LATE = 3
    NONE = 4


def damage(byte: int, rng: random.Random, one_in: int) -> tuple[Fault, bytes]:
    """Return the fault of a byte, if any, and the bytes that arrive; one byte in `one_in` has a fault, with 0 none."""
    fault = Fault(min(rng.randrange(4 * one_in), Fault.NONE)) if one_in else Fault.NONE
    if fault is Fault.DROPPED:
        return fault, b""
    if fault is Fault.FLIPPED:
        return fault, bytes([byte ^ rng.randrange(1, 256)])
    return fault, bytes([byte]) * (2 if fault is Fault.DOUBLED else 1)
