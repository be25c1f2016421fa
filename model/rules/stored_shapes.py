"""Operators for whose results converters store another shape than the kernels give them."""

from collections.abc import Sequence

from tq_hw.model.graph import Operator, Tensor
from tq_hw.model.rules.shapes_host import BOXES

__all__ = ["stores_another_shape"]


def stores_another_shape(op: Operator, stored: Sequence[Tensor]) -> bool:
    """Whether the file's shapes for the results of an operator are to be ignored; `stored` are the file's tensors.

    Converters of TensorFlow 1 store the whole input's shape for an ARG_MAX; kernels leave out its axis.
    """
    if op.op in ("ARG_MAX", "ARG_MIN"):
        shape = stored[op.inputs[0]].shape
        return len(shape) > 1 and stored[op.outputs[0]].shape == shape
    return op.op in BOXES
