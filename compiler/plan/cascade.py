"""Cascades: several layers work on strips in turn, so that the values between them are never whole.

A group of layers works in strips of rows. The values between its layers are in rolling buffers of a few rows. If a
strip does not fit after the last one, the vector unit copies the rows that are still needed to the front of the buffer.
Every operation therefore sees its rows at a constant pitch.

The last layer determines the strips; each other layer computes the rows that its readers need. In one round every layer
computes one strip. A layer that reads all channels of a pixel works one strip behind its producer, so that it does not
wait for the end of the producer's strip.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from tq_hw.compiler.ir.layers import Elementwise, Layer, Mac, MaxPool
from tq_hw.compiler.ir.window import in_span, window
from tq_hw.isa.sizes import ceil_div

__all__ = ["Cut", "Group", "Rolling", "cascades", "schedule"]

Cut = tuple[int, int] | None


@dataclass(frozen=True)
class Rolling:
    """A buffer of `rows` rows; `origins` has the row at the buffer's front, by the first row of each strip."""

    rows: int
    origins: dict[int, int]


@dataclass(frozen=True)
class Group:
    """A cascade: layers `first`..`last` (indices in the graph), which work on strips.

    Members
    -------
    cuts : output rows of each strip, by layer; None if the layer has none
    order : (layer, strip) in the order of emission
    rolling : buffers by id of the value
    """

    first: int
    last: int
    cuts: tuple[tuple[Cut, ...], ...]
    order: tuple[tuple[int, int], ...]
    rolling: dict[int, Rolling]

    def rows(self, index: int) -> int:
        """Rows of the tallest strip of a layer."""
        return max(cut[1] - cut[0] for cut in self.cuts[index - self.first] if cut is not None)


def cascades(layer: Layer) -> bool:
    """Whether a layer can work in strips of a group."""
    if layer.output.shape[0] != 1 or any(value.shape[0] != 1 for value in layer.inputs):
        return False
    # Multipliers of two words and programs of a dozen micro-operations do not fit in addition to those of a group.
    return isinstance(layer, Elementwise | MaxPool) or (
        isinstance(layer, Mac) and layer.region is None and layer.wide is None and layer.after is None)


def _rows_read(layer: Layer, position: int, cut: tuple[int, int]) -> tuple[int, int]:
    stride, extent, pad = window(layer)
    return in_span(*cut, stride[0], extent[0], pad[0], layer.inputs[position].shape[1])


def _all_channels(layer: Layer) -> bool:
    return isinstance(layer, Mac) and not layer.depthwise


class _Schedule:
    """The strips of each layer of a group, and the order in which they are computed.

    Layers and strips are counted from 0 within the group.

    Members
    -------
    rolling : ids of the values in rolling buffers
    count : number of strips
    readers : by layer, the readers of its output within the group: (layer, position of the input)
    cuts : by layer, the output rows that it computes for each strip; None if it has computed them before
    order : (layer, strip) in the order of emission
    """

    def __init__(self, layers: Sequence[Layer], rolling: Set[int], height: int) -> None:
        self.layers, self.rolling = layers, rolling
        self.count = ceil_div(layers[-1].output.shape[1], height)
        self.readers = [[(other, position) for other, reader in enumerate(layers)
                         for position, value in enumerate(reader.inputs) if value is layer.output] for layer in layers]
        self.cuts: list[tuple[Cut, ...]] = [()] * len(layers)
        for number in range(len(layers) - 1, -1, -1):
            self.cuts[number] = self._cuts(number, height)
        self.order = self._order()

    def _cuts(self, number: int, height: int) -> tuple[Cut, ...]:
        """Return the strips of a layer; those of its readers are known.

        A strip of the last layer has `height` rows. A strip of another layer has the rows that its readers still need
        for theirs, or an even share if the layer has no reader in the group.
        """
        output, readers = self.layers[number].output, self.readers[number]
        rows = output.shape[1]
        found: list[Cut] = []
        made = 0
        for strip in range(self.count):
            if number == len(self.layers) - 1:
                end = min(rows, (strip + 1) * height)
            elif readers:
                end = max((_rows_read(self.layers[other], position, cut)[1] for other, position in readers
                           if (cut := self.cuts[other][strip]) is not None), default=made)
            else:
                end = ceil_div((strip + 1) * rows, self.count)
            if strip == self.count - 1 and id(output) not in self.rolling:
                end = rows  # includes rows that no window of the group reads
            found.append((made, end) if end > made else None)
            made = max(made, end)
        return tuple(found)

    def _order(self) -> tuple[tuple[int, int], ...]:
        """Return (layer, strip) by rounds: layers that read all channels first, each delayed by its lag in strips."""
        lags: list[int] = []
        for layer in self.layers:
            feeders = [lags[other] for other, feeder in enumerate(self.layers[:len(lags)])
                       if any(feeder.output is value for value in layer.inputs)]
            lags.append(max(feeders, default=0) + (1 if feeders and _all_channels(layer) else 0))
        of_a_round = sorted(range(len(self.layers)),
                            key=lambda number: (not _all_channels(self.layers[number]), number))
        rounds = range(self.count + max(lags))
        wanted = ((number, at - lags[number]) for at in rounds for number in of_a_round)
        return tuple((number, strip) for number, strip in wanted
                     if 0 <= strip < self.count and self.cuts[number][strip] is not None)

    def buffer(self, number: int, extra: int) -> Rolling | None:
        """Return the smallest buffer plus room for `extra` strips; None if a copy to the front would overlap."""
        done = [0] * len(self.layers)
        #: For each strip of the layer: its rows [first, end), and the first row that is still needed then.
        writes: list[tuple[int, int, int]] = []
        for other, strip in self.order:
            cut = self.cuts[other][strip]
            assert cut is not None
            if other == number:
                coming = [(reader, position, next((rows for rows in self.cuts[reader][done[reader]:] if rows), None))
                          for reader, position in self.readers[number]]
                needed = [_rows_read(self.layers[reader], position, rows)[0]
                          for reader, position, rows in coming if rows is not None]
                writes.append((*cut, min([cut[0], *needed])))
            done[other] = strip + 1
        rows = max(end - keep for _, end, keep in writes) + extra * max(end - first for first, end, _ in writes)
        origin, origins = 0, {}
        for first, end, keep in writes:
            if end - origin > rows:
                if keep - origin < first - keep:  # source and destination of the copy would overlap
                    return None
                origin = keep
            origins[first] = origin
        return Rolling(min(rows, self.layers[number].output.shape[1]), origins)


def schedule(layers: Sequence[Layer], first: int, rolling: Set[int], height: int, extra: int) -> Group | None:
    """Return a group with strips of `height` rows in the last layer and room for `extra` more strips in every buffer.

    `first` is the index of the first layer in the graph. None if a buffer is not possible.
    """
    plan = _Schedule(layers, rolling, height)
    buffers = {}
    for number, layer in enumerate(layers):
        if id(layer.output) in rolling:
            found = plan.buffer(number, extra) or plan.buffer(number, extra + 1)
            if found is None:
                return None
            buffers[id(layer.output)] = found
    return Group(first, first + len(layers) - 1, tuple(plan.cuts),
                 tuple((first + number, strip) for number, strip in plan.order), buffers)
