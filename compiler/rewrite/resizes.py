"""RESIZE_BILINEAR of float32 between codes: what its four products can be.

LiteRT multiplies each of four pixels by a weight of its row and one of its column, and adds the products in float32.
For all places with the same two fractions such a product is a function of the pixel's code.
"""

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.registry import bool_option
from tq_hw.sim.golden.resize import float_taps

__all__ = ["resize_terms"]

#: Pairs of fractions, of a row and a column, of which each has its own tables.
_MOST_PAIRS = 64


def resize_terms(graph: Subject, op: Operator, values: Float32) -> Float32:
    """Return all products of `values`; raise `UnsupportedError` where they need too many tables."""
    before, after = graph.input(op).shape, graph.output(op).shape
    flags = bool_option(op, "align_corners"), bool_option(op, "half_pixel_centers")
    rows, cols = (np.unique(float_taps(before[axis], after[axis], *flags).fraction) for axis in (1, 2))
    if rows.size * cols.size > _MOST_PAIRS:
        raise UnsupportedError(
            f"operator {op.index} ({op.op}) from {before[1]}x{before[2]} to {after[1]}x{after[2]} has {rows.size} "
            f"different fractions of rows and {cols.size} of columns, and tables are made for {_MOST_PAIRS} pairs of "
            "them; a factor of 2 or 4 without align_corners has few")
    one = np.float32(1)
    parts = [values * row * col for fraction in rows for row in (one - fraction, fraction)
             for other in cols for col in (one - other, other)]
    found: Float32 = np.concatenate(parts)
    return found
