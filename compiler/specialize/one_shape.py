"""One shape for tensors that differ only in rows and columns, so that a RESHAPE of pixels needs no copy via memory.

[1, 16, 1, 48] and [1, 1, 16, 48] are the same bytes in memory, but have different layouts in the scratchpad. Layers
that process single pixels accept any rows and columns, so the tensors between them get a common shape. Layers that
depend on rows and columns see another view of the same bytes if their shape differs.
"""

from collections import Counter
from dataclasses import replace

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer, Mac, RowProgram
from tq_hw.compiler.ir.staged import Parts, Staged, Transpose
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.specialize.transpose import FEW_BYTES, as_transpose
from tq_hw.isa.config import Config

__all__ = ["one_shape"]

#: Batch, rows and columns.
_Image = tuple[int, int, int]
#: Words of a pixel whose load takes longer than its computation.
_LONG_PIXEL_WORDS = 16


def _by_pixel(layer: Layer) -> bool:
    """Whether each pixel of the output depends on the same pixel of the inputs, or on inputs of one pixel."""
    if isinstance(layer, Mac):
        return (layer.kernel == layer.stride == (1, 1) and layer.pad == (0, 0) and layer.region is None
                and not layer.depthwise)
    return isinstance(layer, Elementwise | RowProgram)


def _goes_through_memory(layer: Layer, config: Config) -> bool:
    if not isinstance(layer, Staged) or isinstance(layer, Parts):
        return False
    return not any(isinstance(made, Transpose) for made in (as_transpose(layer, config), as_transpose(
        layer, config, FEW_BYTES, few=0)))


def _pixels(layer: Layer) -> list[Value]:
    """Return the values of a layer that have its pixels, without inputs of a single pixel."""
    return [value for value in (*layer.inputs, layer.output) if value.shape[:3] == layer.output.shape[:3]]


def _owner(value: Value) -> Value:
    """Return the owner of a value's pixels: the root, if only rows and columns differ."""
    root = value.root
    same = (value.dense and root.dense and value.flip == root.flip and value.shape[3] == root.shape[3]
            and value.size_bytes == root.size_bytes)
    return root if same else value


class _Groups:
    """Groups of values that need the same rows and columns, by their owners."""

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
        """Return the representative of a value's group."""
        found = _owner(value)
        while (after := self._next.get(found, found)) is not found:
            found = after
        return found

    def _join(self, one: Value, other: Value) -> None:
        a, b = self.of(one), self.of(other)
        if a is not b:
            self._next[b] = a


def _wanted(graph: Graph, groups: _Groups, config: Config) -> dict[Value, Counter[_Image]]:
    """For each group, the bytes that other users could read in each shape of theirs without a copy via memory."""
    found: dict[Value, Counter[_Image]] = {}
    for layer in graph.layers:
        if not _by_pixel(layer) and not _goes_through_memory(layer, config):
            for value in (*layer.inputs, layer.output):
                found.setdefault(groups.of(value), Counter())[value.shape[:3]] += value.size_bytes
    return found


def _chosen(graph: Graph, config: Config) -> dict[Value, _Image]:
    """Return rows and columns of the values of pixelwise layers, by owner, where these are not yet all the same."""
    groups = _Groups(graph)
    wanted = _wanted(graph, groups, config)
    # A part of another value is addressed there by rows and columns.
    bound = {end for layer in graph.layers for value in (*layer.inputs, layer.output) if not value.dense
             for end in (value, value.root)}
    found: dict[Value, _Image] = {}
    for group, owners in groups.members.items():
        seen = groups.seen[group]
        image = (wanted.get(group) or seen).most_common(1)[0][0]
        if group not in wanted and max(owner.shape[3] for owner in owners) >= _LONG_PIXEL_WORDS * config.block:
            # If long pixels are rows, they load one by one while the first ones are computed.
            image = max(seen)
        same = all(owner.shape[:3] == image for owner in owners) and set(seen) == {image}
        if (not same and all(at[0] == 1 for at in (image, *seen))
                and all(owner.shape[:3] == image for owner in owners if owner in bound)):
            found |= dict.fromkeys(owners, image)
    return found


def _reshaped(value: Value, shape: tuple[int, int, int, int]) -> Value:
    """Return the same bytes in other rows and columns; a part of another value becomes one without gaps."""
    pitch = value.pitch and replace(value.pitch, row_bytes=shape[2] * shape[3], pixel_bytes=shape[3])
    return replace(value, shape=shape, pitch=pitch)


class _Views:
    """The new view of each value of the graph."""

    def __init__(self, graph: Graph, chosen: dict[Value, _Image]) -> None:
        self._chosen = chosen
        #: Values whose rows and columns are fixed, because other layers write them.
        self._kept = {layer.output for layer in graph.layers if not _by_pixel(layer)} | set(graph.inputs)
        self._owners: dict[Value, Value] = {}
        self._others: dict[tuple[Value, _Image, bool], Value] = {}

    def owner(self, value: Value) -> Value:
        """Return the value that owns the bytes."""
        if value not in self._owners:
            new = value
            if value.alias_of is not None:
                new = replace(value, alias_of=self.plain(value.alias_of))
            # A value that already has these rows and columns is unchanged: it may be a part with gaps.
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
        """Return the view of a pixelwise layer."""
        owner = _owner(value)
        return self._view(value, self._chosen[owner]) if owner in self._chosen else self.plain(value)

    def plain(self, value: Value, staged: bool = False) -> Value:
        """Return the view of another layer; one that works through memory does not move the owner there."""
        owner = _owner(value)
        if owner in self._chosen:
            return self._view(value, value.shape[:3], staged and owner not in self._kept)
        return self.owner(value)


def one_shape(graph: Graph, config: Config) -> Graph:
    """Return the graph in which successive pixelwise layers have the same rows and columns."""
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
