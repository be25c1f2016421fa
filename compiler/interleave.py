"""The order in which layers are emitted: an elementwise layer runs under the layer that feeds it.

The vector unit has time while the array computes. When a layer is only read by the elementwise layer behind it, the
rectangles of both alternate: the second works on a rectangle while the array computes the first one's next. Tables
come into the vector unit during the layer before their user that leaves it most time.
"""

from collections.abc import Callable, Iterator

from tq_hw.compiler.emit import Emitter
from tq_hw.compiler.ir import Layer, Mac
from tq_hw.compiler.layout import blocked_words
from tq_hw.compiler.plan import LayerPlan, alternates

__all__ = ["emit_layers"]

#: Micro-operations of an array layer and the elementwise layer that alternates with it: neither may displace the other.
_PAIR_UOPS = 16
Emission = Callable[[Emitter, Layer, LayerPlan], Iterator[None]]


def _follows(emitter: Emitter, index: int) -> bool:
    """Whether the layer behind layer `index` may alternate with it: both are then cut into the same rows."""
    layers, plan = emitter.graph.layers, emitter.plan
    if index + 1 == len(layers) or not alternates(layers[index], layers[index + 1]):
        return False
    _, height, width, _ = layers[index].output.shape
    uncut = all(p.rows >= height and p.cols >= width for p in plan.layers[index:index + 2])
    return uncut and width <= emitter.config.acc_words and all(
        id(value) in plan.resident for value in (*layers[index + 1].inputs, layers[index].output,
                                                 layers[index + 1].output))


def _early_tables(emitter: Emitter) -> dict[int, list[Layer]]:
    """For each layer the layers whose tables are to be loaded during it."""
    config, layers = emitter.config, emitter.graph.layers
    early: dict[int, list[Layer]] = {}
    free = 0
    for index, layer in enumerate(layers):
        if not any(table is not None for table in getattr(layer, "tables", ())):
            continue
        last = index - 1 if index and _follows(emitter, index - 1) else index
        slack = {number: earlier.macs // config.macs - blocked_words(earlier.output, config) * config.beats_per_word
                 for number, earlier in enumerate(layers[free:last], free) if isinstance(earlier, Mac)}
        host = max(slack, key=lambda number: (slack[number], number), default=None)
        if host is not None and slack[host] > 0:
            early.setdefault(host, []).append(layer)
        free = index + 1
    return early


def emit_layers(emitter: Emitter, emission: Emission) -> None:
    """Emit all layers of the graph in an order that keeps array and vector unit busy together."""
    layers, plans = emitter.graph.layers, emitter.plan.layers
    early = _early_tables(emitter)
    index = 0
    while index < len(layers):
        emitter.layer_index = index
        steps = emission(emitter, layers[index], plans[index])
        for user in early.get(index, ()):
            if index == 0:
                next(steps, None)  # what the first layer needs is loaded first
            emitter.tables(user.tables)  # type: ignore[attr-defined]  # only layers with tables are users
        if _follows(emitter, index):
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
