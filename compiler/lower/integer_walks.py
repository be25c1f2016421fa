"""Sequential reductions of int32: sums and products of the low 32 bits, extremes, and the indices of extremes."""

from tq_hw.compiler.ir.staged import Flat
from tq_hw.compiler.ir.value import TYPE_CODES, Value
from tq_hw.compiler.lower.legalize import Legalizer
from tq_hw.compiler.programs.words import OUT, STREAM_A, Uop, immediate, low, reg_a, reg_b, set_to, to
from tq_hw.isa.uop import Alu
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import INT32_MAX, INT32_MIN

__all__ = ["walk_integers"]

_INT32 = TYPE_CODES["int32"]
_BEST, _PLACE, _COUNT, _KEEP, _X = range(5)
#: The initial value of a reduction, and the micro-operation that adds an element.
_STEPS: dict[str, tuple[int, Uop]] = {
    "SUM": (0, {"alu": Alu.ADD}), "REDUCE_PROD": (1, low()), "REDUCE_MAX": (INT32_MIN, {"alu": Alu.MAX}),
    "REDUCE_MIN": (INT32_MAX, {"alu": Alu.MIN})}


def _places(minimum: bool) -> tuple[Uop, ...]:
    """Keep the old index unless the new element is better: place = (place - count) * keep + count."""
    kept = reg_a(_BEST) | reg_b(_X) if minimum else reg_a(_X) | reg_b(_BEST)
    return (to(_X, STREAM_A), to(_KEEP, kept, alu=Alu.LESS_EQUAL),
            to(_PLACE, reg_a(_PLACE), reg_b(_COUNT), alu=Alu.SUB),
            to(_PLACE, reg_a(_PLACE), reg_b(_KEEP), low()), to(_PLACE, reg_a(_PLACE), reg_b(_COUNT), alu=Alu.ADD),
            to(_BEST, reg_a(_BEST), reg_b(_X), alu=Alu.MIN if minimum else Alu.MAX),
            to(_COUNT, reg_a(_COUNT), immediate(1), alu=Alu.ADD))


def walk_integers(state: Legalizer, op: Operator, value: Value, shape: tuple[int, int, int]) -> Value:
    """Reduce int32 [outer, count, inner] along `count`; return [1, 1, 1, bytes of int32]."""
    outer, count, inner = shape
    before: tuple[Uop, ...]
    body: tuple[Uop, ...]
    name = state.subgraph.tensors[op.outputs[0]].name
    if op.op in _STEPS:
        first, step = _STEPS[op.op]
        before, body, result = (set_to(_BEST, first),), (to(_BEST, STREAM_A, reg_b(_BEST), step),), _BEST
    else:
        minimum = op.op == "ARG_MIN"
        before = set_to(_BEST, INT32_MAX if minimum else INT32_MIN), set_to(_PLACE, 0), set_to(_COUNT, 0)
        body, result = _places(minimum), _PLACE
    out = Value(name, op.outputs[0], (1, 1, 1, 4 * outer * inner))
    state.layers.append(Flat(op.index, op.op, (value,), out, inner, (_INT32,), _INT32, before, body,
                             ({**reg_a(result), **OUT},), count, images=outer))
    return out
