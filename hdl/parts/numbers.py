"""How operations are told apart."""

__all__ = ["NUMBER_BITS"]

#: A unit's operations are told apart by this many low bits of their numbers: enough for those in flight and just done.
NUMBER_BITS = 3
