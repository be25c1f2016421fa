"""RESIZE_BILINEAR: exact integer interpolation along columns, then along rows, in the vector unit."""

from tq_hw.compiler.ir.staged import Resize
from tq_hw.compiler.lower.legalize import Legalizer, lowers
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import resize
from tq_hw.sim.golden.registry import bool_option, require_dtype

__all__: list[str] = []


@lowers("RESIZE_BILINEAR")
def lower_resize_bilinear(state: Legalizer, op: Operator) -> None:
    """One layer with the taps of both axes."""
    require_dtype(op, state.subgraph, "int8")
    source, output = state.input(op, 0), state.output(op)
    flags = bool_option(op, "align_corners"), bool_option(op, "half_pixel_centers")
    taps = [resize.bilinear_taps(source.shape[axis], output.shape[axis], *flags) for axis in (1, 2)]
    rows, cols = (tuple(zip(t.low.tolist(), t.high.tolist(), t.fraction.tolist(), strict=True)) for t in taps)
    state.layers.append(Resize(op.index, op.op, (source,), output, rows, cols))
