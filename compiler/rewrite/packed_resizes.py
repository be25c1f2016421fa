"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR of packed numbers, for feature pyramids that add in float32."""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.rewrite.bounds import widened
from tq_hw.compiler.rewrite.packing import Packed, Packing, Rows, plain
from tq_hw.model.graph import Operator, OptionValue, Tensor
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.packed_float import packed
from tq_hw.sim.golden.registry import bool_option
from tq_hw.sim.golden.resize import FloatTaps, float_taps, nearest_indices

__all__ = ["RESIZES"]

#: A number of roundings that bounds those of the weights (which may be 1.5 and -0.5), the products and the sums.
_ROUNDINGS = 31


def _flags(op: Operator) -> tuple[bool, bool]:
    return bool_option(op, "align_corners"), bool_option(op, "half_pixel_centers")


def _seen(op: Operator, name: str, shape: tuple[int, ...]) -> Tensor:
    return Tensor(0, f"{name} ({op.op})", "float32", shape)


def _moved(packing: Packing, op: Operator, part: Packed, name: str, constants: tuple[IntArray, ...], like: Tensor,
           axis: int | None = None) -> Packed:
    inputs = (part.index, *(packing.graph.add_constant(each.astype(np.int32)) for each in constants))
    options: dict[str, OptionValue] = {} if axis is None else {"axis": axis, "batch_dims": 0}
    return packing.add(op, name, inputs, like, (part.low, part.high), options)


def _picked(packing: Packing, op: Operator, part: Packed, like: Tensor, axis: int, places: IntArray) -> Packed:
    """Gather rows or columns at constant indices."""
    if np.array_equal(places, np.arange(like.shape[axis])):
        return part
    shape = (*like.shape[:axis], len(places), *like.shape[axis + 1:])
    return _moved(packing, op, part, "GATHER", (places,), _seen(op, like.name, shape), axis)


def _repeated(packing: Packing, op: Operator, part: Packed, like: Tensor, scale: tuple[int, int]) -> Packed:
    """Repeat every pixel `scale` times, in one move."""
    (n, h, w, c), output = like.shape, packing.graph.output(op)
    single, every = (n, h, 1, w, 1, c), (n, h, scale[0], w, scale[1], c)
    for name, shape in (("RESHAPE", single), ("BROADCAST_TO", every), ("RESHAPE", output.shape)):
        part = _moved(packing, op, part, name, (np.array(shape),), _seen(op, like.name, shape))
    return part


def _nearest(packing: Packing, op: Operator) -> Packed:
    source, output, part = packing.graph.input(op), packing.graph.output(op), packing.packed(op.inputs[0])
    places = [nearest_indices(source.shape[axis], output.shape[axis], *_flags(op)) for axis in (1, 2)]
    scale = [output.shape[axis] // source.shape[axis] for axis in (1, 2)]
    if all(np.array_equal(place, np.repeat(np.arange(source.shape[axis]), each))
           for axis, place, each in zip((1, 2), places, scale, strict=True)):
        return _repeated(packing, op, part, source, (scale[0], scale[1]))
    made = _picked(packing, op, part, source, 1, places[0])
    between = _seen(op, source.name, (source.shape[0], output.shape[1], *source.shape[2:]))
    return _picked(packing, op, made, between, 2, places[1])


def _weighted(packing: Packing, op: Operator, part: Packed, like: Tensor, weights: Float32) -> Packed | None:
    """Multiply by the weights of rows or columns, in their broadcast shape; None if all are 0."""
    if not weights.any():
        return None
    if (weights == 1).all():
        return part
    constant = Packed(packing.graph.add_constant(packed(weights)), float(weights.min()), float(weights.max()))
    return packing.binary(plain(op), "MUL", part, constant, like)


def _halves(taps: FloatTaps) -> tuple[tuple[IntArray, Float32], tuple[IntArray, Float32]]:
    """Return indices and weights of the first and of the second neighbour."""
    return (taps.low, np.float32(1) - taps.fraction), (taps.high, taps.fraction)


def _bilinear(packing: Packing, op: Operator) -> Packed:
    """Multiply by the row's and then the column's weight; terms with weight 0 are omitted, as numbers are finite."""
    source, output, part = packing.graph.input(op), packing.graph.output(op), packing.packed(op.inputs[0])
    rows, cols = (_halves(float_taps(source.shape[axis], output.shape[axis], *_flags(op))) for axis in (1, 2))
    between = _seen(op, source.name, (source.shape[0], output.shape[1], *source.shape[2:]))
    made = [_weighted(packing, op, _picked(packing, op, part, source, 1, places), between, weights[:, None, None])
            for places, weights in rows]
    total: Packed | None = None
    for places, weights in cols:
        for row in made:
            term = None if row is None else _weighted(
                packing, op, _picked(packing, op, row, between, 2, places), output, weights[:, None])
            if term is not None:
                total = term if total is None else packing.binary(plain(op), "ADD", total, term, output)
    assert total is not None, "the first two weights are never 0"
    low, high = widened(part.low, part.high, _ROUNDINGS)
    return replace(total, low=max(total.low, low), high=min(total.high, high))


RESIZES: dict[str, Rows] = {"RESIZE_BILINEAR": _bilinear, "RESIZE_NEAREST_NEIGHBOR": _nearest}
