"""The order in which layers are emitted: an elementwise layer runs under the layer that feeds it.

The vector unit has time while the array computes. When a layer is only read by the elementwise layer behind it, the
rectangles of both alternate: the second works on a rectangle while the array computes the first one's next.
"""

from collections.abc import Callable, Iterator

from tq_hw.compiler.emit import Emitter
from tq_hw.compiler.ir import Layer
from tq_hw.compiler.plan import LayerPlan, alternates

__all__ = ["emit_layers"]

Emission = Callable[[Emitter, Layer, LayerPlan], Iterator[None]]


def _follows(emitter: Emitter, first: Layer, second: Layer) -> bool:
    """Whether `second` may alternate with `first`, rectangle by rectangle."""
    resident = emitter.plan.resident
    return alternates(first, second) and all(
        id(value) in resident for value in (*second.inputs, first.output, second.output))


def emit_layers(emitter: Emitter, emission: Emission) -> None:
    """Emit all layers of the graph in an order that keeps array and vector unit busy together."""
    layers, plans = emitter.graph.layers, emitter.plan.layers
    index = 0
    while index < len(layers):
        emitter.layer_index = index
        steps = emission(emitter, layers[index], plans[index])
        if index + 1 < len(layers) and _follows(emitter, layers[index], layers[index + 1]):
            follower = emission(emitter, layers[index + 1], plans[index + 1])
            # One rectangle behind: the first layer's next rectangle is in the array's queue before.
            next(steps, None)
            for _ in steps:
                emitter.layer_index = index + 1
                next(follower, None)
                emitter.layer_index = index
            index += 1
            emitter.layer_index = index
            steps = follower
        for _ in steps:
            pass
        index += 1
