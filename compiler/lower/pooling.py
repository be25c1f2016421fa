"""AVERAGE_POOL_2D and MAX_POOL_2D: sums on the array, maxima (and sums of very large windows) in the vector unit."""

import numpy as np

from tq_hw.compiler.ir.layers import Mac, MaxPool
from tq_hw.compiler.ir.window import window_regions
from tq_hw.compiler.lower.constraints import KERNEL_LIMIT, covers_image
from tq_hw.compiler.lower.conv import divide_params
from tq_hw.compiler.lower.legalize import Legalizer, lowers, publish
from tq_hw.compiler.lower.sixteen_elements import lower_pool_wide
from tq_hw.compiler.lower.walks import walk_average, walk_extreme
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import pooling
from tq_hw.sim.golden.registry import require

__all__: list[str] = []

#: Most parts of the output; parts differ in their divisor or in the start of their windows, and each is a layer.
_MOST_PARTS = 400


def _lower_whole(state: Legalizer, op: Operator) -> bool:
    """Reduce whole images in the vector unit if windows are too large or too far apart; return whether it did."""
    p = pooling.params(op, state.subgraph)
    if (not covers_image(op, state.subgraph)
            or max(p.filter_height, p.filter_width, p.stride_h, p.stride_w) <= KERNEL_LIMIT):
        return False
    n, h, w, c = state.input(op, 0).shape
    shape = (n, h * w, c)
    clamp = p.act_min, p.act_max
    value = state.input(op, 0)
    publish(state, op, walk_extreme(state, op, value, shape, False, clamp) if op.op == "MAX_POOL_2D"
            else walk_average(state, op, value, shape, clamp))
    return True


@lowers("AVERAGE_POOL_2D")
def lower_average_pool(state: Legalizer, op: Operator) -> None:
    """Sums on the array, division in the requantization; one layer for each count of taps inside the image."""
    if state.tensor(op, 0).dtype == "int16":
        lower_pool_wide(state, op)
        return
    if _lower_whole(state, op):
        return
    p = pooling.params(op, state.subgraph)
    source, output = state.input(op, 0), state.output(op)
    _, h, w, c = source.shape
    row_regions = window_regions(output.shape[1], h, p.filter_height, p.stride_h, p.pad_top)
    col_regions = window_regions(output.shape[2], w, p.filter_width, p.stride_w, p.pad_left)
    count = len(row_regions) * len(col_regions)
    require(count <= _MOST_PARTS,
            f"windows of {p.filter_height}x{p.filter_width} extend beyond the image in {count} ways, at "
            f"most {_MOST_PARTS} are supported; a smaller filter, larger strides or VALID padding help")
    for r0, r1, ky0, ky1 in row_regions:
        for c0, c1, kx0, kx1 in col_regions:
            rounding, multiplier, shift = divide_params((ky1 - ky0) * (kx1 - kx0))
            state.layers.append(Mac(
                op.index, op.op, (source,), output, depthwise=True,
                weights=np.ones((p.filter_height, p.filter_width, c), np.int8), bias=np.zeros(c, np.int64),
                multiplier=np.full(c, multiplier), shift=np.full(c, shift), stride=(p.stride_h, p.stride_w),
                dilation=(1, 1), pad=(p.pad_top, p.pad_left), pad_value=0, zero_point=0, act_min=p.act_min,
                act_max=p.act_max, rounding=rounding, region=(r0, r1, c0, c1)))


@lowers("MAX_POOL_2D")
def lower_max_pool(state: Legalizer, op: Operator) -> None:
    """Maximum over windows in the vector unit."""
    if state.tensor(op, 0).dtype == "int16":
        lower_pool_wide(state, op)
        return
    if _lower_whole(state, op):
        return
    p = pooling.params(op, state.subgraph)
    state.layers.append(MaxPool(
        op.index, op.op, (state.input(op, 0),), state.output(op), (p.filter_height, p.filter_width),
        (p.stride_h, p.stride_w), (p.pad_top, p.pad_left), p.act_min, p.act_max))
