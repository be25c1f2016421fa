"""Where every value lives and in which rectangles a layer is computed.

A value is `resident` (whole and blocked in the scratchpad from its definition to its last use) or it passes through
system memory, and its layers work in rectangles of output rows and columns with strip buffers. The largest values
that do not fit are sent to memory first. What no value needs is the ring for weights, parameters and tables.
"""

from dataclasses import dataclass, field

from tq_hw.compiler.fold import FoldPlan, plan_fold
from tq_hw.compiler.ir import Elementwise, Graph, Layer, Mac, MaxPool, Pad, RowProgram, Staged, Value
from tq_hw.compiler.layout import block_count, blocked_words, odd, row_words
from tq_hw.isa.config import Config
from tq_hw.model.errors import UnsupportedError

__all__ = ["LayerPlan", "Plan", "alternates", "in_span", "make_plan", "window"]


#: Output pixels that a strip has at least, where there is a choice.
_STRIP_SLOTS = 128


@dataclass
class LayerPlan:
    """How one layer is cut.

    Members
    -------
    rows, cols : output rows and columns of a rectangle
    in_words : words of one strip buffer per input; 0 where the input is resident
    out_words : words of one strip buffer of the output; 0 where it is resident
    blocks : channel blocks of a rectangle (depthwise and elementwise may cut channels; others take all)
    slots : strip buffers of each kind, 4 or 2 where they fit
    """

    rows: int
    cols: int
    in_words: tuple[int, ...]
    out_words: int
    blocks: int
    slots: int
    fold: FoldPlan | None = None
    in_bases: list[list[int]] = field(default_factory=list)
    out_bases: list[int] = field(default_factory=list)


@dataclass
class Plan:
    """The whole plan: bases of resident values (by id), layer plans, the ring."""

    resident: dict[int, int]
    layers: list[LayerPlan]
    ring_base: int
    ring_words: int
    stored: set[int]


def in_span(out0: int, out1: int, stride: int, taps: int, pad: int, size: int) -> tuple[int, int]:
    """Input rows (or columns) inside the image that outputs [out0, out1) touch; at least one."""
    low, high = out0 * stride - pad, (out1 - 1) * stride - pad + taps
    low, high = max(0, min(low, size - 1)), min(size, max(high, 1))
    return low, max(high, low + 1)


def window(layer: Layer) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Stride, extent and padding of the layer's window over its input."""
    if isinstance(layer, Mac):
        extent = tuple((k - 1) * d + 1 for k, d in zip(layer.kernel, layer.dilation, strict=True))
        return layer.stride, (extent[0], extent[1]), layer.pad
    if isinstance(layer, MaxPool):
        return layer.stride, layer.kernel, layer.pad
    return (1, 1), (1, 1), (0, 0)


def alternates(first: Layer, second: Layer) -> bool:
    """Whether the rectangles of two layers may be emitted in turn: an elementwise layer behind what feeds it."""
    return (isinstance(first, Mac) and isinstance(second, Elementwise) and first.output in second.inputs
            and first.region is None and first.output.shape == second.output.shape)


def _cuts_channels(layer: Layer) -> bool:
    return not isinstance(layer, RowProgram | Pad) and not (isinstance(layer, Mac) and not layer.depthwise)


class _Planner:
    def __init__(self, graph: Graph, config: Config) -> None:
        self.graph, self.config = graph, config
        self.capacity = config.scratchpad_words
        self.ring_minimum = self.capacity // 4
        self.uses: dict[int, list[int]] = {}
        self.values: dict[int, Value] = {}
        self.defined: dict[int, int] = {}
        for index, layer in enumerate(graph.layers):
            for value in layer.inputs:
                self.uses.setdefault(id(value), []).append(index)
                self.values[id(value)] = value
            self.values[id(layer.output)] = layer.output
            self.defined.setdefault(id(layer.output), index)
        self.folds = [self._fold(layer) for layer in graph.layers]
        self.resident = {key for key, value in self.values.items() if self._may_reside(key, value)}

    def _fold(self, layer: Layer) -> FoldPlan | None:
        source = layer.inputs[0]
        made = self.defined.get(id(source))
        if isinstance(layer, Mac) and not layer.depthwise and (
                made is None or isinstance(self.graph.layers[made], Staged)):
            return plan_fold(layer, self.config)
        return None

    def _may_reside(self, key: int, value: Value) -> bool:
        if blocked_words(value, self.config) > self.capacity - self.ring_minimum:
            return False
        if key in self.defined:
            if key not in self.uses or isinstance(self.graph.layers[self.defined[key]], Staged):
                return False
            return not any(isinstance(self.graph.layers[i], Pad | Staged) for i in self.uses[key])
        users = self.uses[key]
        if any(self.folds[i] is not None or isinstance(self.graph.layers[i], Pad | Staged) for i in users):
            return False
        # An input of one layer streams in strips under its computation.
        return len(users) > 1 or value.shape[0] * value.shape[1] == 1

    def span(self, key: int) -> tuple[int, int]:
        """First and last layer at which a value is in use; layers that alternate count as one."""
        users = self.uses.get(key, [])
        first = self.defined.get(key, users[0] if users else 0)
        last = max([first, *users])
        layers = self.graph.layers
        if first > 0 and alternates(layers[first - 1], layers[first]):
            first -= 1
        if last + 1 < len(layers) and alternates(layers[last], layers[last + 1]):
            last += 1
        return first, last

    def live_words(self, index: int) -> int:
        return sum(blocked_words(self.values[k], self.config) for k in self.resident
                   if self.span(k)[0] <= index <= self.span(k)[1])

    def strip_words(self, layer: Layer, index: int, rows: int, cols: int, blocks: int) -> tuple[tuple[int, ...], int]:
        if isinstance(layer, Staged):
            return (0,) * len(layer.inputs), layer.minimum_words(self.config)
        (sy, sx), (ey, ex), _ = window(layer)
        fold = self.folds[index]
        ins = []
        for value in layer.inputs:
            n, h, w, c = value.shape
            if id(value) in self.resident:
                ins.append(0)
                continue
            in_rows = min(h, (rows - 1) * sy + ey)
            if isinstance(layer, Pad):
                ins.append(0)
            elif fold is not None:
                ins.append(in_rows * fold.pieces * odd(cols))
            else:
                in_blocks = min(blocks, block_count(c, self.config)) if _cuts_channels(layer) else block_count(
                    c, self.config)
                ins.append(in_rows * row_words(min(w, (cols - 1) * sx + ex), in_blocks))
        out = 0
        if id(layer.output) not in self.resident:
            out_blocks = min(blocks, block_count(layer.output.shape[3], self.config))
            out = rows * row_words(cols, out_blocks)
        return tuple(ins), out

    def tile(self, layer: Layer, index: int, budget: int) -> LayerPlan | None:
        """Largest rectangle whose strip buffers fit `budget` words, or None."""
        if isinstance(layer, Staged):
            ins, least = self.strip_words(layer, index, 1, 1, 1)
            return LayerPlan(1, 1, ins, budget, 1, 1) if budget >= least else None
        _, h, w, c = layer.output.shape
        if isinstance(layer, Mac) and layer.region is not None:
            h, w = layer.region[1] - layer.region[0], layer.region[3] - layer.region[2]
        all_blocks = block_count(c, self.config)
        strips = self.strip_words(layer, index, 1, 1, 1)
        streaming = any(strips[0]) or strips[1] > 0
        blocks_options = [all_blocks]
        if _cuts_channels(layer):
            while blocks_options[-1] > 1:
                blocks_options.append(-(-blocks_options[-1] // 2))
        goal = max(1, -(-h // 4)) if streaming else h
        if streaming:
            # Four strips of an eighth are better than two of a quarter: the first one is there sooner.
            rows = min(goal, max(-(-h // 8), -(-_STRIP_SLOTS // w)))
            ins, out = self.strip_words(layer, index, rows, w, all_blocks)
            if 4 * (sum(ins) + out) <= min(budget, self.capacity // 4):
                return LayerPlan(rows, w, ins, out, all_blocks, 4, self.folds[index])
        for blocks in blocks_options:
            for slots in (2, 1):
                cols = w
                while True:
                    rows = goal
                    while rows >= 1:
                        ins, out = self.strip_words(layer, index, rows, cols, blocks)
                        if slots * (sum(ins) + out) <= budget:
                            return LayerPlan(rows, cols, ins, out, blocks, slots, self.folds[index])
                        rows = rows // 2 if rows > 1 else 0
                    if cols == 1 or isinstance(layer, Pad):
                        break
                    cols = -(-cols // 2)
        return None

    def run(self) -> Plan:
        while True:
            plans = []
            for index, layer in enumerate(self.graph.layers):
                budget = self.capacity - self.ring_minimum - self.live_words(index)
                plan = self.tile(layer, index, min(budget, self.capacity // 3)) if budget >= 0 else None
                plan = plan or (self.tile(layer, index, budget) if budget >= 0 else None)
                if plan is None:
                    self._demote(index, layer)
                    break
                plans.append(plan)
            else:
                done = self._allocate(plans)
                if done is not None:
                    return done

    def _demote(self, index: int, layer: Layer | None) -> None:
        live = [k for k in self.resident if self.span(k)[0] <= index <= self.span(k)[1]]
        if not live:
            needed = self.strip_words(self.graph.layers[index], index, 1, 1, 1)
            raise UnsupportedError(
                f"operator {self.graph.layers[index].index} ({self.graph.layers[index].op}) needs at least "
                f"{sum(needed[0]) + needed[1] + self.ring_minimum} scratchpad words, configuration "
                f"{self.config.name!r} has {self.capacity}; a larger scratchpad_bytes helps")
        used = set() if layer is None else {id(v) for v in (*layer.inputs, layer.output)}
        self.resident.discard(max(live, key=lambda k: (k not in used, blocked_words(self.values[k], self.config))))

    def _allocate(self, plans: list[LayerPlan]) -> Plan | None:
        """Place rectangles of words x layers, large ones first, each as low as it fits."""
        items: list[tuple[int, int, int, tuple[str, int, int, int]]] = []
        for key in self.resident:
            items.append((blocked_words(self.values[key], self.config), *self.span(key), ("value", key, 0, 0)))
        for index, plan in enumerate(plans):
            for slot in range(plan.slots):
                for position, words in enumerate(plan.in_words):
                    items.append((words, index, index, ("in", index, position, slot)))
                items.append((plan.out_words, index, index, ("out", index, 0, slot)))
        items.sort(key=lambda item: (-item[0], item[1]))
        placed: list[tuple[int, int, int, int]] = []
        bases: dict[tuple[str, int, int, int], int] = {}
        for words, first, last, name in items:
            base = 0
            for low, high, a, b in sorted(placed):
                if a <= last and first <= b and low < base + words and base < high:
                    base = high
            bases[name] = base
            if words:
                placed.append((base, base + words, first, last))
        top = max((high for _, high, _, _ in placed), default=0)
        if top > self.capacity - self.ring_minimum:
            self._demote(max(placed, key=lambda item: item[1])[2], None)
            return None
        for index, plan in enumerate(plans):
            plan.in_bases = [[bases["in", index, p, s] for s in range(plan.slots)] for p in range(len(plan.in_words))]
            plan.out_bases = [bases["out", index, 0, s] for s in range(plan.slots)]
        resident = {key: bases["value", key, 0, 0] for key in self.resident}
        return Plan(resident, plans, top, self.capacity - top, self._stored())

    def _stored(self) -> set[int]:
        """Values whose dense bytes must exist in system memory."""
        stored = {id(value.root) for value in self.graph.outputs}
        for layer in self.graph.layers:
            for value in layer.inputs:
                if value.root is not value or id(value) not in self.resident:
                    stored.add(id(value.root))
            if id(layer.output) not in self.resident:
                stored.add(id(layer.output))
        return stored


def make_plan(graph: Graph, config: Config) -> Plan:
    """Decide residency, rectangles and addresses; UnsupportedError when a layer cannot fit at all."""
    return _Planner(graph, config).run()
