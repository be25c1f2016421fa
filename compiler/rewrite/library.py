"""The library of patterns: each is exact for every input, and each has its own test.

Three cases need no pattern: a RESHAPE is another view of the same bytes, a PAD becomes part of the convolution after it
(`Legalizer.through_pad`), and `in_place.py` drops copies into and out of larger tensors.
"""

import math

import numpy as np

from tq_hw.compiler.rewrite.comparisons import COMPARED
from tq_hw.compiler.rewrite.float_islands import CHOSEN, ISLANDS
from tq_hw.compiler.rewrite.float_moves import MOVED
from tq_hw.compiler.rewrite.indices import INDEXED
from tq_hw.compiler.rewrite.one_byte import table_of_one_byte
from tq_hw.compiler.rewrite.powers import POWERS
from tq_hw.compiler.rewrite.rankings import RANKED
from tq_hw.compiler.rewrite.raw_floats import RAW
from tq_hw.compiler.rewrite.reshapes import before_reshape
from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, changed, pattern
from tq_hw.compiler.rewrite.segments import BY_PLACE
from tq_hw.compiler.rewrite.sums import SUMS
from tq_hw.compiler.rewrite.transposes import TRANSPOSED
from tq_hw.compiler.rewrite.unused import UNUSED
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import UINT8_CODES
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.pointwise import POINTWISE
from tq_hw.sim.golden.registry import Array, int_option, str_option

__all__ = ["LIBRARY"]

_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_FUSE = (*_CONVOLUTIONS, "TRANSPOSE_CONV", "FULLY_CONNECTED", "ADD", "SUB", "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D")
_RELUS = ("RELU", "RELU6", "RELU_N1_TO_1")
#: Elementwise operators of one input.
_UNARY = (*_RELUS, "LOGISTIC", "TANH", "LEAKY_RELU", "HARD_SWISH", "QUANTIZE", "DEQUANTIZE", "CAST", "TABLE",
          *POINTWISE)
_BINARY = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "PRELU")
_BYTES = ("int8", "uint8")


def _source(graph: Subject, op: Operator) -> int | None:
    """Position of the only computed input, None if there are several or the shape changes."""
    computed = [position for position, index in enumerate(op.inputs)
                if index >= 0 and graph.tensors[index].data is None]
    if len(computed) != 1 or op.op not in (*_UNARY, *_BINARY):
        return None
    return computed[0] if graph.input(op, computed[0]).shape == graph.output(op).shape else None


def _of_channels(graph: Subject, op: Operator) -> bool:
    """Whether the constants of an operator are the same for all pixels."""
    return all(math.prod(graph.tensors[index].shape[:-1]) == 1 for index in op.inputs
               if index >= 0 and graph.tensors[index].data is not None)


def _is_function(graph: Subject, op: Operator) -> bool:
    """Whether every output element depends only on its input element, not on its position."""
    constants = [graph.tensors[index].data for index in op.inputs if index >= 0]
    return op.op == "TABLE" or all(data is None or (data.size > 0 and (data == data.flat[0]).all())
                                   for data in constants)


def _applied(graph: Subject, op: Operator, position: int, values: Array) -> Array:
    """Apply an elementwise function to any values."""
    inputs: list[Array | None] = []
    for at, index in enumerate(op.inputs):
        data = None if index < 0 else graph.tensors[index].data
        inputs.append(values if at == position else data if data is None or op.op == "TABLE" else data.reshape(-1)[:1])
    return KERNELS[op.op](op, graph.subgraph, inputs)[0]


@pattern(*_UNARY, *_BINARY)
def table(graph: Subject, op: Operator) -> Rewrite | None:
    """Merge a chain of functions of one byte into one table; remove an identity table.

    Such functions include QUANTIZE chains, also through int16 or float32, and sums and products with constants.
    """
    chain: list[tuple[Operator, int]] = []
    last: Operator | None = op
    while last is not None and (position := _source(graph, last)) is not None and _is_function(graph, last):
        chain.insert(0, (last, position))
        last = graph.producer(last, position)
    while chain and graph.input(*chain[0]).dtype not in _BYTES:
        del chain[0]
    if not chain or graph.output(op).dtype not in _BYTES:
        return None
    source, target = graph.input(*chain[0]), graph.output(op)
    codes = values = UINT8_CODES.view(source.dtype)
    try:
        for each, position in chain:
            values = _applied(graph, each, position, values)
    except TqError:
        return None
    if (values.dtype == codes.dtype and np.array_equal(values, codes) and source.quantization == target.quantization
            and not graph.is_output(op.outputs[0])):
        return Rewrite([each for each, _ in chain], [], (op.outputs[0], source.index))
    if len(chain) == 1:
        return None
    made = Operator(op.index, "TABLE", (source.index, graph.add_constant(values)), op.outputs)
    return Rewrite([each for each, _ in chain], [made])


def _is_elementwise(graph: Subject, op: Operator) -> bool:
    """Whether an operator is a function of the bytes at one place of its computed inputs."""
    return op.op in (*_UNARY, *_BINARY) and len(op.outputs) == 1 and _is_function(graph, op) and all(
        graph.tensors[index].shape == graph.output(op).shape for index in op.inputs
        if index >= 0 and graph.tensors[index].data is None)


@pattern(*_BINARY)
def one_byte(graph: Subject, op: Operator) -> Rewrite | None:
    """Make a table of elementwise operators that depend on one tensor, such as LOGISTIC(x) and its product with x."""
    return table_of_one_byte(graph, op, _is_elementwise)


@pattern(*_BINARY)
def neutral_constants(graph: Subject, op: Operator) -> Rewrite | None:
    """Remove a sum, product or similar operator with constants that change no code.

    Of batch normalization after a convolution, only this can be removed exactly: TFLite rounds the convolution and then
    the product, so folding the factor into the weights gives other integers.
    """
    position = _source(graph, op)
    if position is None or graph.is_output(op.outputs[0]):
        return None
    source, constant = graph.input(op, position), graph.constant(op, 1 - position)
    if (source.dtype != "int8" or constant is None or constant.dtype != np.int8 or constant.size == 0
            or source.quantization != graph.output(op).quantization):
        return None
    codes, different = UINT8_CODES.view("int8")[:, None], np.unique(constant)[None, :]
    inputs: list[Array | None] = [codes, different] if position == 0 else [different, codes]
    try:
        values = KERNELS[op.op](op, graph.subgraph, inputs)[0]
    except TqError:
        return None
    same = np.array_equal(values, np.broadcast_to(codes, values.shape))
    return Rewrite([op], [], (op.outputs[0], source.index)) if same else None


@pattern(*_RELUS)
def activation_into_producer(graph: Subject, op: Operator) -> Rewrite | None:
    """Fuse RELU, RELU6 or RELU_N1_TO_1, with the scale of its input, into the operator before it."""
    before = graph.producer(op)
    if (before is None or before.op not in _FUSE or str_option(before, "fused_activation_function") != "NONE"
            or graph.output(before).dtype != "int8" or graph.output(op).quantization != graph.input(op).quantization):
        return None
    return Rewrite([before, op], [changed(before, outputs=op.outputs, fused_activation_function=op.op)])


@pattern("BATCH_TO_SPACE_ND")
def dilated_convolution(graph: Subject, op: Operator) -> Rewrite | None:
    """Merge SPACE_TO_BATCH_ND, a convolution, operators of single pixels, BATCH_TO_SPACE_ND: a dilated convolution."""
    pixelwise: list[Operator] = []
    conv = graph.producer(op)
    while conv is not None and conv.op in (*_UNARY, *_BINARY):
        position = _source(graph, conv)
        if position is None or not _of_channels(graph, conv):
            return None
        pixelwise.insert(0, conv)
        conv = graph.producer(conv, position)
    before = graph.producer(conv) if conv is not None and conv.op in _CONVOLUTIONS else None
    if conv is None or before is None or before.op != "SPACE_TO_BATCH_ND":
        return None
    block, pads, crops = graph.constant(before, 1), graph.constant(before, 2), graph.constant(op, 2)
    same = graph.constant(op, 1)
    source, kernel = graph.input(before), graph.input(conv, 1).shape[1:3]
    if (block is None or pads is None or crops is None or same is None or not np.array_equal(block, same)
            or len(source.shape) != 4 or block.shape != (2,) or pads.shape != (2, 2) or crops.shape != (2, 2)
            or (int_option(conv, "stride_h"), int_option(conv, "stride_w")) != (1, 1)):
        return None
    around = np.zeros((4, 2), np.int32)
    dilation = [int(size) * int_option(conv, f"dilation_{axis}_factor") for size, axis in zip(block, "hw", strict=True)]
    for axis in range(2):
        reach = (kernel[axis] - 1) * dilation[axis]
        inside = 0
        if str_option(conv, "padding") == "SAME":
            inside = (kernel[axis] - 1) * dilation[axis] // int(block[axis]) // 2 * int(block[axis])
        low = int(pads[axis, 0]) + inside - int(crops[axis, 0])
        around[1 + axis] = low, graph.output(op).shape[1 + axis] + reach - source.shape[1 + axis] - low
    if around.min() < 0:
        return None
    current = graph.add_tensor(source, np.array(source.shape) + around.sum(axis=1))
    chain = [Operator(op.index, "PAD", (source.index, graph.add_constant(around)), (current,))]
    # The operators of single pixels then work on the whole image instead of its blocks.
    for each in (conv, *pixelwise):
        position = 0 if each is conv else _source(graph, each)
        inputs = [current if at == position else index for at, index in enumerate(each.inputs)]
        last = each is conv and not pixelwise or pixelwise and each is pixelwise[-1]
        current = op.outputs[0] if last else graph.add_tensor(graph.output(each), graph.output(op).shape)
        chain.append(changed(each, inputs=inputs, outputs=(current,)))
    chain[1] = changed(chain[1], padding="VALID", dilation_h_factor=dilation[0], dilation_w_factor=dilation[1])
    return Rewrite([before, conv, *pixelwise, op], chain)


#: All patterns in the order in which they are tried.
LIBRARY = (*UNUSED, activation_into_producer, *RAW, *CHOSEN, *BY_PLACE, *MOVED, *SUMS, *POWERS, *ISLANDS,
           *COMPARED, *RANKED, table, one_byte, neutral_constants, dilated_convolution,
           before_reshape, *TRANSPOSED, *INDEXED)
