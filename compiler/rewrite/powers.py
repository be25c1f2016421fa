"""POW of float32 with a positive whole exponent as products, which is how LiteRT computes it for a single exponent."""

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, pattern
from tq_hw.model.graph import Operator, OptionValue
from tq_hw.sim.golden.float32 import whole_exponents

__all__ = ["POWERS"]

_PLAIN: dict[str, OptionValue] = {"fused_activation_function": "NONE"}


@pattern("POW")
def whole_power(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace x^n by the square of x^(n / 2), times x for an odd n; x^1 is x."""
    source, exponent = graph.input(op), graph.constant(op, 1)
    if source.dtype != "float32" or source.data is not None or exponent is None:
        return None
    powers = whole_exponents(op, graph.subgraph, exponent)
    if not powers or source.shape != graph.output(op).shape:
        return None
    (power,) = powers.values()
    if power == 1:
        shape = graph.add_constant(np.array(source.shape, np.int32))
        return Rewrite([op], [Operator(op.index, "RESHAPE", (source.index, shape), op.outputs)])
    new: list[Operator] = []

    def product(one: int, other: int) -> int:
        made = graph.add_tensor(graph.output(op))
        new.append(Operator(op.index, "MUL", (one, other), (made,), _PLAIN))
        return made

    current = source.index
    for bit in bin(power)[3:]:
        current = product(current, current)
        if bit == "1":
            current = product(current, source.index)
    new[-1] = Operator(op.index, "MUL", new[-1].inputs, op.outputs, _PLAIN)
    return Rewrite([op], new)


#: Patterns in the order in which they are tried.
POWERS = (whole_power,)
