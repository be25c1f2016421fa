"""A byte of each pixel that all channels share: one word of equal bytes, which all blocks of channels read.

Normalizations subtract such a byte and multiply by one. A convolution with weights of 1 broadcasts it to all channels
(`lower/spread.py`). Here it computes one word, not a word for each block. If the byte is a sum of the array, or its
table, the sum is computed in all channels of a word at once, and there is no broadcast.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer, Mac
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import blocked_words
from tq_hw.compiler.specialize.fuse import MOST_BEATS
from tq_hw.compiler.specialize.packed_tables import table_alone
from tq_hw.compiler.specialize.spread_products import is_spread, repeated
from tq_hw.isa.config import Config

__all__ = ["spread_words"]


def spread_words(graph: Graph, config: Config) -> Graph:
    """Return the graph in which elementwise layers read broadcast bytes from one word of each pixel."""
    words = _Words(graph, config)
    for number, layer in enumerate(graph.layers):
        if words.narrows(number):
            words.narrow(number)
        elif isinstance(layer, Mac) and layer.output.shape[3] == 1:
            words.compute(number)
    return replace(graph, layers=tuple(words.layers()))


@dataclass
class _Words:
    graph: Graph
    config: Config

    def __post_init__(self) -> None:
        self._layers: list[Layer | None] = list(self.graph.layers)
        self._new: dict[Value, Value] = {}
        self._readers: dict[Value, list[int]] = {}
        named = list(self.graph.outputs)
        for number, layer in enumerate(self.graph.layers):
            named += [*layer.inputs, layer.output]
            for value in dict.fromkeys(layer.inputs):
                self._readers.setdefault(value, []).append(number)
        #: Values that others see by another name, and the model's outputs.
        self._kept = {value.root for value in named if value.root is not value} | set(self.graph.outputs)

    def layers(self) -> Sequence[Layer]:
        """Return the layers with all changes."""
        return [replace(layer, inputs=tuple(self._new.get(value, value) for value in layer.inputs))
                if any(value in self._new for value in layer.inputs) else layer
                for layer in self._layers if layer is not None]

    def _is_own(self, value: Value) -> bool:
        return value not in self._kept and value.alias_of is None and value.initial is None

    def narrows(self, number: int) -> bool:
        """Whether a layer broadcasts a byte, and only larger elementwise layers of its shape read the result."""
        layer = self.graph.layers[number]
        if not is_spread(layer) or not self._is_own(layer.output):
            return False
        readers = [self.graph.layers[reader] for reader in self._readers.get(layer.output, ())]
        return bool(readers) and all(isinstance(reader, Elementwise) and reader.output.shape == layer.output.shape
                                     for reader in readers) and (
            blocked_words(layer.output, self.config) * self.config.beats_per_word > MOST_BEATS)

    def _word(self, value: Value, channels: int) -> Value:
        """Return a value with the same byte in all channels of a word."""
        return replace(value, name=f"{value.name} (in each channel)",
                       shape=(*value.shape[:3], min(channels, self.config.block)))

    def narrow(self, number: int) -> None:
        """Let a broadcast write one word of each pixel, unless it is gone."""
        layer = self._layers[number]
        if not isinstance(layer, Mac) or layer.output.shape[3] <= self.config.block:
            return
        word = self._word(layer.output, layer.output.shape[3])
        self._new[layer.output] = word
        self._layers[number] = repeated(replace(layer, weights=layer.weights[:1], bias=layer.bias[:1],
                                                multiplier=layer.multiplier[:1], shift=layer.shift[:1]), word)

    def compute(self, number: int) -> None:
        """Let a layer compute its byte in all channels if only broadcasts read it, or tables that only these read."""
        layer = self._layers[number]
        found = self._uses(number)
        if not isinstance(layer, Mac) or layer.depthwise or layer.region is not None or found is None:
            return
        tables, spreads = found
        channels = self.graph.layers[spreads[0]].output.shape[3]
        for at in (number, *tables):
            value = self.graph.layers[at].output
            self._new[value] = self._word(value, channels)
        self._layers[number] = repeated(layer, self._new[layer.output])
        for at in tables:
            table = self.graph.layers[at]
            self._layers[at] = replace(table, output=self._new[table.output])
        for at in spreads:
            spread = self.graph.layers[at]
            self._new[spread.output] = self._new[spread.inputs[0]]
            self._layers[at] = None

    def _uses(self, number: int) -> tuple[list[int], list[int]] | None:
        """Return the tables and the broadcasts of a layer's byte, to one number of channels; None if others read it."""
        value, tables, spreads = self.graph.layers[number].output, list[int](), list[int]()
        if not self._is_own(value):
            return None
        for reader in self._readers.get(value, ()):
            layer = self.graph.layers[reader]
            if self.narrows(reader):
                spreads.append(reader)
                continue
            found = self._uses(reader) if table_alone(layer) is not None else None
            if found is None:
                return None
            tables += [reader, *found[0]]
            spreads += found[1]
        counts = {self.graph.layers[at].output.shape[3] for at in spreads}
        return (tables, spreads) if len(counts) == 1 else None
