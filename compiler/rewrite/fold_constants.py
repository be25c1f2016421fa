"""Constant folding: the golden model evaluates operators whose inputs are all constants, once.

SHAPE depends only on a known shape. An unused result costs nothing: only constants that a layer reads are written to
the compiled file.
"""

from dataclasses import replace

import numpy as np

from tq_hw.model.errors import TqError
from tq_hw.model.graph import Model, Operator, Subgraph, Tensor
from tq_hw.model.rules.check import check_shapes
from tq_hw.model.rules.node import Node
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.registry import located

__all__ = ["ALWAYS_CONSTANT", "fold_constants"]

#: An operator whose result has more elements is not folded: a small file must not grow without bound.
_ELEMENT_LIMIT = 1 << 22
#: Operators that depend only on a shape.
ALWAYS_CONSTANT = ("SHAPE",)


def _foldable(op: Operator, tensors: list[Tensor], integers: bool) -> bool:
    if op.op not in KERNELS or not op.outputs or not op.inputs:
        return False
    outputs = [tensors[index] for index in op.outputs]
    if sum(int(np.prod(tensor.shape, dtype=np.int64)) for tensor in outputs) > _ELEMENT_LIMIT:
        return False
    if integers and any(tensor.dtype.startswith("float") for tensor in outputs):
        return False
    if op.op in ALWAYS_CONSTANT:
        return True
    return all(index < 0 or tensors[index].data is not None for index in op.inputs)


def fold_constants(model: Model, *, integers: bool = False) -> Subgraph:
    """Return the main subgraph with constants in place of the operators whose results are constant.

    The other operators keep their index. `integers`: operators with float results remain, as do operators that the
    golden model cannot evaluate. Otherwise raises UnsupportedError or ModelError of the golden kernel, naming the
    operator.
    """
    subgraph = model.main
    tensors = list(subgraph.tensors)
    kept = []
    for op in subgraph.operators:
        if not _foldable(op, tensors, integers):
            kept.append(op)
            continue
        inputs = [None if index < 0 else tensors[index].data for index in op.inputs]
        if op.op == "SHAPE":
            # One byte broadcast to the tensor's shape: the tensor itself may be larger than memory.
            inputs = [np.broadcast_to(np.int8(0), tensors[op.inputs[0]].shape)]
        current = replace(subgraph, tensors=tuple(tensors))
        try:
            with located(op):
                check_shapes(Node(op, tensors, f"operator {op.index} ({op.op})"))
                results = KERNELS[op.op](op, current, inputs)
        except TqError:
            if not integers:
                raise
            kept.append(op)
            continue
        for index, result in zip(op.outputs, results, strict=True):
            tensors[index] = replace(tensors[index], data=result)
    return replace(subgraph, tensors=tuple(tensors), operators=tuple(kept))
