"""The facts that a plan starts from: producers and users of each value, hosts, and which values may be resident."""

from collections.abc import Iterable

from tq_hw.compiler.ir.fold import FoldPlan
from tq_hw.compiler.ir.layers import Graph, Layer, Mac, Pad
from tq_hw.compiler.ir.staged import Columns, Parts, Staged, Transpose
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.fold import plan_fold
from tq_hw.compiler.plan.hosts import find_hosts, find_slices
from tq_hw.compiler.plan.layout import blocked_words
from tq_hw.isa.config import Config

__all__ = ["Uses"]


def _by_memory(layer: Layer) -> bool:
    """Whether a layer always reads its inputs from memory."""
    return isinstance(layer, Pad | Staged) and not isinstance(layer, Columns | Parts | Transpose)


class Uses:
    """Values and layers of a graph.

    Members
    -------
    values, order : every value, and its number in the order of the graph, by id
    defined, users : first layer that writes a value, layers that read it; a host includes those of its parts
    finished : last layer that writes a value
    parts : host and box of values inside another value
    aliased : values whose bytes have another name
    folds : by layer, the folding of its windows
    whole : whether inputs and outputs of the model may be resident, too
    in_pieces : whether windows of several words are folded; each word is a separate load
    """

    def __init__(self, graph: Graph, config: Config, whole: bool, in_pieces: bool = True) -> None:
        self.graph, self.config, self.whole, self._in_pieces = graph, config, whole, in_pieces
        self.users: dict[int, list[int]] = {}
        self.values: dict[int, Value] = {}
        self.defined: dict[int, int] = {}
        self.finished: dict[int, int] = {}
        for index, layer in enumerate(graph.layers):
            for value in layer.inputs:
                self.users.setdefault(id(value), []).append(index)
                self.values[id(value)] = value
            self.values[id(layer.output)] = layer.output
            self.defined.setdefault(id(layer.output), index)
            self.finished[id(layer.output)] = index
        made = find_hosts(graph, config)
        for key, (host, _) in made.items():
            self.defined[id(host)] = min(self.defined[key], self.defined.get(id(host), self.defined[key]))
            self.finished[id(host)] = max(self.finished[key], self.finished.get(id(host), 0))
        self.folds = [self._fold(layer) for layer in graph.layers]
        # Windows are loaded from memory, so a slice with a folded reader is stored there.
        self.parts = made | {key: part for key, part in find_slices(graph, config).items()
                             if all(self.folds[i] is None for i in self.users[key])}
        for key, (host, _) in self.parts.items():
            self.users[id(host)] = self.users.get(id(host), []) + self.users.get(key, [])
        self.order = {key: number for number, key in enumerate(self.values)}
        self.aliased = {id(v.root) for v in (*self.values.values(), *graph.outputs) if v.root is not v}

    def _fold(self, layer: Layer) -> FoldPlan | None:
        if not isinstance(layer, Mac):
            return None
        source = layer.inputs[0]
        made = self.defined.get(id(source))
        fold = None
        if not layer.depthwise and source.dense and (made is None or isinstance(self.graph.layers[made], Staged)):
            fold = plan_fold(layer, self.config)
            if fold is not None and fold.pieces > 1 and not self._in_pieces and layer.input_table is None:
                fold = None
        assert fold is not None or layer.input_table is None, "only windows are looked up"
        return fold

    def may_reside(self, key: int, words: int) -> bool:
        """Whether a value may be resident, with `words` words for all values."""
        value = self.values[key]
        if key in self.parts:
            return False
        if blocked_words(value, self.config) > words:
            return False
        users = self.users.get(key, [])
        # Windows are loaded from memory.
        if any(self.folds[i] is not None for i in users):
            return False
        if key in self.defined:
            maker = self.graph.layers[self.defined[key]]
            turned = isinstance(maker, Transpose)
            is_read = users or self.whole or (turned and key in self.aliased)
            if not is_read or (isinstance(maker, Staged) and _by_memory(maker)):
                return False
            return turned or not self.read_from_memory(key)
        if self.read_from_memory(key):
            return False
        # An input with one reader streams in strips during that layer's computation.
        return self.whole or len(users) > 1 or value.shape[0] * value.shape[1] == 1

    def read_from_memory(self, key: int) -> bool:
        """Whether a layer always reads a value from memory."""
        return any(_by_memory(self.graph.layers[index]) for index in self.users.get(key, ()))

    def ordered(self, keys: Iterable[int]) -> list[int]:
        """Return ids in the order of the graph, which is deterministic."""
        return sorted(keys, key=lambda key: self.order[key])

    def is_made_and_used_here(self, key: int) -> bool:
        """Whether only layers use a value, and under its own name: it is no input, output, state or view."""
        value = self.values[key]
        return (key in self.defined and key in self.users and key not in self.aliased and value.initial is None
                and value.root is value and not any(value is output for output in self.graph.outputs))
