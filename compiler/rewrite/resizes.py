"""RESIZE_BILINEAR of float32 functions of codes: the range of its four products.

LiteRT multiplies each of four pixels by a row weight and a column weight, and adds the products in float32. For all
output pixels with the same two fractions, each product is a function of the input pixel's code.
"""

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.registry import bool_option
from tq_hw.sim.golden.resize import float_taps

__all__ = ["resize_terms"]

#: Most distinct pairs of a row and a column fraction; each pair has its own layers.
_MOST_FRACTIONS = 160


def resize_terms(graph: Subject, op: Operator, values: Float32) -> Float32:
    """Return products of `values` with the smallest and largest weights; raise `UnsupportedError` for too many weights.

    Products with other weights lie between these, because float32 rounding is monotonic.
    """
    before, after = graph.input(op).shape, graph.output(op).shape
    flags = bool_option(op, "align_corners"), bool_option(op, "half_pixel_centers")
    rows, cols = (np.unique(float_taps(before[axis], after[axis], *flags).fraction) for axis in (1, 2))
    if rows.size + cols.size > _MOST_FRACTIONS:
        raise UnsupportedError(
            f"operator {op.index} ({op.op}) from {before[1]}x{before[2]} to {after[1]}x{after[2]} has {rows.size} "
            f"different fractions of rows and {cols.size} of columns, more than {_MOST_FRACTIONS} together; a factor "
            "of 2 or 4 without align_corners has few")
    parts = []
    for row in _ends(rows):
        parts += [values * row, *(values * row * col for col in _ends(cols))]
    found: Float32 = np.concatenate(parts)
    return found


def _ends(fractions: Float32) -> tuple[np.float32, np.float32]:
    """Return the smallest and the largest magnitude of nonzero weights."""
    weights = np.abs(np.concatenate([np.float32(1) - fractions, fractions]))
    return weights[weights > 0].min(), weights.max()
