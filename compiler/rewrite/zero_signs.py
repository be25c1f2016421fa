"""Whether a float32 tensor may have -0, which packed numbers do not represent; `sign_words.py` computes its signs.

+0 and -0 have the same code but differ in a float32 output of the model.

A negative number that rounds to 0 is -0. Each tensor therefore has a unit, a power of two of which all its numbers are
multiples. Sums are multiples of the unit, too, and do not round to 0. Numbers that are rounded to 24 bits are multiples
of the last bit of the least of them.
"""

import math

import numpy as np

from tq_hw.compiler.rewrite.float_moves import moved
from tq_hw.compiler.rewrite.island import Island
from tq_hw.compiler.rewrite.packing import Packing
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.registry import float_option, int_option

__all__ = ["SIGNED", "ZeroSigns"]

#: The smallest positive float32 number.
_SMALLEST = 2.0**-149
#: The smallest positive weight of a row or column: 1 less the largest float32 number below 1.
_LEAST_WEIGHT = 2.0**-24
#: Operators whose result is never -0: sums start from 0; powers, squares and logarithms from 1 on are not negative. A
#: LOG_SOFTMAX is 0 only where an element is its row's largest one by far, and x - x is +0.
_NEVER = ("DEQUANTIZE", "CAST", "SUM", "CUMSUM", "BATCH_MATMUL", "FULLY_CONNECTED", "RSQRT", "EXP", "LOG", "LOGISTIC",
          "POW", "SOFTMAX", "LOG_SOFTMAX", "ABS", "SIGN", "SQUARE", "SQUARED_DIFFERENCE")
#: Operators whose result is one of their inputs, a number of its sign other than 0, or +0 for a negative input.
_CHOICES = ("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "REDUCE_MAX", "REDUCE_MIN", "SQRT",
            "MAX_POOL_2D", "TANH", "ELU")
#: Operators whose result has the sign of their first input or of the product of two inputs, and the number of these.
SIGNED = {"MUL": 2, "DIV": 1, "NEG": 1, "L2_NORMALIZATION": 1, "HARD_SWISH": 1, "LEAKY_RELU": 1, "GELU": 1, "TANH": 1,
          "ELU": 1}
#: Operators whose results are multiples of their inputs' unit.
_ALIKE = ("ADD", "SUB", "SUM", "CUMSUM", "RELU", "MAXIMUM", "MINIMUM", "REDUCE_MAX", "REDUCE_MIN", "NEG", "ABS",
          "MAX_POOL_2D")


class ZeroSigns:
    """Signs of zeros of a graph's float32 tensors; each must have packed numbers.

    Parameters
    ----------
    packing : the numbers, with their bounds
    """

    def __init__(self, packing: Packing):
        self._packing, self._graph = packing, packing.graph
        self._negative: dict[int, bool] = {}
        self._units: dict[int, float] = {}

    def may_be_negative(self, index: int) -> bool:
        """Whether a zero of a tensor may be -0."""
        if index not in self._negative:
            self._negative[index] = self._find_negative(index)
        return self._negative[index]

    def _find_negative(self, index: int) -> bool:
        values, maker = self._values(index), self._graph.maker(index)
        if values is not None:
            return bool((np.signbit(values) & (values == 0)).any())
        if maker is None:
            return True
        if positions := moved(self._graph, maker):
            return any(self.may_be_negative(maker.inputs[position]) for position in positions)
        if maker.op in _NEVER:
            return False
        if maker.op in _CHOICES:
            return any(self.may_be_negative(each) for each in maker.inputs if self._is_float(each))
        if maker.op in ("MAXIMUM", "MINIMUM"):
            return self._of_extreme(maker)
        rule = {"ADD": self._of_sum, "SUB": self._of_difference, "MUL": self._of_product, "DIV": self._of_quotient,
                "MEAN": self._of_mean, "RESIZE_BILINEAR": self._of_resize, "LEAKY_RELU": self._of_part,
                "REDUCE_PROD": self._of_factors,
                "AVERAGE_POOL_2D": self._of_pool}.get(maker.op)
        return rule is None or rule(maker)

    def _is_float(self, index: int) -> bool:
        return self._graph.tensors[index].dtype == "float32"

    def _values(self, index: int) -> Float32 | None:
        """Return the values of a constant or of a function of one int8 tensor; else None."""
        tensor = self._graph.tensors[index]
        if tensor.data is not None:
            return np.asarray(tensor.data, np.float32)
        try:
            return np.asarray(Island(self._graph, tensor.shape).values(index), np.float32)
        except TqError:
            return None

    def _of_sum(self, op: Operator) -> bool:
        return all(self.may_be_negative(each) for each in op.inputs)

    def _of_difference(self, op: Operator) -> bool:
        return self.may_be_negative(op.inputs[0])

    def _of_extreme(self, op: Operator) -> bool:
        """The result is the second number unless the first one is larger, or smaller."""
        one, other = op.inputs
        if not self.may_be_negative(one) or self.may_be_negative(other):
            return self.may_be_negative(other)
        data, is_least = self._graph.tensors[other].data, op.op == "MINIMUM"
        if data is not None:
            return bool((data > 0 if is_least else data < 0).any())
        part = self._packing.packed(other)
        return part.high > 0 if is_least else part.low < 0

    def _of_product(self, op: Operator) -> bool:
        """A product of signed numbers is -0 if a factor is 0 and the other negative, or if it underflows."""
        one, other = op.inputs
        if one == other:
            return False
        lows = [self._packing.packed(each).low for each in op.inputs]
        if min(lows) >= 0:
            return any(self.may_be_negative(each) for each in op.inputs)
        positive = [at for at, low in enumerate(lows) if low > 0]
        if not positive or self.may_be_negative(op.inputs[1 - positive[0]]):
            return True
        least = max(self.unit(op.inputs[positive[0]]), lows[positive[0]])
        return least * self.unit(op.inputs[1 - positive[0]]) < _SMALLEST

    def _of_factors(self, op: Operator) -> bool:
        """Of a REDUCE_PROD: products of numbers that are not negative are not either."""
        return self._packing.packed(op.inputs[0]).low < 0 or self.may_be_negative(op.inputs[0])

    def _of_quotient(self, op: Operator) -> bool:
        """The divisor is positive."""
        divided, divisor = op.inputs
        return self.may_be_negative(divided) or (
            self._packing.packed(divided).low < 0
            and self.unit(divided) / self._packing.packed(divisor).high < _SMALLEST)

    def _of_mean(self, op: Operator) -> bool:
        count = self._elements(op.inputs[0]) / max(1, self._elements(op.outputs[0]))
        return self._packing.packed(op.inputs[0]).low < 0 and self.unit(op.inputs[0]) / count < _SMALLEST

    def _of_resize(self, op: Operator) -> bool:
        """The first product is -0 only where its number is -0, or where it underflows; its weights are positive."""
        return self.may_be_negative(op.inputs[0]) or self.unit(op.inputs[0]) * _LEAST_WEIGHT**2 < _SMALLEST

    def _of_pool(self, op: Operator) -> bool:
        count = int_option(op, "filter_height") * int_option(op, "filter_width")
        return self._packing.packed(op.inputs[0]).low < 0 and self.unit(op.inputs[0]) / count < _SMALLEST

    def _of_part(self, op: Operator) -> bool:
        source = op.inputs[0]
        return self.may_be_negative(source) or (
            self._packing.packed(source).low < 0 and self.unit(source) * float_option(op, "alpha") < _SMALLEST)

    def _elements(self, index: int) -> int:
        return math.prod(self._graph.tensors[index].shape)

    def unit(self, index: int) -> float:
        """Return the unit of a tensor: a power of two of which all its numbers are multiples."""
        if index not in self._units:
            self._units[index] = max(_SMALLEST, self._find_unit(index))
        return self._units[index]

    def _find_unit(self, index: int) -> float:
        values, maker = self._values(index), self._graph.maker(index)
        if values is not None:
            return _unit_of(values)
        if maker is None:
            return _SMALLEST
        positions = moved(self._graph, maker)
        if positions or maker.op in _ALIKE:
            read = [maker.inputs[position] for position in positions] or [
                each for each in maker.inputs if self._is_float(each)]
            return min(self.unit(each) for each in read)
        if maker.op == "CAST":
            return 1.0
        if maker.op in ("MUL", "BATCH_MATMUL"):
            return math.prod(self.unit(each) for each in maker.inputs)
        if maker.op == "DEQUANTIZE":
            # Dequantized numbers are multiples of the scale's last bit.
            return _unit_of(np.array(self._graph.input(maker).scale, np.float32))
        if maker.op == "MEAN":
            source = self._graph.input(maker)
            return _last_bit(self.unit(source.index) * self._elements(maker.outputs[0]) / math.prod(source.shape))
        return _last_bit(self._packing.packed(index).low)


def _last_bit(least: float) -> float:
    """Return the last bit of a number of 24 bits, or a smaller power of two; 0 if it is not positive."""
    return math.ldexp(1.0, math.floor(math.log2(least)) - 24) if least > 0 else 0.0


def _unit_of(values: Float32) -> float:
    """Return the largest power of two of which all numbers are multiples, at most 1."""
    nonzero = values[values != 0].astype(np.float64)
    # float32 has 24 significant bits, so these are integers.
    wholes = np.ldexp(np.abs(np.frexp(nonzero)[0]), 24).astype(np.int64)
    last = np.frexp(nonzero)[1] - 24 + np.log2(wholes & -wholes).astype(np.int64)
    return min(1.0, float(np.ldexp(1.0, int(last.min())))) if last.size else 1.0
