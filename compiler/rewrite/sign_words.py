"""Signs of float32 numbers that packed numbers do not have: int32 words that are negative where the sign bit is set.

A tensor without -0 has its packed numbers as words. Signs of others follow from those of what they are computed from:
the sign of a product, also where it rounds to 0, is given by its factors.
"""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.rewrite.float_moves import moved
from tq_hw.compiler.rewrite.island import Island, label
from tq_hw.compiler.rewrite.packing import NO_MOVES, Packing
from tq_hw.compiler.rewrite.rewrite import changed
from tq_hw.compiler.rewrite.zero_signs import SIGNED, ZeroSigns
from tq_hw.model.errors import TqError, UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.arith import INT32_MIN, IntArray
from tq_hw.sim.golden.libm import Float32

__all__ = ["SignWords"]

#: Clamps: a zero keeps its sign, and a negative number becomes +0.
_CLAMPED = ("RELU", "RELU6", "RELU_0_TO_1")


class SignWords:
    """Words of the signs of a graph's float32 tensors; each must have packed numbers.

    Parameters
    ----------
    packing : the numbers; operators that compute words are added to it
    """

    def __init__(self, packing: Packing):
        self._packing, self._graph, self._zeros = packing, packing.graph, ZeroSigns(packing)
        self._known: dict[int, int] = {}

    def of(self, index: int) -> int:
        """Return the tensor of words; raise `UnsupportedError` if signs of zeros are not computed."""
        if index not in self._known:
            self._known[index] = self._find(index)
        return self._known[index]

    def _find(self, index: int) -> int:
        if not self._zeros.may_be_negative(index):
            return self._packing.packed(index).index
        tensor, maker = self._graph.tensors[index], self._graph.maker(index)
        if tensor.data is not None:
            return self._graph.add_constant(_words(np.asarray(tensor.data, np.float32)))
        if (found := self._table(index)) is not None:
            return found
        if maker is not None:
            if moved(self._graph, maker) and maker.op not in NO_MOVES:
                return self._moved(maker, index)
            rule = {**dict.fromkeys(SIGNED, self._product), **dict.fromkeys(_CLAMPED, self._clamped),
                    "RELU_N1_TO_1": self._limited, "SQRT": self._same, "MAXIMUM": self._extreme,
                    "MINIMUM": self._extreme, "PRELU": self._prelu, "MEAN": self._total, "ADD": self._sum,
                    "SUB": self._sum, "REDUCE_PROD": self._factors}.get(maker.op)
            if rule is not None and maker.options.get("fused_activation_function", "NONE") == "NONE":
                return rule(maker)
        raise UnsupportedError(f"{label(tensor)} may be -0, which float32 operators do not distinguish from 0")

    def _add(self, op: Operator, name: str, inputs: tuple[int, ...], dtype: str = "int32") -> int:
        """Add an operator whose result has the shape of the output of `op`."""
        output = self._graph.output(op)
        made = self._graph.add_tensor(Tensor(0, output.name, dtype, output.shape))
        self._packing.new.append(Operator(op.index, name, inputs, (made,)))
        return made

    def _table(self, index: int) -> int | None:
        """Return the words of a function of one int8 tensor, else None."""
        tensor, maker = self._graph.tensors[index], self._graph.maker(index)
        island = Island(self._graph, tensor.shape)
        try:
            values = np.broadcast_to(np.asarray(island.values(index), np.float32), (256,))
        except (TqError, ValueError):
            return None
        if maker is None or [each.dtype for each in island.sources] != ["int8"]:
            return None
        return self._add(maker, "TABLE", (island.sources[0].index, self._graph.add_constant(_words(values))))

    def _moved(self, op: Operator, index: int) -> int:
        inputs = list(op.inputs)
        for position in moved(self._graph, op):
            inputs[position] = self._whole(op.inputs[position])
        tensors = [self._graph.tensors[each] for each in op.outputs]
        outputs = [self._graph.add_tensor(Tensor(0, each.name, "int32", each.shape)) for each in tensors]
        self._packing.new.append(changed(op, inputs=inputs, outputs=outputs))
        self._known |= dict(zip(op.outputs, outputs, strict=True))
        return self._known[index]

    def _whole(self, index: int) -> int:
        """Return words in the shape of their tensor: those of a factor may be broadcast."""
        found, maker = self.of(index), self._graph.maker(index)
        if self._graph.tensors[found].shape == self._graph.tensors[index].shape or maker is None:
            return found
        return self._add(maker, "PACKED_SIGN", (found, self._constant(0)))

    def _constant(self, word: int) -> int:
        return self._graph.add_constant(np.array(word, np.int32))

    def _product(self, op: Operator) -> int:
        """The sign of one input, or of the product of two; NEG has the other sign."""
        words = [self.of(each) for each in op.inputs[:SIGNED[op.op]]]
        if op.op == "NEG":
            words.append(self._constant(-1))
        return self._add(op, "PACKED_SIGN", (words[0], words[1])) if len(words) > 1 else words[0]

    def _factors(self, op: Operator) -> int:
        """The product of 1 and -1 has the sign of a product along axes."""
        source, words = self._graph.input(op), self._whole(op.inputs[0])
        is_negative, ones = (self._graph.add_tensor(Tensor(0, source.name, dtype, source.shape))
                             for dtype in ("bool", "int32"))
        self._packing.new += [
            Operator(op.index, "LESS", (words, self._constant(0)), (is_negative,)),
            Operator(op.index, "SELECT_V2", (is_negative, self._constant(-1), self._constant(1)), (ones,))]
        made = self._add(op, op.op, (ones, *op.inputs[1:]))
        self._packing.new[-1] = replace(self._packing.new[-1], options=op.options)
        return made

    def _same(self, op: Operator) -> int:
        return self.of(op.inputs[0])

    def _if_zero(self, op: Operator, number: int, zero: int, other: int) -> int:
        """Choose the words `zero` where packed numbers are 0."""
        is_zero = self._add(op, "EQUAL", (number, self._constant(0)), "bool")
        return self._add(op, "SELECT_V2", (is_zero, zero, other))

    def _clamped(self, op: Operator) -> int:
        source = op.inputs[0]
        return self._if_zero(op, self._packing.packed(source).index, self._whole(source),
                             self._packing.packed(op.outputs[0]).index)

    def _limited(self, op: Operator) -> int:
        number = self._packing.packed(op.outputs[0]).index
        return self._if_zero(op, number, self._whole(op.inputs[0]), number)

    def _extreme(self, op: Operator) -> int:
        """The first number where it is larger, or smaller, else the second one."""
        name = "LESS" if op.op == "MINIMUM" else "GREATER"
        return self._chosen(op, name, op.inputs[1], (self.of(op.inputs[0]), self.of(op.inputs[1])))

    def _prelu(self, op: Operator) -> int:
        """The product where a number is negative, else the number."""
        one, slope = (self.of(each) for each in op.inputs)
        zero = self._graph.add_constant(np.array(0, np.float32))
        return self._chosen(op, "LESS", zero, (self._add(op, "PACKED_SIGN", (one, slope)), one))

    def _chosen(self, op: Operator, name: str, other: int, words: tuple[int, int]) -> int:
        """Choose words by a comparison of the first input with another tensor."""
        keys = []
        for index in (op.inputs[0], other):
            part = self._packing.packed(index)
            keys.append(self._packing.add(op, "PACKED_KEY", (part.index,), self._graph.tensors[index],
                                          (part.low, part.high)).index)
        return self._add(op, "SELECT_V2", (self._add(op, name, (keys[0], keys[1]), "bool"), *words))

    def _total(self, op: Operator) -> int:
        """The sign of a mean is that of its sum, which starts from +0."""
        self._packing.packed(op.outputs[0])
        return self._packing.totals[op.outputs[0]].index

    def _sum(self, op: Operator) -> int:
        """A sum of zeros is -0 if all of them are -0."""
        one, other = (self.of(each) for each in op.inputs)
        if op.op == "SUB":
            other = self._add(op, "PACKED_SIGN", (other, self._constant(-1)))
        number = self._packing.packed(op.outputs[0]).index
        return self._if_zero(op, number, self._add(op, "MAXIMUM", (one, other)), number)


def _words(values: Float32) -> IntArray:
    return np.where(np.signbit(values), INT32_MIN, 0).astype(np.int32)
