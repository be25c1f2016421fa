"""DEQUANTIZE, float32 operators of single elements, QUANTIZE: a table, where all comes of one int8 tensor.

The float32 operators compute as LiteRT's kernels do (`sim/golden/float32.py`), for each of the 256 codes.
"""

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, pattern
from tq_hw.model.errors import TqError, UnsupportedError
from tq_hw.model.graph import Operator, Subgraph, Tensor
from tq_hw.model.rules.signatures import FLOAT_OPERATORS
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.registry import Array, located

__all__ = ["ISLANDS", "check_floats"]

_BYTES = ("int8", "uint8")
_CODES = np.arange(256).astype(np.uint8)
#: Operators that make float32 of bytes.
_ENTRIES = ("DEQUANTIZE", "CAST")


class _Island:
    """Values of float32 tensors for each code of the one tensor of bytes that they come of."""

    def __init__(self, graph: Subject, shape: tuple[int, ...]):
        self.graph, self.shape = graph, shape
        self.source: Tensor | None = None
        self._values: dict[int, Array] = {}

    def values(self, index: int) -> Array:
        """Return the 256 values of a tensor, or one for a constant; raise `UnsupportedError` where it has others."""
        if index not in self._values:
            self._values[index] = self._compute(index)
        return self._values[index]

    def _compute(self, index: int) -> Array:
        tensor, maker = self.graph.tensors[index], self.graph.maker(index)
        if tensor.data is not None:
            if tensor.data.size == 0 or (tensor.data != tensor.data.flat[0]).any():
                raise UnsupportedError(f"{_label(tensor)} holds different numbers: the result is no function of one "
                                       "byte")
            return tensor.data.reshape(-1)[:1]
        if maker is None:
            raise UnsupportedError(f"{_label(tensor)} is an input of the model")
        with located(maker):
            if maker.op not in (*_ENTRIES, *FLOAT_OPERATORS):
                raise UnsupportedError(f"{_label(tensor)} is float32, in which the accelerator does not compute")
            if tensor.shape != self.shape:
                raise UnsupportedError(f"{_label(tensor)} has shape {list(tensor.shape)}, its result "
                                       f"{list(self.shape)}: the result is no function of one byte")
            if maker.op in _ENTRIES:
                inputs = [self._codes(self.graph.input(maker))]
            else:
                inputs = [self.values(each) for each in maker.inputs]
            return KERNELS[maker.op](maker, self.graph.subgraph, inputs)[0]

    def _codes(self, source: Tensor) -> Array:
        if source.dtype not in (*_BYTES, "bool"):
            raise UnsupportedError(f"{_label(source)} is {source.dtype}: a table is of {', '.join(_BYTES)} or bool")
        if self.source is not None and self.source.index != source.index:
            raise UnsupportedError(f"the float32 result comes of {_label(self.source)} and {_label(source)}: it is no "
                                   "function of one byte")
        self.source = source
        return _CODES != 0 if source.dtype == "bool" else _CODES.view(source.dtype)


def _label(tensor: Tensor) -> str:
    return f"tensor {tensor.index} ({tensor.name!r})"


def _table(graph: Subject, op: Operator) -> tuple[Tensor, Array]:
    """Return the tensor of bytes and the table that end in a QUANTIZE; raise `TqError` if there is none."""
    island = _Island(graph, graph.output(op).shape)
    inputs = [island.values(op.inputs[0])]
    if island.source is None:
        raise UnsupportedError("the result is constant")
    return island.source, KERNELS["QUANTIZE"](op, graph.subgraph, inputs)[0]


def _is_inner(graph: Subject, op: Operator) -> bool:
    """Whether an operator makes float32 of tensors that the model computes."""
    return bool(op.outputs) and graph.output(op).dtype == "float32" and op.op in (*_ENTRIES, *FLOAT_OPERATORS)


@pattern("QUANTIZE")
def float_island(graph: Subject, op: Operator) -> Rewrite | None:
    """Float32 operators of single elements between bytes are one table, whatever else reads what is between."""
    maker = graph.maker(op.inputs[0])
    if maker is None or not _is_inner(graph, maker) or graph.output(op).dtype not in _BYTES:
        return None
    try:
        source, values = _table(graph, op)
    except TqError:
        return None
    return Rewrite([op], [Operator(op.index, "TABLE", (source.index, graph.add_constant(values)), op.outputs)])


@pattern(*_ENTRIES, *FLOAT_OPERATORS)
def unused_float(graph: Subject, op: Operator) -> Rewrite | None:
    """A float32 result that nothing reads any more goes."""
    unused = _is_inner(graph, op) and not any(graph.is_used(index) for index in op.outputs)
    return Rewrite([op], []) if unused else None


#: In the order in which they are tried.
ISLANDS = (float_island, unused_float)


def check_floats(subgraph: Subgraph) -> None:
    """Raise `UnsupportedError` naming the first operator that computes in float32 what the patterns left."""
    graph = Subject(subgraph)
    for op in subgraph.operators:
        for position, index in enumerate(op.inputs):
            tensor = subgraph.tensors[index] if index >= 0 else None
            if tensor is None or tensor.dtype != "float32" or tensor.data is not None or graph.maker(index) is None:
                continue
            if op.op not in ("QUANTIZE", "CAST", "SHAPE"):
                raise UnsupportedError(
                    f"operator {op.index} ({op.op}): input {position}, {_label(tensor)}, is float32 computed inside "
                    f"the model{_reason(graph, op)}; supported are float32 operators that together are a function of "
                    "one int8 tensor, from DEQUANTIZE to QUANTIZE")


def _reason(graph: Subject, op: Operator) -> str:
    """Say why what an operator makes is no table."""
    if op.op not in FLOAT_OPERATORS or not op.outputs:
        return ""
    readers, reached = [], {op.outputs[0]}
    for each in graph.subgraph.operators:
        if reached & set(each.inputs):
            if each.op == "QUANTIZE":
                readers.append(each)
            elif _is_inner(graph, each):
                reached.update(each.outputs)
    for each in readers:
        try:
            _table(graph, each)
        except TqError as error:
            return f" ({error})"
    return ""
