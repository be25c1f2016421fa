"""Float32 islands of two int8 tensors in fixed point, equal to LiteRT's float kernels for all 65,536 pairs of codes.

LiteRT's arithmetic gives the expected code of each pair. An island is refused unless all pairs are equal; there is no
tolerance.

- A sum or difference of functions of the two tensors becomes two int32 tables, whose entries are added and shifted.
  Where float32 rounds to the other side of a code's threshold, entries are adjusted until all pairs are right.
- A product becomes the product of the codes, with a multiplier.
- A maximum or minimum becomes that of the resulting codes.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.rewrite.island import Island, label
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, OptionValue, Tensor
from tq_hw.sim.golden.arith import IntArray, quantize_multiplier
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.pair import combine, settle
from tq_hw.sim.golden.registry import Array

__all__ = ["Pair", "find_pair"]

_RELUS = ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
_NODES = {"ADD": "ADD", "SUB": "ADD", "MUL": "MUL", "MAXIMUM": "MAX", "MINIMUM": "MIN"}
#: Bits of a sum or product, without its sign.
_BITS = 30
#: Most rounds of adjusting entries, and most wrong pairs that are worth it: sums with exact ties have thousands.
_ROUNDS, _MOST_WRONG = 64, 400
#: Offsets from a product's multiplier that are tried, in units of its last bit.
_STEPS = [0, *(sign << power for power in range(12) for sign in (1, -1))]


@dataclass(frozen=True)
class Pair:
    """The replacement of an island: its sources, a table of each by unsigned code, and the options of PAIR."""

    sources: tuple[Tensor, Tensor]
    tables: tuple[IntArray, IntArray]
    options: Mapping[str, OptionValue]


@dataclass(frozen=True)
class _Node:
    """The operator that joins the two tensors.

    Members
    -------
    factor, offset : applied to its result before it is quantized, apart from clamps
    """

    op: Operator
    factor: float
    offset: float


def find_pair(graph: Subject, op: Operator) -> Pair:
    """Return the pair that gives the output of the QUANTIZE `op`; raise `UnsupportedError` if there is none."""
    target = graph.output(op)
    island = Island(graph, target.shape, most=2)
    expected = KERNELS["QUANTIZE"](op, graph.subgraph, [island.values(op.inputs[0])])[0].astype(np.int64)
    if len(island.sources) != 2 or any(each.dtype != "int8" for each in island.sources) or target.dtype != "int8":
        raise UnsupportedError("a pair must be two int8 tensors")
    first, second = island.sources
    if np.broadcast_shapes(first.shape, second.shape) != target.shape:
        raise UnsupportedError(f"{label(target)} has a different shape from its two tensors together")
    node = _find_node(island, op.inputs[0])
    kind = _NODES[node.op.op]
    one, other = _parts(island, node.op)
    if kind == "ADD":
        found = _sum(node, one, other if node.op.op == "ADD" else -other, target, expected)
    elif kind == "MUL":
        found = _product(node, one, other, target, expected)
    else:
        results = [KERNELS["QUANTIZE"](op, graph.subgraph, [
            island.assume(node.op.outputs[0], values).values(op.inputs[0])])[0].reshape(-1).astype(np.int64)
            for values in (one, other)]
        found = ((results[0], results[1]), 0, 0, 0)
    tables, multiplier, shift, zero_point = found
    made = settle(combine(kind, tables[0][:, None], tables[1][None, :]), multiplier, shift) + zero_point
    low, high = int(expected.min()), int(expected.max())
    wrong = int((np.clip(made, low, high) != expected).sum())
    if wrong:
        raise UnsupportedError(f"in fixed point {wrong} of 65536 pairs of codes of {label(first)} and {label(second)} "
                               "give a different result from float32")
    return Pair((first, second), tables, {"kind": kind, "multiplier": multiplier, "shift": shift,
                                          "zero_point": zero_point, "act_min": low, "act_max": high})


def _find_node(island: Island, index: int) -> _Node:
    """Return the operator that joins the two tensors; clamps and constants may follow it."""
    maker = island.graph.maker(index)
    assert maker is not None
    sizes = [island.values(each) for each in maker.inputs]
    if all(256 in values.shape for values in sizes) and len(sizes) == 2:
        if maker.op not in _NODES or any(values.shape == (256, 256) for values in sizes):
            raise UnsupportedError(f"operator {maker.index} ({maker.op}) is not a sum, difference, product, maximum "
                                   "or minimum of a function of each tensor")
        return _Node(maker, 1.0, 0.0)
    joined = next((position for position, values in enumerate(sizes) if values.shape == (256, 256)), None)
    if joined is None:
        raise UnsupportedError(f"operator {maker.index} ({maker.op}) does not join two tensors")
    inner = _find_node(island, maker.inputs[joined])
    constant = float(sizes[1 - joined].reshape(-1)[0]) if len(sizes) == 2 else 0.0
    if maker.op in (*_RELUS, "MAXIMUM", "MINIMUM"):
        return inner
    if maker.op in ("ADD", "SUB") and (joined == 0 or maker.op == "ADD"):
        return _Node(inner.op, inner.factor, inner.offset + (constant if maker.op == "ADD" else -constant))
    factor = {"MUL": constant, "DIV": 1 / constant if constant and not joined else 0.0}.get(maker.op, 0.0)
    if factor <= 0:
        raise UnsupportedError(f"operator {maker.index} ({maker.op}) after the two tensors are joined does not keep "
                               "their order")
    return _Node(inner.op, inner.factor * factor, inner.offset * factor)


def _parts(island: Island, op: Operator) -> tuple[Array, Array]:
    """Return the operands that are functions of the first and of the second source, in this order."""
    one, other = (island.values(index) for index in op.inputs)
    if one.shape == (1, 256) and op.op == "SUB":
        # The first source is the subtrahend.
        return -other, -one
    return (one, other) if one.shape[1] == 1 else (other, one)


_Found = tuple[tuple[IntArray, IntArray], int, int, int]


def _sum(node: _Node, one: Array, other: Array, target: Tensor, expected: IntArray) -> _Found:
    scale = node.factor / target.scale
    parts = [values.reshape(-1).astype(np.float64) * scale for values in (one, other)]
    parts[0] = parts[0] + node.offset / target.scale
    reach = sum(float(np.abs(part).max()) for part in parts) + 1
    bits = _BITS - math.ceil(math.log2(reach))
    if bits < 1:
        raise UnsupportedError(f"its sums have up to {reach:.0f} output scales")
    tables = [np.round(np.ldexp(part, bits)).astype(np.int64) for part in parts]
    low, high = int(expected.min()), int(expected.max())
    for number in range(_ROUNDS):
        made = tables[0][:, None] + tables[1][None, :]
        codes = np.clip(settle(made, 0, -bits) + target.zero_point, low, high)
        wrong = np.argwhere(codes != expected)
        if not 0 < len(wrong) <= _MOST_WRONG:
            break
        moves: dict[int, int] = {}
        side = number % 2
        for pair in wrong:
            wanted, here = int(expected[tuple(pair)]) - target.zero_point, int(made[tuple(pair)])
            rises = codes[tuple(pair)] < expected[tuple(pair)]
            move = (_least(wanted, bits) if rises else _least(wanted + 1, bits) - 1) - here
            at = int(pair[side])
            if abs(move) > abs(moves.get(at, 0)):
                moves[at] = move
        for at, move in moves.items():
            tables[side][at] += move
    return (tables[0], tables[1]), 0, -bits, target.zero_point


def _least(code: int, bits: int) -> int:
    """Return the least number that a right shift, rounding ties away from zero, turns into `code`."""
    half = 1 << (bits - 1)
    return (code << bits) - half if code > 0 else ((code - 1) << bits) + half + 1


def _whole(values: Array) -> tuple[IntArray, float]:
    """Return integers below 2^15 in proportion to the values, and the value of 1."""
    flat = values.reshape(-1).astype(np.float64)
    steps = np.abs(np.diff(np.unique(np.append(flat, 0.0))))
    most = float(np.abs(flat).max())
    if not most:
        raise UnsupportedError("a factor of its product is always 0")
    # The step has the rounding error of float32 at the largest value, so the unit is fitted to a multiple there.
    unit = most / round(most / float(steps.min()))
    numbers = np.round(flat / unit)
    if np.abs(numbers).max() >= 1 << 15 or np.abs(flat / unit - numbers).max() > 1e-3:
        raise UnsupportedError("the factors of its product are not multiples of one value")
    return numbers.astype(np.int64), unit


def _product(node: _Node, one: Array, other: Array, target: Tensor, expected: IntArray) -> _Found:
    (left, left_unit), (right, right_unit) = _whole(one), _whole(other)
    spare = max(_BITS - (int(np.abs(left).max()) * int(np.abs(right).max())).bit_length(), 0)
    left, right = left << spare // 2, right << spare - spare // 2
    real = left_unit * right_unit * node.factor / target.scale / (1 << spare)
    multiplier, shift = quantize_multiplier(real)
    if node.offset or not multiplier or not -31 <= shift <= 0:
        raise UnsupportedError(f"its products are {real:.3g} output scales" if not node.offset else
                               "a constant is added to its product")
    low, high = int(expected.min()), int(expected.max())
    made = left[:, None] * right[None, :]
    for changed in _multipliers(multiplier):
        if np.array_equal(np.clip(settle(made, changed, shift) + target.zero_point, low, high), expected):
            return (left, right), changed, shift, target.zero_point
    return (left, right), multiplier, shift, target.zero_point


def _multipliers(multiplier: int) -> Iterator[int]:
    return (multiplier + step for step in _STEPS if 1 << 30 <= multiplier + step < 1 << 31)
