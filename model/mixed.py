"""Models of which a part is compiled: custom operators that carry programs, between operators of the host."""

from tq_hw.model.graph import Model, Operator

__all__ = ["ACCELERATED", "CUSTOM_NAME", "is_accelerated", "is_mixed"]

#: The custom operator's name in files. Its options are a compiled file; inputs and outputs are the program's.
CUSTOM_NAME = "tq-hw"
#: The same as the name of an operator.
ACCELERATED = f"CUSTOM:{CUSTOM_NAME}"


def is_accelerated(op: Operator) -> bool:
    """Whether an operator is an accelerated part."""
    return op.op == ACCELERATED


def is_mixed(model: Model) -> bool:
    """Whether a model has accelerated parts."""
    return any(is_accelerated(op) for op in model.main.operators)
