"""A sequence of float32 operations on packed numbers, for functions of one number."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.compiler.rewrite.chains import code_tables
from tq_hw.compiler.rewrite.packed_elements import between, chosen
from tq_hw.compiler.rewrite.packing import Packed, Packing
from tq_hw.model.graph import Operator, Quantization, Tensor
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.packed_float import EXPONENT, packed

__all__ = ["FloatOperations"]


@dataclass(frozen=True)
class FloatOperations:
    """Float32 operations on tensors of one shape, added in the order of the calls."""

    packing: Packing
    op: Operator
    like: Tensor

    def number(self, value: float) -> Packed:
        """Return a number as a constant."""
        return self.packing.number(value)

    def mul(self, one: Packed, other: Packed) -> Packed:
        """Add a multiplication."""
        return self.packing.binary(self.op, "MUL", one, other, self.like)

    def add(self, one: Packed, other: Packed) -> Packed:
        """Add an addition."""
        return self.packing.binary(self.op, "ADD", one, other, self.like)

    def sub(self, one: Packed, other: Packed) -> Packed:
        """Add a subtraction."""
        return self.packing.binary(self.op, "SUB", one, other, self.like)

    def div(self, one: Packed, other: Packed) -> Packed:
        """Add a division by positive numbers."""
        return self.packing.binary(self.op, "DIV", one, other, self.like)

    def scaled(self, factor: float, one: Packed) -> Packed:
        """Add a multiplication by a constant."""
        return self.mul(self.number(factor), one)

    def between(self, one: Packed, low: float, high: float) -> Packed:
        """Add a clamp to low..high."""
        return between(self.packing, self.op, one, low, high)

    def chosen(self, name: str, part: Packed, limit: float, one: Packed, other: Packed) -> Packed:
        """Add a choice: `one` where `part` compares as `name` says with `limit`, else `other`."""
        return chosen(self.packing, self.op, (name, part, limit), one, other)

    def polynomial(self, x: Packed, factors: Sequence[float] | Float32) -> Packed:
        """Evaluate a polynomial by Horner's rule; `factors` begins with the highest power."""
        total = self.number(factors[0])
        for factor in factors[1:]:
            total = self.add(self.mul(total, x), self.number(factor))
        return total

    def table(self, codes: int, values: Float32) -> Packed:
        """Look up numbers by int8 codes."""
        words = self.packing.graph.add_constant(packed(values))
        return self.packing.add(self.op, "TABLE", (codes, words), self.like,
                                (float(values.min()), float(values.max())))

    def codes(self, numbers: Packed, zero_point: int) -> int:
        """Round numbers to the nearest integer, ties away from 0; return the index of the int8 tensor."""
        graph = self.packing.graph
        # The thresholds are those of a QUANTIZE with scale 1.
        made = graph.add_tensor(replace(self.like, dtype="int8", quantization=Quantization((1.0,), (zero_point,))))
        rounding = Operator(self.op.index, "QUANTIZE", self.op.inputs, (made,))
        tables, options = code_tables(graph, rounding, EXPONENT, 1)
        self.packing.new.append(Operator(
            self.op.index, "PACKED_CODES",
            (numbers.index, *(graph.add_constant(table.astype(np.int32)) for table in tables)), (made,), options))
        return made
