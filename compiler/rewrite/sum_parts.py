"""The parts of a float32 sum of int8 tensors: functions of one tensor, also with constants, and interpolations."""

from dataclasses import dataclass, replace

import numpy as np

from tq_hw.compiler.rewrite.island import Island, label, varying
from tq_hw.compiler.rewrite.resizes import resize_terms
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.model.rules.signatures import FLOAT_RESIZES
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.registry import Array, str_option

__all__ = ["Leaf", "Looked", "Part", "Resized", "Sum", "find_part"]

#: Most terms of one result; a sum that is read twice counts twice.
_MOST_SUMS = 64


@dataclass(frozen=True)
class Leaf:
    """A function of one int8 tensor: its values by unsigned code."""

    source: Tensor
    values: Float32


@dataclass(frozen=True)
class Resized:
    """An interpolation of a leaf, and whether RELU follows."""

    op: Operator
    source: Tensor
    values: Float32
    relu: bool = False


@dataclass(frozen=True)
class Looked:
    """A function of an int8 tensor and constants: its values by unsigned code and by distinct element of these."""

    name: str
    shape: tuple[int, ...]
    source: Tensor
    places: Array
    values: Float32


@dataclass(frozen=True)
class Sum:
    """An addition, and whether RELU follows. A subtrahend is not a sum and has negated values."""

    op: Operator
    parts: "tuple[Part, Part]"
    relu: bool


Part = Leaf | Looked | Resized | Sum


def _leaf(graph: Subject, index: int) -> Leaf:
    """Return a float32 tensor as a function of an int8 tensor; raise `UnsupportedError` if it is none."""
    tensor = graph.tensors[index]
    island = Island(graph, tensor.shape)
    values = island.values(index)
    if not island.sources or island.sources[0].dtype != "int8" or not np.isfinite(values).all():
        raise UnsupportedError(f"{label(tensor)} is not a finite function of an int8 tensor")
    return Leaf(island.sources[0], np.broadcast_to(values, (256,)).astype(np.float32))


def _looked(graph: Subject, index: int) -> Looked | None:
    """Return a float32 tensor as a function of an int8 tensor and constants, None if it is none."""
    tensor, constants = graph.tensors[index], varying(graph, index)
    if not constants:
        return None
    island = Island(graph, tensor.shape, most=2, numbered=constants)
    try:
        values = island.values(index)
    except UnsupportedError:
        return None
    sources = island.sources
    if len(sources) == 2 and sources[0].data is not None:
        sources, values = sources[::-1], values.T
    if (len(sources) != 2 or sources[0].dtype != "int8" or sources[0].data is not None or sources[1].data is None
            or values.shape[1] > 256 or not np.isfinite(values).all()
            or np.broadcast_shapes(sources[0].shape, sources[1].shape) != tensor.shape):
        return None
    values = np.broadcast_to(values, (256, values.shape[1])).astype(np.float32)
    return Looked(tensor.name, tensor.shape, sources[0], sources[1].data, values)


def find_part(graph: Subject, index: int, leaves: list[Leaf]) -> Part:
    """Return a float32 tensor as a tree of sums, and append its terms to `leaves`."""
    tensor, maker = graph.tensors[index], graph.maker(index)
    if len(leaves) >= _MOST_SUMS:
        raise UnsupportedError(f"{label(tensor)} is one of more than {_MOST_SUMS} tensors in a sum")
    try:
        leaves.append(_leaf(graph, index))
        return leaves[-1]
    except UnsupportedError as error:
        looked = _looked(graph, index)
        if looked is not None:
            leaves.append(Leaf(looked.source, looked.values.reshape(-1)))
            return looked
        if maker is None or maker.op not in ("ADD", "SUB", "RELU", *FLOAT_RESIZES):
            raise error
    if maker.op in FLOAT_RESIZES:
        inner = _leaf(graph, maker.inputs[0])
        # Each product is a term of the sum.
        leaves += [Leaf(inner.source, resize_terms(graph, maker, inner.values))] * 4
        return Resized(maker, inner.source, inner.values)
    first = find_part(graph, maker.inputs[0], leaves)
    if maker.op == "RELU":
        if isinstance(first, Leaf | Looked):
            raise UnsupportedError(f"{label(tensor)}'s shape differs from its source's")
        return replace(first, relu=True)
    second = find_part(graph, maker.inputs[1], leaves)
    if maker.op == "SUB":
        if isinstance(second, Sum) or (isinstance(second, Resized) and second.relu):
            raise UnsupportedError(f"operator {maker.index} (SUB) subtracts a sum")
        second = replace(second, values=-second.values)
    fused = str_option(maker, "fused_activation_function")
    if fused not in ("NONE", "RELU"):
        raise UnsupportedError(f"operator {maker.index} ({maker.op}) is a sum with {fused}")
    return Sum(maker, (first, second), fused == "RELU")
