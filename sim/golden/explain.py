"""Explain one element of a multiply-accumulate operator, stage by stage."""

from collections.abc import Mapping

from tq_hw.model.errors import OptionError, UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.sim.golden import conv, fully_connected
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.mac import MacParams, requantize_stages
from tq_hw.sim.golden.registry import Array, located
from tq_hw.sim.golden.run import operator_inputs

__all__ = ["MAC_OPERATORS", "accumulators", "explain"]

MAC_OPERATORS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL")


def accumulators(model: Model, tensors: Mapping[int, Array],
                 op_index: int) -> tuple[IntArray, MacParams]:
    """Int32 accumulators (with bias, in the output's shape) of a MAC operator, and its parameters.

    `tensors` are the main subgraph's tensors by index, as `run(..., keep=True)` returns them.
    """
    # Operators that depend only on shapes may have been removed; the others keep their index.
    op = next(each for each in model.main.operators if each.index == op_index)
    with located(op):
        inputs = operator_inputs(op, dict(tensors))
        if op.op in ("FULLY_CONNECTED", "BATCH_MATMUL"):
            matmul = fully_connected.params(op, model.main)
            return fully_connected.accumulate(op, model.main, inputs, matmul), matmul
        if op.op not in MAC_OPERATORS:
            raise UnsupportedError(f"only {', '.join(MAC_OPERATORS)} have accumulators")
        p = conv.params(op, model.main)
        return conv.accumulate(op, model.main, inputs, p), p


def explain(model: Model, tensors: Mapping[int, Array], op_index: int,
            element_index: int) -> dict[str, int]:
    """Value of one output element (by flat index) after each stage, to find where two engines diverge.

    The keys are `accumulator` (with bias), `after_multiply` (left shift and doubling high multiplication),
    `after_shift` (rounding right shift, without the zero point) and `after_clamp` (the int8 result).
    """
    acc, p = accumulators(model, tensors, op_index)
    if not 0 <= element_index < acc.size:
        raise OptionError(f"element must be in 0..{acc.size - 1}, not {element_index}")
    stages = requantize_stages(acc, p)
    return {name: int(getattr(stages, name).reshape(-1)[element_index])
            for name in ("accumulator", "after_multiply", "after_shift", "after_clamp")}
