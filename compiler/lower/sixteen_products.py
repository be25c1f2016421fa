"""Products of two run-time int16 matrices: four products of their byte planes, combined and rescaled once."""

from collections.abc import Sequence

from tq_hw.compiler.ir.staged import Flat, MatMul
from tq_hw.compiler.ir.value import TYPE_CODES, Value
from tq_hw.compiler.lower.legalize import Legalizer, publish
from tq_hw.compiler.lower.sixteen import split_planes
from tq_hw.compiler.programs.sixteen import combine_high, combine_middle, rescale_split
from tq_hw.compiler.programs.words import OUT, STREAMS, Uop
from tq_hw.isa.uop import Alu
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.fully_connected import MatMulParams

__all__ = ["matmul_wide"]

_INT16, _INT32 = TYPE_CODES["int16"], TYPE_CODES["int32"]
#: Most products of two int16 whose sum fits 40 bits.
_MOST_DEPTH = 511
#: Largest exponent of the program for 40-bit sums.
_MOST_LEFT = 6


def matmul_wide(state: Legalizer, op: Operator, operands: tuple[Value, Value], pairs: tuple[tuple[int, int], ...],
                p: MatMulParams) -> None:
    """Compute the output from `operands`: int16 matrices [1, count, rows, bytes of columns], which `pairs` selects.

    An element is `256 * high + low`. The low plane has low (0..255) less 128, which is a zero point. Sums are
    `2^16 * HH + 2^8 * (HL + LH) + LL`.
    """
    if p.depth > _MOST_DEPTH:
        raise UnsupportedError(f"sums of products of int16 must have at most {_MOST_DEPTH} terms, whose 40 bits are "
                               f"kept, found {p.depth}")
    multiplier, shift = int(p.multiplier[0]), int(p.shift[0])
    if shift > _MOST_LEFT:
        raise UnsupportedError("a rescaling multiplier must be below 64 where activations are int16, found one of "
                               f"2^{shift - 1} or more; use a larger output scale")
    left, right = ([(plane, point) for plane, point in zip(split_planes(state, op, value), (0, -128), strict=True)]
                   for value in operands)
    rows, cols = operands[0].shape[2], operands[1].shape[3] // 2
    count = len(pairs) * rows * cols
    name, tensor = state.subgraph.tensors[op.outputs[0]].name, op.outputs[0]

    def product(one: tuple[Value, int], other: tuple[Value, int]) -> Value:
        made = Value(f"{name} (sums)", tensor, (1, len(pairs), rows, 4 * cols))
        state.layers.append(MatMul(op.index, op.op, (one[0], other[0]), made, pairs, (one[1], other[1]), 0, 0, 0,
                                   raw=True, is_useful=one[1] == other[1] == 0))
        return made

    def joined(inputs: tuple[Value, Value], uops: Sequence[Uop], out_type: int = _INT32) -> Value:
        made = Value(f"{name} (joined)", tensor, (1, 1, 1, (2 if out_type == _INT16 else 4) * count))
        state.layers.append(Flat(op.index, op.op, inputs, made, count, (_INT32, _INT32), out_type, tuple(uops)))
        return made

    low = product(left[1], right[1])
    middle = joined((product(left[0], right[1]), product(left[1], right[0])),
                    ({**STREAMS, "alu": Alu.ADD, **OUT},))
    middle = joined((low, middle), combine_middle())
    high = joined((product(left[0], right[0]), middle), combine_high())
    publish(state, op, joined((high, low), rescale_split(multiplier, shift), _INT16))
