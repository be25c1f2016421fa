"""Pools over windows of rows and columns as a pool over columns, then one over rows.

The maximum of a window is the maximum of its rows' maxima. Of windows with more taps than the vector unit compares in
passes (`compiler/emit/pool.py`), each row then serves all windows that it is in. The tensor between both pools takes
words of the scratchpad, so it must be small.
"""

import math

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Pattern, Rewrite, Subject, changed, pattern
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.registry import int_option

__all__ = ["pools_of_lines"]

#: Taps of windows that are compared in passes anyway, and the part of the scratchpad for the tensor between.
_FEW_TAPS, _SHARE = 5, 8
#: Beats for a word: of a pass, with waits for banks; and of a maximum in a register, besides those of its taps.
_PASS, _REGISTER = 1.33, 2
#: Least share of the beats that is saved.
_WORTH = 0.85


def _beats(taps: int) -> float:
    return _PASS * (taps - 1) if taps <= _FEW_TAPS else taps + _REGISTER


def pools_of_lines(scratchpad_words: int, word_bytes: int) -> Pattern:
    """Return the pattern for a scratchpad."""

    @pattern("MAX_POOL_2D")
    def pool_of_lines(graph: Subject, op: Operator) -> Rewrite | None:
        """Take maxima along rows, then along columns."""
        source, output = graph.input(op), graph.output(op)
        kernel = int_option(op, "filter_height"), int_option(op, "filter_width")
        if source.dtype not in ("int8", "int16") or len(source.shape) != 4 or min(kernel) == 1 or (
                math.prod(kernel) <= _FEW_TAPS or output.shape[1:3] == (1, 1)):
            return None
        (n, rows, _, channels), (_, out_rows, cols, _) = source.shape, output.shape
        words = n * rows * cols * -(-channels * np.dtype(source.dtype).itemsize // word_bytes)
        beats = _beats(kernel[1]) * rows / out_rows + _beats(kernel[0])
        if words > scratchpad_words // _SHARE or beats > _WORTH * _beats(math.prod(kernel)):
            return None
        between = graph.add_tensor(output, (n, rows, cols, channels))
        return Rewrite([op], [
            changed(op, outputs=(between,), filter_height=1, stride_h=1, fused_activation_function="NONE"),
            changed(op, inputs=(between,), filter_width=1, stride_w=1)])

    return pool_of_lines
