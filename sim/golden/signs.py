"""Bounds of a tensor's numbers, from the operators that compute it: some kernels reject negative inputs.

Codes give the bound if the zero point is the least code. Squares, their sums and the like are never negative, whatever
the zero point. This covers a CONCATENATION that gives a deviation the zero point of a mean.
"""

import math

import numpy as np

from tq_hw.model.graph import Operator, Subgraph, Tensor
from tq_hw.sim.golden.pointwise import results
from tq_hw.sim.golden.registry import Array

__all__ = ["SAME_ORDER", "is_never_positive", "is_plain", "least_code", "least_number"]

#: Moves that preserve elements.
SAME_ORDER = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")
_POSITIVE = ("SQUARE", "SQUARED_DIFFERENCE", "ABS", "RELU", "RELU6", "RELU_0_TO_1", "LOGISTIC", "SOFTMAX", "EXP",
             "SQRT", "RSQRT")
#: Operators without negative results if none of their inputs is negative.
_KEEP = ("QUANTIZE", "SUM", "MEAN", "ADD", "MUL", "AVERAGE_POOL_2D")
_OF_TWO = ("ADD", "MUL", "BATCH_MATMUL")
_SAME = ("DEQUANTIZE", *SAME_ORDER, "TRANSPOSE", "SLICE", "STRIDED_SLICE", "MAX_POOL_2D", "REDUCE_MAX", "REDUCE_MIN")
#: Fused activations with non-negative results.
_NOT_BELOW_0 = ("RELU", "RELU6", "RELU_0_TO_1")
#: Error bound of a sum of codes, in scales of each tensor.
_ROUNDINGS = 2
#: Error bound of a quantized SUM in output scales, and the largest sum of codes for which it holds, also in output
#: scales: one kernel of int8 rescales in float32.
_SUM_ROUNDINGS, _MOST_SUMMED = 3, {"int8": 2.0**22, "int16": 2.0**31}
#: The largest float32 number.
_MOST = float(np.finfo(np.float32).max)
#: Longest chain of operators that is examined.
_DEEPEST = 64


def least_number(subgraph: Subgraph, index: int) -> float:
    """Return a lower bound of a tensor's numbers; minus infinity if nothing is known."""
    return _Least(subgraph).of(index)


def least_code(tensor: Tensor, least: float) -> int:
    """Return the least code of a tensor of int8 or int16 whose numbers are at least `least`, not minus infinity."""
    # The margin, less than a code, covers the rounding of this quotient.
    first, ends = math.ceil(least / tensor.scale + tensor.zero_point - 2.0**-10), np.iinfo(tensor.dtype)
    return max(int(ends.min), min(first, int(ends.max)))


def is_never_positive(subgraph: Subgraph, index: int) -> bool:
    """Whether no number of a tensor is above 0, such as minus a square; False if nothing is known."""
    makers = {each: op for op in subgraph.operators for each in op.outputs}
    for _ in range(_DEEPEST):
        maker = makers.get(index)
        if maker is None or maker.op not in _SAME:
            break
        index = maker.inputs[0]
    if maker is None or subgraph.tensors[index].dtype not in ("int8", "int16", "float32"):
        return False
    if maker.op == "NEG":
        return least_number(subgraph, maker.inputs[0]) >= 0
    if maker.op != "MUL" or not is_plain(maker):
        return False
    return any(_is_constant_below(subgraph.tensors[one]) and least_number(subgraph, other) >= 0
               for one, other in (maker.inputs, maker.inputs[::-1]))


def _is_constant_below(tensor: Tensor) -> bool:
    if tensor.data is None:
        return False
    return bool((tensor.data <= (0 if tensor.quantization is None else tensor.zero_point)).all())


def is_plain(op: Operator) -> bool:
    """Whether no activation reduces results."""
    return op.options.get("fused_activation_function", "NONE") in ("NONE", "RELU")


class _Least:
    def __init__(self, subgraph: Subgraph) -> None:
        self._tensors = subgraph.tensors
        self._subgraph = subgraph
        self._makers = {index: op for op in subgraph.operators for index in op.outputs}
        self._known: dict[int, float] = {}

    def of(self, index: int, depth: int = 0) -> float:
        """Return the lower bound of a tensor."""
        if index not in self._known:
            least = self._found(index, depth) if depth < _DEEPEST else -math.inf
            tensor = self._tensors[index]
            is_least = tensor.dtype == "int8" and tensor.quantization is not None and tensor.zero_point == -128
            self._known[index] = max(least, 0.0) if is_least else least
        return self._known[index]

    def _found(self, index: int, depth: int) -> float:
        tensor, maker = self._tensors[index], self._makers.get(index)
        if tensor.data is not None:
            return _least_of(tensor, tensor.data)
        # int32 and int64 wrap: squares and their sums may be negative.
        if maker is None or tensor.dtype not in ("int8", "int16", "float32"):
            return -math.inf
        if maker.op == "TABLE" and (table := self._tensors[maker.inputs[1]].data) is not None:
            return self._of_table(tensor, maker.inputs[0], table, depth)
        if maker.op == "POW" and tensor.dtype == "float32":
            return self._power(maker, depth)
        if maker.op in _SAME:
            return self.of(maker.inputs[0], depth + 1)
        if maker.op == "EXP" and tensor.dtype != "float32":
            return _least_of(tensor, results(maker, self._subgraph))
        if maker.op in _POSITIVE or (maker.op == "MUL" and maker.inputs[0] == maker.inputs[1]):
            return 0.0
        if maker.op == "MAXIMUM":
            return self._largest(maker, depth)
        if maker.op == "SUM" and tensor.dtype == "int8" and self._subgraph.profile == "litert":
            return -math.inf  # LiteRT's kernel reads and writes uint8
        # Sums of int16 products have 64 bits.
        if maker.op in _KEEP or (maker.op == "BATCH_MATMUL" and tensor.dtype == "int16"):
            parts = [self.of(each, depth + 1) for each in maker.inputs[:2 if maker.op in _OF_TWO else 1]]
            if min(parts) >= 0:
                if maker.op == "SUM":
                    return self._total(maker, parts[0])
                return self._sum(maker, sum(parts)) if maker.op == "ADD" and is_plain(maker) else 0.0
        is_cut = maker.options.get("fused_activation_function") in _NOT_BELOW_0
        return 0.0 if is_cut and tensor.dtype != "float32" else -math.inf

    def _of_table(self, made: Tensor, index: int, table: Array, depth: int) -> float:
        """Return the lower bound of a table's entries, which are by unsigned code, for codes that occur."""
        source, least = self._tensors[index], self.of(index, depth + 1)
        if least == -math.inf or source.dtype not in ("int8", "int16") or source.quantization is None:
            return _least_of(made, table)
        half = len(table) // 2
        return _least_of(made, np.roll(table, half)[least_code(source, least) + half:])

    def _power(self, op: Operator, depth: int) -> float:
        least, powers = self.of(op.inputs[0], depth + 1), self._tensors[op.inputs[1]].data
        if least < 0:
            return -math.inf
        if powers is None or not powers.size or powers.min() <= 0:
            return 0.0
        with np.errstate(over="ignore"):
            ends = np.float64(least) ** np.array([powers.min(), powers.max()], np.float64)
        # A power may be a product of that many factors, each with its rounding.
        return float(min(ends.min(), _MOST)) * max(0.0, 1 - 2.0**-20 * max(1.0, float(powers.max())))

    def _largest(self, op: Operator, depth: int) -> float:
        """Return the lower bound of a maximum of codes with one scale."""
        alike = {(each.scale, each.zero_point) for index in (*op.inputs, op.outputs[0])
                 if (each := self._tensors[index].quantization) is not None}
        if len(alike) != 1 or self._tensors[op.outputs[0]].dtype == "float32":
            return -math.inf
        return max(self.of(each, depth + 1) for each in op.inputs)

    def _sum(self, op: Operator, least: float) -> float:
        """Return the lower bound of sums that are at least `least` before rounding and saturation."""
        one, other, made = (self._tensors[index] for index in (*op.inputs, op.outputs[0]))
        if made.dtype == "float32":
            return least * (1 - 2.0**-20)
        if None in (one.quantization, other.quantization, made.quantization):
            return 0.0
        # Both operands are scaled to twice the larger scale before the addition; its result is rounded.
        lost = _ROUNDINGS * (one.scale + other.scale + made.scale)
        last = np.iinfo(made.dtype).max
        return max(0.0, min(least, (last - made.zero_point) * made.scale) - lost)

    def _total(self, op: Operator, least: float) -> float:
        """Return the lower bound of a SUM of elements that are at least `least`."""
        source, made = (self._tensors[index] for index in (op.inputs[0], op.outputs[0]))
        count = math.prod(source.shape) // max(1, math.prod(made.shape))
        if source.dtype != made.dtype or made.dtype not in ("int8", "int16"):
            return 0.0
        last = np.iinfo(made.dtype).max
        if count * 2 * (last + 1) * max(1.0, source.scale / made.scale) > _MOST_SUMMED[made.dtype]:
            return 0.0
        most = (last - made.zero_point) * made.scale
        return max(0.0, min(count * least, most) - _SUM_ROUNDINGS * made.scale)


def _least_of(tensor: Tensor, data: Array) -> float:
    least = float(data.min()) if data.size else 0.0
    return least if tensor.quantization is None else (least - tensor.zero_point) * tensor.scale
