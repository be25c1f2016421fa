"""Whole-number arithmetic on sizes: one spelling of "how many pieces" and "how many bits" for every folder."""

__all__ = ["ceil_div", "ceil_log2"]


def ceil_div(size: int, piece: int) -> int:
    """How many pieces of `piece` hold `size`: the quotient, rounded towards positive infinity.

    Raises
    ------
        ZeroDivisionError: `piece` is 0.
    """
    return -(-size // piece)


def ceil_log2(count: int) -> int:
    """How many bits number `count` things (at least one), as `amaranth.utils.ceil_log2`."""
    return (count - 1).bit_length()
