"""Float32 tensors as packed numbers (`sim/golden/packed_float.py`), with bounds.

A function of one int8 tensor is a table; other operators are computed in the order of LiteRT's kernels. Each tensor has
bounds, which prove that packed numbers are finite, arguments of a square root not negative, and divisors positive.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.compiler.rewrite.bounds import LEAST_LENGTH, deviations, is_of_integers, share_of_length, widened
from tq_hw.compiler.rewrite.chains import code_tables
from tq_hw.compiler.rewrite.float_moves import moved
from tq_hw.compiler.rewrite.island import Island, label, uncomputed
from tq_hw.compiler.rewrite.part_bounds import part_bounds
from tq_hw.compiler.rewrite.power_sums import adds_up_to_one, is_below_largest
from tq_hw.compiler.rewrite.rewrite import Subject, changed
from tq_hw.model.errors import TqError, UnsupportedError
from tq_hw.model.graph import Operator, OptionValue, Tensor
from tq_hw.model.rules.signatures import FLOAT_REDUCTIONS
from tq_hw.sim.golden.packed_float import EXPONENT, LIMIT, MOST_POWER, packed
from tq_hw.sim.golden.reduce import axes
from tq_hw.sim.golden.registry import Array, bool_option

__all__ = ["NO_MOVES", "Packed", "Packing", "Rows", "plain"]

#: Moves that compare numbers, or that do not exist for int32.
NO_MOVES = ("REDUCE_MAX", "REDUCE_MIN", "RESIZE_NEAREST_NEIGHBOR")
#: Moves that add zeros.
_PADS = ("PAD", "SPACE_TO_BATCH_ND")
_BINARY = {"ADD": "PACKED_ADD", "SUB": "PACKED_SUB", "MUL": "PACKED_MUL", "DIV": "PACKED_DIV"}
#: Scales from 0 beyond which a number has the first or the last code.
_FAR = 2.0**20
#: e^x is 0 for x below minus this.
_MOST_BELOW = 200.0


@dataclass(frozen=True)
class Packed:
    """A tensor of packed numbers and their bounds."""

    index: int
    low: float
    high: float


class Packing:
    """Packed numbers of float32 tensors, computed on demand.

    Attributes
    ----------
    rows : functions that compute further operators, by name
    new : the operators that compute the numbers
    totals : sums before they are divided, by the index of a MEAN's output
    masks : numbers of masks (`packed_masks.py`), by the index of a tensor
    """

    def __init__(self, graph: Subject, rows: "Mapping[str, Rows]"):
        self.graph, self.rows = graph, rows
        self.new: list[Operator] = []
        self.totals: dict[int, Packed] = {}
        self.masks: dict[int, Packed] = {}
        self._known: dict[int, Packed] = {}

    def codes(self, op: Operator) -> None:
        """Add operators that compute the output of the QUANTIZE `op`; raise `TqError` with the reason if none do."""
        target = self.graph.output(op)
        if target.dtype not in ("int8", "int16"):
            raise UnsupportedError(f"{label(target)} is {target.dtype}; float32 must become int8 or int16")
        source = self.packed(op.inputs[0])
        if max(-source.low, source.high) >= target.scale * 2**31:
            if not is_of_integers(self.graph, op.inputs[0]):
                raise UnsupportedError(f"{label(self.graph.input(op))} may be 2^31 times the scale of {label(target)}")
            source = self._saturated(op, source)
        if target.dtype == "int16":
            self.new.append(Operator(op.index, "PACKED_ROUND", (self._quotient(op, source).index,), op.outputs))
            return
        tables, options = code_tables(self.graph, op, EXPONENT, 1)
        inputs = (source.index, *(self.graph.add_constant(table.astype(np.int32)) for table in tables))
        self.new.append(Operator(op.index, "PACKED_CODES", inputs, op.outputs, options))

    def _saturated(self, op: Operator, part: Packed) -> Packed:
        """Add a clamp to numbers whose codes are the first and the last; the engines define none from 2^31 scales."""
        like, most = self.graph.input(op), self.graph.output(op).scale * _FAR
        for name, limit in (("PACKED_MAX", self.number(-most)), ("PACKED_MIN", self.number(most))):
            part = self.add(op, name, (part.index, limit.index), like,
                            (max(part.low, -most), min(part.high, most)))
        return part

    def _quotient(self, op: Operator, source: Packed) -> Packed:
        """Add the division of the QUANTIZE `op` by its scale."""
        target = self.graph.output(op)
        if target.zero_point:
            raise UnsupportedError(f"{label(target)} has zero point {target.zero_point}, int16 must have 0 here")
        return self.binary(plain(op), "DIV", source, self.number(target.scale), self.graph.input(op))

    def finite(self, values: Array) -> Array:
        """Return numbers in place of those that packed numbers cannot hold; here none."""
        return values

    def number(self, value: float) -> Packed:
        """Return a constant."""
        single = np.array(value, np.float32)
        return Packed(self.graph.add_constant(packed(single)), float(single), float(single))

    def packed(self, index: int) -> Packed:
        """Return a tensor's packed numbers; raise `TqError` with the reason if there are none."""
        if index not in self._known:
            self._known[index] = self._table(index) or self._computed(index)
        return self._known[index]

    def _table(self, index: int) -> Packed | None:
        """Return a constant, or a function of one tensor of int8 or bool, None for another tensor."""
        tensor = self.graph.tensors[index]
        if 0 in tensor.shape:
            raise UnsupportedError(f"{label(tensor)} is empty")
        if tensor.data is not None:
            data = self.finite(tensor.data)
            low, high = _checked(tensor, float(data.min()), float(data.max()))
            return Packed(self.graph.add_constant(packed(data)), low, high)
        island = Island(self.graph, tensor.shape)
        try:
            found = island.values(index)
        except TqError:
            return None
        if not island.sources or island.sources[0].dtype not in ("int8", "bool"):
            return None
        values = self.finite(np.broadcast_to(found, (256,)).astype(np.float32))
        low, high = _checked(tensor, float(values.min()), float(values.max()))
        made = self.graph.add_tensor(_like(tensor))
        maker = self.graph.maker(index)
        assert maker is not None
        self.new.append(Operator(maker.index, "TABLE", (island.sources[0].index,
                                                        self.graph.add_constant(packed(values))), (made,)))
        return Packed(made, low, high)

    def _computed(self, index: int) -> Packed:
        tensor, maker = self.graph.tensors[index], self.graph.maker(index)
        if maker is None or tensor.dtype != "float32":
            raise UnsupportedError(f"{label(tensor)} is {tensor.dtype}, not quantized")
        if moved(self.graph, maker) and maker.op not in NO_MOVES:
            return self._moved(index, maker)
        if maker.op in self.rows:
            return self.rows[maker.op](self, maker)
        if maker.op in ("SQUARED_DIFFERENCE", "SQUARE"):
            one = self.packed(maker.inputs[0])
            if maker.op == "SQUARED_DIFFERENCE":
                one = self.binary(maker, "SUB", one, self.packed(maker.inputs[1]), tensor)
            return self.binary(maker, "MUL", one, one, tensor)
        if maker.op in FLOAT_REDUCTIONS:
            return self._reduced(maker, tensor)
        if maker.op in ("RSQRT", "SQRT"):
            return self.root(maker, tensor)
        if maker.op == "RELU":
            return self.positive(maker, self.packed(maker.inputs[0]), tensor)
        raise uncomputed(maker)

    def add(self, op: Operator, name: str, inputs: Sequence[int], like: Tensor, bounds: tuple[float, float],
            options: dict[str, OptionValue] | None = None) -> Packed:
        """Add an operator of packed numbers."""
        low, high = _checked(like, *bounds)
        made = self.graph.add_tensor(_like(like))
        self.new.append(Operator(op.index, name, tuple(inputs), (made,), options or {}))
        return Packed(made, low, high)

    def of_two(self, op: Operator) -> Packed:
        """Add ADD, SUB, MUL or DIV, with the bounds of normalized vectors where they apply (`bounds.py`)."""
        one, other = self.packed(op.inputs[0]), self.packed(op.inputs[1])
        made = self.binary(op, op.op, one, other, self.graph.output(op))
        most = share_of_length(self.graph, op, positive=one.low >= 0)
        if made.high > 0 and is_below_largest(self.graph, op):
            return replace(made, high=0.0)
        apart = deviations(self.graph, op)
        if apart is not None:
            # Both operands were rounded before.
            most = apart + 2**-20 * max(-one.low, one.high, -other.low, other.high)
            return replace(made, low=max(made.low, -most), high=min(made.high, most))
        is_long = other.low >= LEAST_LENGTH if op.op == "DIV" else max(one.high, other.high) <= 1 / LEAST_LENGTH
        if most is None or not is_long:
            return made
        return replace(made, low=max(made.low, -most), high=min(made.high, most))

    def binary(self, op: Operator, name: str, one: Packed, other: Packed, like: Tensor) -> Packed:
        """Add an elementwise operation of two tensors, and its RELU unless it is DIV."""
        relu = op.options.get("fused_activation_function") == "RELU"
        if name == "DIV" and other.low <= 0:
            raise UnsupportedError(f"{label(self.graph.input(op, 1))}, the divisor of operator {op.index} (DIV), may "
                                   "be 0 or negative")
        ends = {"ADD": (one.low + other.low, one.high + other.high),
                "SUB": (one.low - other.high, one.high - other.low)}.get(name) or [
                    left / right if name == "DIV" else left * right
                    for left in (one.low, one.high) for right in (other.low, other.high)]
        bounds = widened(min(ends), max(ends))
        if name == "MUL" and one is other:
            bounds = 0.0 if one.low <= 0 <= one.high else bounds[0], bounds[1]
        if relu:
            bounds = max(bounds[0], 0.0), max(bounds[1], 0.0)
        return self.add(op, _BINARY[name], (one.index, other.index), like, bounds, {"relu": relu})

    def _reduced(self, op: Operator, tensor: Tensor) -> Packed:
        source, along = self.graph.input(op), self.graph.constant(op, 1)
        if along is None:
            raise UnsupportedError(f"operator {op.index} ({op.op}) has computed axes")
        count = math.prod(source.shape[axis] for axis in axes(along, len(source.shape)))
        if op.op == "REDUCE_PROD":
            return self._multiplied(op, self.packed(source.index), count, along, tensor)
        total = self.summed(op, self.packed(source.index), count, along, tensor,
                            keep_dims=bool_option(op, "keep_dims"))
        if op.op == "SUM":
            return replace(total, low=1.0) if total.low < 1 and adds_up_to_one(self.graph, op) else total
        self.totals[op.outputs[0]] = total
        return self.binary(plain(op), "DIV", total, self.number(count), tensor)

    def summed(self, op: Operator, part: Packed, count: int, along: Array, like: Tensor, *, keep_dims: bool) -> Packed:
        """Add sequential sums of `count` numbers over axes."""
        bounds = widened(count * part.low, count * part.high, count)
        return self.add(op, "PACKED_SUM", (part.index, self.graph.add_constant(along)), like, bounds,
                        {"keep_dims": keep_dims})

    def _multiplied(self, op: Operator, part: Packed, count: int, along: Array, like: Tensor) -> Packed:
        """Add sequential products of `count` numbers over axes."""
        def power(number: float) -> float:
            return math.exp(min(count * math.log(number), 500.0)) if number > 0 else 0.0
        most = power(max(-part.low, part.high)) * (1 + 2.0**-20)
        bounds = widened(-most if part.low < 0 else power(part.low) / (1 + 2.0**-20), most, count)
        return self.add(op, "PACKED_PROD", (part.index, self.graph.add_constant(along)), like, bounds,
                        {"keep_dims": bool_option(op, "keep_dims")})

    def extreme(self, op: Operator, part: Packed, along: Array, like: Tensor, row: Tensor, name: str, *,
                keep_dims: bool) -> Packed:
        """Add REDUCE_MAX or REDUCE_MIN over axes of a tensor like `like`, to one like `row`."""
        bounds = part.low, part.high
        keys = self.add(op, "PACKED_KEY", (part.index,), like, bounds)
        most = self.add(op, name, (keys.index, self.graph.add_constant(along)), row, bounds,
                        {"keep_dims": keep_dims})
        return self.add(op, "PACKED_OF_KEY", (most.index,), row, bounds)

    def root(self, op: Operator, tensor: Tensor) -> Packed:
        """Add SQRT, RSQRT or POW, x^0.5."""
        source = self.packed(op.inputs[0])
        if source.low < 0 or (op.op == "RSQRT" and source.low == 0):
            raise UnsupportedError(f"{label(self.graph.input(op))} may be {'0 or ' * (op.op == 'RSQRT')}negative")
        low, high = math.sqrt(source.low), math.sqrt(source.high)
        bounds = (1 / high, 1 / low) if op.op == "RSQRT" else (low, high)
        return self.add(op, f"PACKED_{op.op}", (source.index,), tensor, widened(*bounds, 2))

    def power(self, op: Operator, part: Packed, like: Tensor) -> Packed:
        """Add e^x."""
        if part.high > MOST_POWER:
            raise UnsupportedError(f"operator {op.index} ({op.op}) is e^x of a value that may be {part.high:.3g}, more "
                                   f"than {MOST_POWER}")
        # One more rounding, because the library's error is slightly more than half a unit in the last place.
        bounds = widened(math.exp(max(part.low, -_MOST_BELOW)), math.exp(part.high), 2)
        return self.add(op, "PACKED_EXP", (part.index,), like, bounds)

    def positive(self, op: Operator, part: Packed, like: Tensor) -> Packed:
        """Add RELU, as a maximum of int32: negative numbers are negative int32."""
        zero = self.graph.add_constant(np.zeros((), np.int32))
        return self.add(op, "MAXIMUM", (part.index, zero), like, (max(part.low, 0), max(part.high, 0)))

    def _bounds(self, index: int) -> tuple[float, float]:
        part = self.packed(index)
        return part.low, part.high

    def _moved(self, index: int, op: Operator) -> Packed:
        inputs, parts = list(op.inputs), []
        for position in moved(self.graph, op):
            parts.append(self.packed(op.inputs[position]))
            inputs[position] = parts[-1].index
        zeros = [0.0] * (op.op in _PADS)
        low, high = min([*(part.low for part in parts), *zeros]), max([*(part.high for part in parts), *zeros])
        if (some := part_bounds(self.graph, op, self._bounds)) is not None:
            low, high = max(low, some[0]), min(high, some[1])
        outputs = [self.graph.add_tensor(_like(self.graph.tensors[each])) for each in op.outputs]
        self.new.append(changed(op, inputs=inputs, outputs=outputs))
        self._known |= {old: Packed(new, low, high) for old, new in zip(op.outputs, outputs, strict=True)}
        return self._known[index]


#: A function that computes the result of an operator.
Rows = Callable[[Packing, Operator], Packed]


def plain(op: Operator) -> Operator:
    """Return an operator without options, so that its steps have no activation."""
    return replace(op, options={})


def _like(tensor: Tensor) -> Tensor:
    return Tensor(0, tensor.name, "int32", tensor.shape)


def _checked(tensor: Tensor, low: float, high: float) -> tuple[float, float]:
    if math.isnan(low) or math.isnan(high):
        raise UnsupportedError(f"{label(tensor)} is NaN for some codes")
    if not max(-low, high) < LIMIT:
        raise UnsupportedError(f"{label(tensor)} may be {max(-low, high):.3g}, more than float32 operators support")
    return low, high
