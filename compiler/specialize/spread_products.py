"""A byte of each pixel times a constant of each channel: a convolution, instead of a broadcast and a product.

Normalizations have such products: the reciprocal root of a pixel's variance times gamma. A constant less its zero point
has nine bits. The byte is therefore computed two or three times, in channels that its words have anyway, and the
weights of these channels sum to the constant.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer, Mac
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.specialize.packed_tables import table_alone
from tq_hw.isa.uop import Multiply

__all__ = ["is_spread", "repeated", "spread_products"]

_INT8_MAX = 127


@dataclass(frozen=True)
class _Product:
    """A replacement of layers.

    Members
    -------
    drop : number of the layer that broadcasts the byte, which is removed
    layers : the new layers, by number
    """

    drop: int
    layers: dict[int, Layer]


def is_spread(layer: Layer) -> bool:
    """Whether a layer broadcasts one byte to all channels."""
    return (isinstance(layer, Mac) and layer.rounding == "shift" and not layer.depthwise
            and layer.weights.shape[1:] == (1, 1, 1) and bool((layer.weights == 1).all())
            and layer.inputs[0].shape[:3] == layer.output.shape[:3] and not layer.bias.any() and not layer.shift.any()
            and (layer.zero_point, layer.act_min, layer.act_max) == (0, -128, _INT8_MAX))


def _factors(layer: Elementwise, position: int) -> IntArray | None:
    """Return the constants per channel, less their zero point, at `position` of a product; None for other layers."""
    value, table = layer.inputs[position], layer.tables[position]
    if (layer.op != "MUL" or layer.uop.get("multiply") != Multiply.LOW_B or len(layer.rest) != 1 or value.data is None
            or table is None or value.data.size != value.size_bytes):
        return None
    by_pixel = value.data.reshape(-1, value.shape[3])
    if (by_pixel != by_pixel[0]).any():
        return None
    factors: IntArray = table[by_pixel[0].astype(np.int8).view(np.uint8)]
    return factors


def _split(factors: IntArray) -> IntArray:
    """Return int8 weights [channel, part] that sum to the factors."""
    parts = max(1, -(-int(np.abs(factors).max()) // _INT8_MAX))
    ends = factors[:, None] * np.arange(parts + 1) // parts
    return np.diff(ends, axis=1)


def repeated(layer: Mac, output: Value) -> Mac:
    """Return a layer of one channel that computes it in all channels of `output`."""
    count = output.shape[3]
    wide = layer.wide and replace(layer.wide, high=np.repeat(layer.wide.high, count),
                                  low=np.repeat(layer.wide.low, count))
    useful = layer.weights.size if layer.useful_weights is None else layer.useful_weights
    return replace(layer, output=output, weights=np.repeat(layer.weights, count, axis=0),
                   bias=np.repeat(layer.bias, count), multiplier=np.repeat(layer.multiplier, count),
                   shift=np.repeat(layer.shift, count), useful_weights=useful, wide=wide)


def _wider(value: Value, count: int, op: str) -> Value:
    return replace(value, name=f"{value.name} ({op}, {count} times)", shape=(*value.shape[:3], count))


def _makers(layers: Sequence[Layer], made: dict[Value, int], once: Counter[Value], value: Value,
            count: int, op: str) -> dict[int, Layer] | None:
    """Return the layers that compute a byte, changed to compute it `count` times: a sum of the array, or its table."""
    def alone(value: Value) -> bool:
        return (value in made and once[value] == 1 and value.alias_of is None and value.pitch is None
                and value.shape[3] == 1)
    if not alone(value):
        return None
    layer = layers[made[value]]
    table = None
    if isinstance(layer, Elementwise) and table_alone(layer) is not None and alone(layer.inputs[0]):
        table, layer = layer, layers[made[layer.inputs[0]]]
    if not isinstance(layer, Mac) or layer.depthwise or layer.region is not None or layer.input_table is not None:
        return None
    found: dict[int, Layer] = {made[layer.output]: repeated(layer, _wider(layer.output, count, op))}
    if table is not None:
        found[made[value]] = replace(table, inputs=(found[made[layer.output]].output,),
                                     output=_wider(value, count, op))
    return found


def _product(layers: Sequence[Layer], number: int, made: dict[Value, int], once: Counter[Value]) -> _Product | None:
    layer = layers[number]
    if not isinstance(layer, Elementwise) or len(layer.inputs) != 2:
        return None
    for position, (value, table) in enumerate(zip(layer.inputs, layer.tables, strict=True)):
        factors = _factors(layer, 1 - position)
        if factors is None or table is None or value not in made or once[value] != 1:
            continue
        spreads = layers[made[value]]
        if not is_spread(spreads) or value.shape != layer.output.shape:
            continue
        weights, source = _split(factors), spreads.inputs[0]
        changed: dict[int, Layer] = {}
        if weights.shape[1] > 1:
            makers = _makers(layers, made, once, source, weights.shape[1], layer.op)
            if makers is None:
                return None
            changed |= makers
            source = changed[made[source]].output
        out, zero_point = layer.rest[0], int(-table[0])
        every = np.ones(len(factors), np.int64)
        changed[number] = Mac(
            layer.index, layer.op, (source,), layer.output, False, weights.astype(np.int8)[:, None, None, :],
            -zero_point * factors, every * out["immediate"], every * out["shift"], (1, 1), (1, 1), (0, 0), zero_point,
            out["zero_point"], out["act_min"], out["act_max"], useful_weights=0)
        return _Product(made[value], changed)
    return None


def spread_products(graph: Graph) -> Graph:
    """Return the graph with products of a broadcast byte and constants as convolutions, where possible."""
    layers: list[Layer] = list(graph.layers)
    made = {layer.output: number for number, layer in enumerate(layers)}
    once = Counter(value for layer in layers for value in layer.inputs)
    once.update(graph.outputs)
    # Views count as uses of their root.
    named = [*graph.outputs, *(value for layer in layers for value in (*layer.inputs, layer.output))]
    once.update(value.root for value in named if value.root is not value)
    dropped = set()
    for number in range(len(layers)):
        found = _product(layers, number, made, once)
        if found is not None:
            dropped.add(found.drop)
            for at, layer in found.layers.items():
                layers[at] = layer
                made[layer.output] = at
    return replace(graph, layers=tuple(layer for number, layer in enumerate(layers) if number not in dropped))
