"""The values of an inner float32 tensor for every code of the bytes that it is a function of, computed as in LiteRT."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.model.rules.signatures import COMPARISONS, FLOAT_OPERATORS, FLOAT_RESIZES
from tq_hw.sim.golden.arith import INT16_CODES, UINT8_CODES
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.registry import Array, located
from tq_hw.sim.golden.signs import is_never_positive, least_code, least_number

__all__ = ["BYTES", "CHOICES", "ENTRIES", "Island", "TABLES_ALONE", "label", "rises", "uncomputed",
           "varying"]

BYTES = ("int8", "uint8")
#: Operators that convert bytes to float32.
ENTRIES = ("DEQUANTIZE", "CAST")
#: Operators that may read codes inside an island; TABLE is what another pattern made of a float32 comparison.
_OF_CODES = (*ENTRIES, "TABLE", *COMPARISONS)
#: Operators that select float32 numbers, compare them, or combine comparisons.
CHOICES = ("SELECT", "SELECT_V2", "LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", *COMPARISONS)
#: Where an elementwise operator is taken that is not computed in float32; after its name.
TABLES_ALONE = "of float32 is computed only as a function of one int8 or int16 tensor, or of two int8 tensors"


class Island:
    """Values of float32 tensors for each code of their sources, which are tensors of bytes.

    With one source a tensor has 256 values, or 65,536 for int16. With two sources, the codes of the first are along
    axis 0 and those of the second along axis 1; an axis that the values do not depend on has length 1. A constant
    source has one value for each distinct element.

    Parameters
    ----------
    shape : of the result
    most : sources, 1 or 2; with one, all inner tensors have the shape of the result
    numbered : constants that together are one source: its codes number the distinct combinations of their elements
    possible : whether codes below the least result of a source's producer (such as RELU, SOFTMAX or MAXIMUM) get the
        value of that least result, and those above the largest (minus a square) the value of that; their square root or
        logarithm may be NaN, and their exponential too large

    Attributes
    ----------
    sources : tensors of bytes, in the order in which they were found
    """

    def __init__(self, graph: Subject, shape: tuple[int, ...], most: int = 1,
                 numbered: Sequence[Tensor] = (), *, possible: bool = False):
        self.graph, self.shape, self.most, self.possible = graph, shape, most, possible
        self.sources: list[Tensor] = []
        self._values: dict[int, Array] = {}
        #: The distinct elements of each numbered constant.
        self._numbers: dict[int, Array] = {}
        if numbered:
            every = np.broadcast_arrays(*(np.asarray(tensor.data) for tensor in numbered))
            found, places = np.unique(np.stack([each.reshape(-1) for each in every], 1), axis=0, return_inverse=True)
            self._numbers = {tensor.index: found[:, at] for at, tensor in enumerate(numbered)}
            self._joint = replace(numbered[0], dtype="int32", quantization=None, shape=every[0].shape,
                                  data=places.reshape(every[0].shape).astype(np.int32))

    def values(self, index: int) -> Array:
        """Return the values of a tensor, one for a constant; raise `UnsupportedError` if it is no such function."""
        if index not in self._values:
            self._values[index] = self._compute(index)
        return self._values[index]

    def assume(self, index: int, values: Array) -> "Island":
        """Return an island in which a tensor has the given values."""
        other = Island(self.graph, self.shape, self.most)
        other.sources = self.sources
        other._values[index] = values
        return other

    def _compute(self, index: int) -> Array:
        tensor, maker = self.graph.tensors[index], self.graph.maker(index)
        if tensor.data is not None:
            if index in self._numbers:
                return self._numbers[index].reshape((-1, 1) if self._axis(self._joint) == 0 else (1, -1))
            if tensor.data.size == 0 or (tensor.data != tensor.data.flat[0]).any():
                raise UnsupportedError(f"{label(tensor)} holds different values: the result is not a function of "
                                       "one byte")
            return tensor.data.reshape(-1)[:1]
        if maker is None:
            raise UnsupportedError(f"{label(tensor)} is an input of the model")
        with located(maker):
            if maker.op in FLOAT_RESIZES:
                raise UnsupportedError(f"{label(tensor)} is interpolated; only sums and RELU of interpolated values "
                                       "are computed")
            if maker.op not in (*_OF_CODES, *FLOAT_OPERATORS, *CHOICES):
                raise UnsupportedError(f"{label(tensor)} is float32, which the accelerator does not compute")
            if self.most == 1 and tensor.shape != self.shape:
                raise UnsupportedError(f"{label(tensor)} has shape {list(tensor.shape)}, its result "
                                       f"{list(self.shape)}: the result is not a function of one byte")
            inputs = [self._input(maker, position) for position in range(len(maker.inputs))]
            return KERNELS[maker.op](maker, self.graph.subgraph, inputs)[0]

    def _input(self, op: Operator, position: int) -> Array:
        """Return the values of an operator's input: all codes where it reads codes."""
        tensor = self.graph.input(op, position)
        if op.op == "TABLE" and tensor.data is not None:
            return tensor.data
        if (op.op in _OF_CODES and tensor.data is None and tensor.dtype != "float32"
                and not self._is_compared(tensor.index)):
            return self._codes(tensor)
        return self.values(tensor.index)

    def _is_compared(self, index: int) -> bool:
        """Whether a tensor is the result of a float32 comparison."""
        maker = self.graph.maker(index)
        return maker is not None and maker.op in COMPARISONS and self.graph.input(maker).dtype == "float32"

    def _codes(self, source: Tensor) -> Array:
        is_wide = source.dtype == "int16" and self.most == 1
        if source.dtype not in (*BYTES, "bool") and not is_wide:
            raise UnsupportedError(f"{label(source)} is {source.dtype}: a table must be of {', '.join(BYTES)} or bool")
        if self.most == 1 and source.shape != self.shape:
            raise UnsupportedError(f"{label(source)} has shape {list(source.shape)}, its result {list(self.shape)}: "
                                   "the result is not a function of one byte")
        axis = self._axis(source)
        if is_wide:
            return self._made(source, INT16_CODES)
        codes = UINT8_CODES != 0 if source.dtype == "bool" else self._made(source, UINT8_CODES.view(source.dtype))
        return codes if self.most == 1 else codes.reshape((256, 1) if axis == 0 else (1, 256))

    def _made(self, source: Tensor, codes: Array) -> Array:
        """Return the codes, raised or lowered to the least and the largest that the source's producer can give."""
        if not self.possible:
            return codes
        if (least := least_number(self.graph.subgraph, source.index)) != -math.inf:
            codes = np.maximum(codes, least_code(source, least))
        if source.quantization is not None and is_never_positive(self.graph.subgraph, source.index):
            codes = np.minimum(codes, source.zero_point)
        return codes.astype(source.dtype)

    def _axis(self, source: Tensor) -> int:
        """Return the axis of a source, which may be new."""
        known = [each.index for each in self.sources]
        if source.index not in known:
            if len(known) == self.most:
                names = [label(each) for each in self.sources]
                raise UnsupportedError(f"the float32 result comes from {', '.join(names)} and {label(source)}: it is "
                                       f"not a function of {('one byte', 'two bytes')[self.most - 1]}")
            self.sources.append(source)
            known.append(source.index)
        return known.index(source.index)


def varying(graph: Subject, index: int) -> list[Tensor]:
    """Return the non-uniform float32 constants that a float32 tensor depends on."""
    found: dict[int, Tensor] = {}
    todo = [index]
    while todo:
        tensor, maker = graph.tensors[todo[-1]], graph.maker(todo.pop())
        if tensor.data is not None and tensor.dtype == "float32" and len(np.unique(tensor.data)) > 1:
            found[tensor.index] = tensor
        if maker is not None and maker.op in (*FLOAT_OPERATORS, *CHOICES):
            todo += maker.inputs
    return list(found.values())


def rises(values: Float32, *, strictly: bool = False) -> bool:
    """Whether numbers, by signed code, never fall, or with `strictly` always rise; infinities are allowed."""
    return bool((values[1:] > values[:-1] if strictly else values[1:] >= values[:-1]).all())


def uncomputed(op: Operator) -> UnsupportedError:
    """Return the error that an operator of float32 is not computed by itself."""
    known = TABLES_ALONE if op.op in FLOAT_OPERATORS else "of float32 is not computed"
    return UnsupportedError(f"operator {op.index} ({op.op}) {known}")


def label(tensor: Tensor) -> str:
    """Return a tensor's name in messages."""
    return f"tensor {tensor.index} ({tensor.name!r})"
