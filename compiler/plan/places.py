"""The records of a plan (addresses of values, cuts of layers), and the allocation of scratchpad words."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tq_hw.compiler.ir.fold import FoldPlan
from tq_hw.compiler.ir.layers import Elementwise, Layer, Mac
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.cascade import Cut, Group
from tq_hw.compiler.plan.hosts import Box
from tq_hw.isa.config import BANKS

__all__ = ["Choice", "Item", "LayerPlan", "Name", "Placed", "Plan", "alternates", "first_fit"]

#: Name of an item: "value", "in" or "out"; id of the value or index of the layer; position of the input; strip buffer.
Name = tuple[str, int, int, int]


@dataclass(frozen=True)
class Choice:
    """The options of one layer's cut that the search chooses.

    Members
    -------
    parts : number of rectangles of a layer that would fit in one; 0: by the number of its pixels
    operation_cycles : least cycles of an operation of the array, where there is a choice
    dips : whether the second rectangle of a streaming layer is smaller than the first, and the others even
    tile_slots : most slots of a tile; the vector unit finishes a smaller last tile sooner
    table_cycles : cycles for loading tables before a layer's first sums are ready
    table_pieces : whether tables are loaded in pieces between the operations of a layer
    """

    parts: int = 0
    operation_cycles: int = 192
    dips: bool = False
    tile_slots: int = sys.maxsize
    table_cycles: int = 0
    table_pieces: bool = False


@dataclass
class LayerPlan:
    """The cut of one layer.

    Members
    -------
    rows, cols : output rows and columns of a rectangle
    in_words : words of one strip buffer per input; 0 if the input is resident
    out_words : words of one strip buffer of the output; 0 if it is resident
    blocks : channel blocks of a rectangle (depthwise and elementwise layers may cut channels; others take all)
    slots : strip buffers of each kind, 4 or 2 if they fit
    cuts : output rows of each strip, in a cascade
    lead_rows : output rows of a first rectangle that begins with slices of its input; 0: none
    row_phases : layers of the row phases, which are cut in place of the layer; or ()
    """

    rows: int
    cols: int
    in_words: tuple[int, ...]
    out_words: int
    blocks: int
    slots: int
    fold: FoldPlan | None = None
    cuts: tuple[Cut, ...] | None = None
    lead_rows: int = 0
    row_phases: tuple[Mac, ...] = ()
    in_bases: list[list[int]] = field(default_factory=list)
    out_bases: list[int] = field(default_factory=list)


@dataclass
class Plan:
    """The whole plan: bases of resident values and rolling buffers (by id), layer plans, the ring.

    Members
    -------
    ring_bases : first word of the ring during each layer; the ring extends to the end of the scratchpad
    stored : ids of the values whose dense bytes must exist in system memory
    parts : host and box of values inside another resident value, by id
    """

    resident: dict[int, int]
    layers: list[LayerPlan]
    ring_bases: list[int]
    stored: set[int]
    groups: tuple[Group, ...] = ()
    parts: dict[int, tuple[Value, Box]] = field(default_factory=dict)

    def group_of(self, index: int) -> Group | None:
        """Return the group of a layer."""
        return next((group for group in self.groups if group.first <= index <= group.last), None)


def alternates(first: Layer, second: Layer) -> bool:
    """Whether the rectangles of two layers may be emitted alternately: an elementwise layer after its producer.

    A layer of few words and many micro-operations is faster as a whole.
    """
    return (isinstance(first, Mac) and isinstance(second, Elementwise) and not second.is_plain
            and first.output in second.inputs and first.region is None and first.output.shape == second.output.shape)


@dataclass(frozen=True)
class Item:
    """Words that are needed from layer `first` to layer `last`."""

    words: int
    first: int
    last: int
    name: Name


#: Words [low, high), and the first and last layer that occupy them.
Placed = tuple[int, int, int, int]


def first_fit(items: Iterable[Item], peers: Callable[[Name], list[Name]],
              rest: int = 0) -> tuple[dict[Name, int], list[Placed]]:
    """Place rectangles of words x layers, the largest first, each as low as it fits; return bases and occupied words.

    An item starts in another bank than its `peers`, if possible. Items do not use words that were occupied in the
    `rest` layers before them.
    """
    placed: list[Placed] = []
    #: Words that are occupied in each layer.
    spans: dict[int, list[tuple[int, int]]] = {}
    bases: dict[Name, int] = {}
    for item in sorted(items, key=lambda item: (-item.words, item.first)):
        near = sorted({span for layer in range(item.first - rest, item.last + rest + 1)
                       for span in spans.get(layer, ())})
        taken = {bases[peer] % BANKS for peer in peers(item.name) if peer in bases}
        base = -1
        while base < 0 or (base % BANKS in taken and len(taken) < BANKS and item.words):
            base += 1
            for low, high in near:
                if low < base + item.words and base < high:
                    base = high
        bases[item.name] = base
        if item.words:
            placed.append((base, base + item.words, item.first, item.last))
            for layer in range(item.first, item.last + 1):
                spans.setdefault(layer, []).append((base, base + item.words))
    return bases, placed
