"""The passes of the compiler in order, with what holds after each; `compile_model` runs them."""

from collections.abc import Callable

__all__ = ["PASSES", "Observer", "unobserved"]

#: What holds after each pass, by its name.
PASSES = {
    "legalize": "every operator is layers that the accelerator has, or host edges; constants are integers; no operator "
                "is left",
    "in_place": "a tensor that is a part of another one's bytes, or shares them, says so; such copies are gone",
    "products": "scores of attention lie as the program over their rows takes them; tables after products are theirs",
    "one_shape": "layers that look at single pixels see the same rows and columns of what they give each other",
    "specialize": "every layer has the form that takes this configuration the fewest beats; the integers are the same",
    "spread_rows": "rows of SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION fit the registers of the vector unit",
    "plan": "every value lives in the scratchpad, in memory or in rolling strips; every layer has its rectangles",
    "emit": "every operation has its addresses and its place in the order; of the schedules tried it is the fastest",
    "verify": "whatever an operation reads was last written by the operation that the graph says",
    "assemble": "constants, parameters and commands lie in the image; the rules of a compiled file hold",
}

#: Is called with each pass's name and result.
Observer = Callable[[str, object], None]


def unobserved(name: str, result: object) -> None:
    """Let a pass go by."""
