"""Live layers: those that outputs, or states read by the next inference or by another layer, depend on."""

from collections import Counter
from collections.abc import Sequence

from tq_hw.compiler.ir.layers import Layer
from tq_hw.compiler.ir.lstm import Lstm
from tq_hw.compiler.ir.value import Value

__all__ = ["live"]


def live(layers: Sequence[Layer], outputs: Sequence[Value]) -> tuple[Layer, ...]:
    """Remove layers that no output and no state depends on (such as an absorbed PAD)."""
    wanted = {value.root for value in outputs} | set(outputs)
    wanted |= {layer.output for layer in layers if layer.output.initial is not None}
    # An LSTM updates its inputs: others may read its states even if its output is unused.
    readers = Counter(value for layer in layers for value in {value.root for value in layer.inputs})
    kept: list[Layer] = []
    for layer in reversed(layers):
        changed = [value.root for value in layer.inputs if value.root.initial is not None] if isinstance(
            layer, Lstm) else []
        if layer.output in wanted or any(value in wanted or readers[value] > 1 for value in changed):
            kept.append(layer)
            for value in layer.inputs:
                wanted |= {value, value.root}
    return tuple(reversed(kept))
