"""Number of multiplications of an operator from its shapes, on either side."""

import math
from collections.abc import Sequence

from tq_hw.model.graph import Operator, Tensor

__all__ = ["macs_of"]


def macs_of(op: Operator, tensors: Sequence[Tensor]) -> int:
    """Return the number of products in an operator's sums; 0 for operators without sums of products."""
    def shape(position: int) -> tuple[int, ...]:
        return tensors[op.inputs[position]].shape

    if not op.outputs or len(op.inputs) < 2:
        return 0
    result = math.prod(tensors[op.outputs[0]].shape)
    match op.op:
        case "CONV_2D" | "CONV_3D":
            return result * math.prod(shape(1)[1:])
        case "DEPTHWISE_CONV_2D":
            return result * math.prod(shape(1)[1:3])
        case "TRANSPOSE_CONV":
            return math.prod(shape(2)[:3]) * math.prod(shape(1)[:3]) * shape(2)[-1]
        case "FULLY_CONNECTED":
            return result * shape(1)[-1]
        case "BATCH_MATMUL":
            return result * shape(0)[-2 if op.options.get("adj_x") else -1]
    return 0
