"""Elementwise operators before a RESHAPE instead of after it, in the shape of the operator that computes their input.

The dense layers of an attention have a RESHAPE to heads before the addition of their bias. Pixels of another number of
channels have other words, so the bytes would go through memory between the two layers.
"""

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, changed, pattern
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.pointwise import POINTWISE

__all__ = ["before_reshape"]

_PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
#: Elementwise operators of one byte, and of two.
_UNARY = ("RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "LEAKY_RELU", "HARD_SWISH", "TABLE", *POINTWISE)
_BINARY = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM")


@pattern(*_UNARY, *_BINARY)
def before_reshape(graph: Subject, op: Operator) -> Rewrite | None:
    """Exchange a RESHAPE and an operator whose constant, if there is one, is the same for all pixels before it."""
    computed = [at for at, index in enumerate(op.inputs) if graph.tensors[index].data is None]
    if len(computed) != 1 or (op.op in _BINARY) != (len(op.inputs) == 2 and op.op != "TABLE"):
        return None
    reshape, output = graph.producer(op, computed[0]), graph.output(op)
    if reshape is None or reshape.op != "RESHAPE" or graph.input(op, computed[0]).shape != output.shape:
        return None
    source, made = graph.input(reshape), graph.producer(reshape)
    if (made is None or made.op not in (*_PRODUCTS, *_UNARY, *_BINARY) or not source.shape
            or source.shape[-1] == output.shape[-1]):
        return None
    inputs = list(op.inputs)
    inputs[computed[0]] = reshape.inputs[0]
    if op.op in _BINARY:
        constant = _of_channels(graph, op, 1 - computed[0], source.shape)
        if constant is None:
            return None
        inputs[1 - computed[0]] = constant
    between = graph.add_tensor(output, source.shape)
    return Rewrite([reshape, op], [changed(op, inputs=inputs, outputs=(between,)),
                                   changed(reshape, inputs=(between, *reshape.inputs[1:]), outputs=op.outputs)])


def _of_channels(graph: Subject, op: Operator, position: int, shape: tuple[int, ...]) -> int | None:
    """Return a constant operand in the shape before the RESHAPE, one value for each channel; None if pixels differ."""
    tensor = graph.input(op, position)
    if tensor.data is None or len(tensor.data.shape) > len(graph.output(op).shape):
        return None
    pixels = np.broadcast_to(tensor.data, graph.output(op).shape).reshape(-1, shape[-1])
    if (pixels != pixels[0]).any():
        return None
    return graph.add_constant(pixels[0].copy(), tensor.quantization)
