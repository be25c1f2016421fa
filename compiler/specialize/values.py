"""Producers and readers of the bytes of a graph's values."""

from collections.abc import Iterable

from tq_hw.compiler.ir.layers import Graph, Layer
from tq_hw.compiler.ir.value import Value

__all__ = ["Users", "is_whole"]


def is_whole(value: Value) -> bool:
    """Whether a value has all bytes of its root, unchanged."""
    return value.dense and not value.flip and value.size_bytes == value.root.size_bytes and not value.root.flip


class Users:
    """Producers and readers of the values of some layers, by the bytes that they share."""

    def __init__(self, graph: Graph, layers: Iterable[Layer]) -> None:
        self._readers: dict[int, list[Layer]] = {}
        self._makers: dict[int, list[Layer]] = {}
        self._kept = {id(value.root) for value in (*graph.inputs, *graph.outputs)}
        for layer in layers:
            # A state may be read before it is written.
            self._kept |= {id(value.root) for value in (*layer.inputs, layer.output) if value.root.initial is not None}
            self._makers.setdefault(id(layer.output.root), []).append(layer)
            for root in {id(value.root) for value in layer.inputs}:
                self._readers.setdefault(root, []).append(layer)

    def is_kept(self, value: Value) -> bool:
        """Whether the caller, or the next inference, reads the bytes of a value."""
        return id(value.root) in self._kept

    def maker(self, value: Value) -> Layer | None:
        """Return the layer that writes all bytes of a value; None if several do, or not exactly one reads them."""
        makers = self._makers.get(id(value.root), [])
        if len(makers) != 1 or len(self._readers.get(id(value.root), [])) != 1 or self.is_kept(value):
            return None
        return makers[0] if is_whole(value) and makers[0].output.size_bytes == value.size_bytes else None

    def is_written_twice(self, value: Value) -> bool:
        """Whether several layers write bytes of a value."""
        return len(self._makers.get(id(value.root), [])) > 1

    def readers(self, value: Value) -> list[Layer]:
        """Return the layers that read bytes of a value, each once, in order."""
        return list(dict.fromkeys(self._readers.get(id(value.root), [])))

    def reader(self, value: Value) -> Layer | None:
        """Return the only layer that reads a value, None if there are several."""
        return None if self.maker(value) is None else self._readers[id(value.root)][0]
