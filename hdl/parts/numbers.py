"""How operations are told apart."""

__all__ = ["NUMBER_BITS"]

#: A unit's operations are told apart by so many low bits of their numbers: more than are in flight, or were just now.
NUMBER_BITS = 3
