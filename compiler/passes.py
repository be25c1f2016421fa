"""The passes of the compiler in order, with what holds after each; `compile_model` runs them."""

from collections.abc import Callable

__all__ = ["PASSES", "Observer", "unobserved"]

#: What holds after each pass, by its name.
PASSES = {
    "legalize": "every operator is lowered to layers or host edges; all constants are integers",
    "in_place": "a tensor inside another tensor's bytes is a view of it; copies that only placed it there are gone",
    "products": "attention scores are transposed where SOFTMAX has one row per lane; tables after matrix products are "
                "part of them; the products of small attentions are parts of whole tensors",
    "one_shape": "layers on single pixels use the rows and columns of their neighbours",
    "specialize": "every layer has the form that is fastest on this configuration; the integers are unchanged",
    "spread_rows": "rows of SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION fit the registers of the vector unit",
    "plan": "every value is in the scratchpad, in memory or in rolling strips; every layer has its rectangles",
    "emit": "every operation has its addresses and its position in the order, by the fastest of the schedules tried",
    "verify": "every operation reads what the operation that the graph names wrote last",
    "assemble": "constants, parameters and commands are in the image; the rules of a compiled file hold",
}

#: A function that is called with each pass's name and result.
Observer = Callable[[str, object], None]


def unobserved(name: str, result: object) -> None:
    """Ignore a pass."""
