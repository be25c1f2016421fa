"""RESIZE_BILINEAR: exact integer interpolation along columns, then along rows, in the vector unit."""

from tq_hw.compiler.ir.staged import Resize
from tq_hw.compiler.lower.legalize import Legalizer, lowers
from tq_hw.compiler.lower.sixteen_resize import resize_wide
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import resize
from tq_hw.sim.golden.registry import bool_option, require_dtype

__all__: list[str] = []


@lowers("RESIZE_BILINEAR")
def lower_resize_bilinear(state: Legalizer, op: Operator) -> None:
    """One layer with the taps of both axes."""
    tensor, made = require_dtype(op, state.subgraph, "int8", "int16"), state.subgraph.tensors[op.outputs[0]]
    flags = bool_option(op, "align_corners"), bool_option(op, "half_pixel_centers")
    taps = [resize.bilinear_taps(tensor.shape[axis], made.shape[axis], *flags) for axis in (1, 2)]
    if tensor.dtype == "int16":
        resize_wide(state, op, *taps)
        return
    source, output = state.input(op, 0), state.output(op)
    rows, cols = (tuple(zip(t.low.tolist(), t.high.tolist(), t.fraction.tolist(), strict=True)) for t in taps)
    state.layers.append(Resize(op.index, op.op, (source,), output, rows, cols))
