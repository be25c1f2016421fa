"""An elementwise layer after a convolution: its program goes on with the results, which stay in registers.

A dense layer over the tokens of a transformer has its bias in an addition of its own. As a layer, it reads every word
and writes it again, after the array is done. In the convolution's program it takes as many beats, but while the array
computes.
"""

from collections.abc import Sequence
from dataclasses import replace

from tq_hw.compiler.ir.layers import After, Elementwise, Graph, Layer, Mac
from tq_hw.compiler.specialize.values import Users
from tq_hw.isa.config import Config
from tq_hw.isa.latency import UOP_WAIT_CYCLES

__all__ = ["join_results"]


def join_results(graph: Graph, layers: Sequence[Layer], config: Config) -> list[Layer]:
    """Return the layers of a graph without the elementwise layers that convolutions absorb."""
    users, gone, joined = Users(graph, layers), set[Layer](), dict[Layer, Layer]()
    for layer in layers:
        found = _joined(users, layer, config) if isinstance(layer, Elementwise) and len(layer.inputs) == 2 else None
        if found is not None:
            gone.add(layer)
            joined[found[0]] = found[1]
    return [joined.get(layer, layer) for layer in layers if layer not in gone]


def _joined(users: Users, layer: Elementwise, config: Config) -> tuple[Mac, Mac] | None:
    """Return the convolution whose results a layer reads, and that convolution with the layer; None if there is none.

    The other operand is a constant. With a residual it would cost the cascades that such layers cannot be in.
    """
    for position, value in enumerate(layer.inputs):
        mac, other = users.maker(value), layer.inputs[1 - position]
        if (isinstance(mac, Mac) and _is_plain(mac) and value is mac.output and value.shape == layer.output.shape
                and other.shape[3] == value.shape[3] and other.data is not None
                and _beats(mac, config) >= UOP_WAIT_CYCLES
                and all(each.root.initial is None for each in (*layer.inputs, layer.output))):
            return mac, replace(mac, inputs=(*mac.inputs, other), output=layer.output, after=After(
                (layer.uop, *layer.rest), layer.tables, position))
    return None


def _beats(mac: Mac, config: Config) -> int:
    """Return the beats of the micro-operations of a tile: with few, each waits for the one before it."""
    _, h, w, _ = mac.output.shape
    return min(h * w, config.acc_words) * config.beats_per_acc_word


def _is_plain(mac: Mac) -> bool:
    """Whether a layer is a product of each pixel's channels, with a program of a micro-operation or two."""
    return (not mac.depthwise and mac.kernel == mac.stride == (1, 1) and mac.region is None and mac.wide is None
            and all(table is None for table in mac.tables))
