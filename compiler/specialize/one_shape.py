"""One shape for what differs in rows and columns alone, so that a RESHAPE of pixels takes no way through memory.

In the scratchpad [1, 16, 1, 48] lies otherwise than [1, 1, 16, 48], though both are the same bytes in memory. Layers
that look at one pixel at a time take any rows and columns, so the tensors that they join get the same ones. Others, who
look at rows and columns, see the same bytes under another name where theirs differ.
"""

from collections import Counter
from dataclasses import replace

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer, Mac, RowProgram
from tq_hw.compiler.ir.staged import Staged, Transpose
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.specialize.transpose import as_transpose
from tq_hw.isa.config import Config

__all__ = ["one_shape"]

#: Batch, rows and columns.
_Image = tuple[int, int, int]
#: Words of a pixel that takes longer to come from memory than to be worked on.
_LONG_PIXEL_WORDS = 16


def _by_pixel(layer: Layer) -> bool:
    """Whether each pixel of the output is made of the same pixel of the inputs, or of single ones."""
    if isinstance(layer, Mac):
        return (layer.kernel == layer.stride == (1, 1) and layer.pad == (0, 0) and layer.region is None
                and not layer.depthwise)
    return isinstance(layer, Elementwise | RowProgram)


def _goes_through_memory(layer: Layer, config: Config) -> bool:
    return isinstance(layer, Staged) and not isinstance(as_transpose(layer, config), Transpose)


def _pixels(layer: Layer) -> list[Value]:
    """Values of a layer that have its pixels; a single pixel for all is not one of them."""
    return [value for value in (*layer.inputs, layer.output) if value.shape[:3] == layer.output.shape[:3]]


def _owner(value: Value) -> Value:
    """The value whose pixels these are: the root, if nothing but rows and columns differs."""
    root = value.root
    same = (value.dense and root.dense and value.flip == root.flip and value.shape[3] == root.shape[3]
            and value.size_bytes == root.size_bytes)
    return root if same else value


class _Groups:
    """Values that are to have the same rows and columns, by their owners."""

    def __init__(self, graph: Graph) -> None:
        self._next: dict[Value, Value] = {}
        self.members: dict[Value, list[Value]] = {}
        self.seen: dict[Value, Counter[_Image]] = {}
        layers = [layer for layer in graph.layers if _by_pixel(layer)]
        for layer in layers:
            first, *others = map(_owner, _pixels(layer))
            for other in others:
                self._join(first, other)
        for layer in layers:
            for value in _pixels(layer):
                group = self.of(value)
                self.seen.setdefault(group, Counter())[value.shape[:3]] += 1
                self.members.setdefault(group, []).append(_owner(value))

    def of(self, value: Value) -> Value:
        """Return the value that stands for the group."""
        found = _owner(value)
        while (after := self._next.get(found, found)) is not found:
            found = after
        return found

    def _join(self, one: Value, other: Value) -> None:
        a, b = self.of(one), self.of(other)
        if a is not b:
            self._next[b] = a


def _wanted(graph: Graph, groups: _Groups, config: Config) -> dict[Value, Counter[_Image]]:
    """How many bytes each group's other users see in rows and columns of theirs without a way through memory."""
    found: dict[Value, Counter[_Image]] = {}
    for layer in graph.layers:
        if not _by_pixel(layer) and not _goes_through_memory(layer, config):
            for value in (*layer.inputs, layer.output):
                found.setdefault(groups.of(value), Counter())[value.shape[:3]] += value.size_bytes
    return found


def _chosen(graph: Graph, config: Config) -> dict[Value, _Image]:
    """Rows and columns of the values that pixelwise layers see, by owner, where these are not the same everywhere."""
    groups = _Groups(graph)
    wanted = _wanted(graph, groups, config)
    # A part of another value is found there by rows and columns.
    bound = {end for layer in graph.layers for value in (*layer.inputs, layer.output) if not value.dense
             for end in (value, value.root)}
    found: dict[Value, _Image] = {}
    for group, owners in groups.members.items():
        seen = groups.seen[group]
        image = (wanted.get(group) or seen).most_common(1)[0][0]
        if group not in wanted and max(owner.shape[3] for owner in owners) >= _LONG_PIXEL_WORDS * config.block:
            # Long pixels come one after the other while the first ones are worked on, if they are rows.
            image = max(seen)
        same = all(owner.shape[:3] == image for owner in owners) and set(seen) == {image}
        if (not same and all(at[0] == 1 for at in (image, *seen))
                and all(owner.shape[:3] == image for owner in owners if owner in bound)):
            found |= dict.fromkeys(owners, image)
    return found


def _reshaped(value: Value, shape: tuple[int, int, int, int]) -> Value:
    """The same bytes in other rows and columns; a part of others is without gaps, from the same byte on."""
    pitch = value.pitch and replace(value.pitch, row_bytes=shape[2] * shape[3], pixel_bytes=shape[3])
    return replace(value, shape=shape, pitch=pitch)


class _Views:
    """What each value of the graph becomes."""

    def __init__(self, graph: Graph, chosen: dict[Value, _Image]) -> None:
        self._chosen = chosen
        #: Who is made by others keeps its rows and columns.
        self._kept = {layer.output for layer in graph.layers if not _by_pixel(layer)} | set(graph.inputs)
        self._owners: dict[Value, Value] = {}
        self._others: dict[tuple[Value, _Image, bool], Value] = {}

    def owner(self, value: Value) -> Value:
        """Return the value that owns the bytes."""
        if value not in self._owners:
            new = value
            if value.alias_of is not None:
                new = replace(value, alias_of=self.plain(value.alias_of))
            # What has these rows and columns already stays as it is: a part of others may have gaps.
            if value in self._chosen and value not in self._kept and value.shape[:3] != self._chosen[value]:
                new = _reshaped(new, (*self._chosen[value], value.shape[3]))
            self._owners[value] = value if new.shape == value.shape and new.alias_of is value.alias_of else new
        return self._owners[value]

    def _view(self, value: Value, image: _Image, staged: bool = False) -> Value:
        """Return the bytes of an owner in some rows and columns."""
        owner = self.owner(_owner(value))
        if owner.shape[:3] == image and not staged:
            return owner
        key = owner, image, staged
        if key not in self._others:
            self._others[key] = replace(value, shape=(*image, value.shape[3]), alias_of=owner, pitch=None, data=None)
        return self._others[key]

    def pixels(self, value: Value) -> Value:
        """Return what a pixelwise layer sees."""
        owner = _owner(value)
        return self._view(value, self._chosen[owner]) if owner in self._chosen else self.plain(value)

    def plain(self, value: Value, staged: bool = False) -> Value:
        """Return what others see; a layer that goes through memory does not send the owner there."""
        owner = _owner(value)
        if owner in self._chosen:
            return self._view(value, value.shape[:3], staged and owner not in self._kept)
        return self.owner(value)


def one_shape(graph: Graph, config: Config) -> Graph:
    """Return the graph in which pixelwise layers that follow each other see the same rows and columns."""
    chosen = _chosen(graph, config)
    if not chosen:
        return graph
    views, layers = _Views(graph, chosen), []
    for layer in graph.layers:
        if _by_pixel(layer):
            near = _pixels(layer)
            inputs = tuple(views.pixels(value) if value in near else views.plain(value) for value in layer.inputs)
            output = views.pixels(layer.output)
        else:
            staged = _goes_through_memory(layer, config)
            inputs = tuple(views.plain(value, staged) for value in layer.inputs)
            output = views.plain(layer.output)
        same = output is layer.output and all(a is b for a, b in zip(inputs, layer.inputs, strict=True))
        layers.append(layer if same else replace(layer, inputs=inputs, output=output))
    return replace(graph, layers=tuple(layers), inputs=tuple(map(views.plain, graph.inputs)),
                   outputs=tuple(map(views.plain, graph.outputs)))
