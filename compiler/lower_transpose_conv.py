"""TRANSPOSE_CONV: one convolution of stride 1 per phase of the output, then the phases are put into each other.

Output row `stride * t + phase` sees the kernel rows `k` with `(phase + pad - k) mod stride = 0`, at input row
`t + (phase + pad - k) / stride`: a kernel of every `stride`-th row, upside down.
"""

from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.ir.layers import Copy, Mac, Move, Value
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.legalize import Legalizer, lowers
from tq_hw.compiler.lower_mac import bias_of, folded_bias
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import conv

__all__: list[str] = []


@dataclass(frozen=True)
class _Phase:
    """Output positions `phase + stride * t`, t < size; kernel taps in input order; padding before."""

    phase: int
    size: int
    taps: tuple[int, ...]
    pad: int


def _phases(out_size: int, kernel: int, stride: int, pad: int) -> list[_Phase]:
    phases = []
    for phase in range(min(stride, out_size)):
        first = (phase + pad) % stride
        taps = tuple(range(first, kernel, stride))[::-1]
        size = -(-(out_size - phase) // stride)
        phases.append(_Phase(phase, size, taps, max(len(taps), 1) - 1 - (phase + pad - first) // stride))
    return phases


@lowers("TRANSPOSE_CONV")
def lower_transpose_conv(state: Legalizer, op: Operator) -> None:
    """Sub-convolutions per output phase; each contributes its own part of the output."""
    p = conv.params(op, state.subgraph)
    weights, bias = state.constant(op, 1), bias_of(state, op, 3)
    source = state.input(op, 2)
    tensor = state.subgraph.tensors[op.outputs[0]]
    n, out_h, out_w, out_c = tensor.shape
    rows = _phases(out_h, p.filter_height, p.stride_h, p.pad_top)
    cols = _phases(out_w, p.filter_width, p.stride_w, p.pad_left)
    target = blank(tensor.shape, tensor.dtype)
    parts: list[Value] = []
    copies: list[Copy] = []
    single = len(rows) == len(cols) == 1
    for row in rows:
        for col in cols:
            # A phase without taps is the bias alone: one tap of weight 0.
            taps = (weights[:, row.taps][:, :, col.taps] if row.taps and col.taps
                    else np.zeros((out_c, 1, 1, weights.shape[3]), np.int8))
            pad = (row.pad, col.pad) if row.taps and col.taps else (0, 0)
            part = state.output(op) if single else Value(
                f"{tensor.name} ({row.phase}, {col.phase})", tensor.index, (n, row.size, col.size, out_c),
                p.output_zero_point)
            sums = taps.sum(axis=(1, 2, 3), dtype=np.int64)
            state.layers.append(Mac(
                op.index, op.op, (source,), part, depthwise=False, weights=np.ascontiguousarray(taps),
                bias=folded_bias(bias, sums, p.input_zero_point), multiplier=p.multiplier, shift=p.shift,
                stride=(1, 1), dilation=(1, 1), pad=pad, pad_value=p.input_zero_point,
                zero_point=p.output_zero_point, act_min=p.act_min, act_max=p.act_max))
            base = blank(part.shape, tensor.dtype)
            copies.append(copy_between(len(parts), base, base,
                                       target[:, row.phase::p.stride_h, col.phase::p.stride_w], target))
            parts.append(part)
    if not single:
        state.layers.append(Move(op.index, op.op, tuple(parts), state.output(op), tuple(copies)))
