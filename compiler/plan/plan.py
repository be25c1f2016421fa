"""Where every value lives and in which rectangles a layer is computed.

A value is `resident` (whole and blocked in the scratchpad from its definition to its last use) or it passes through
system memory, and its layers work in rectangles of output rows and columns with strip buffers. The largest values
that do not fit roll through a group of layers, or are sent to memory. What no value needs while a layer runs is the
ring for weights, parameters and tables.
"""

from collections.abc import Sequence, Set

from tq_hw.compiler.ir.fold import FoldPlan
from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer, Mac, Pad
from tq_hw.compiler.ir.staged import Staged, Turn
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.cascade import Group, cascades, schedule
from tq_hw.compiler.plan.dilated import phase_box
from tq_hw.compiler.plan.fold import plan_fold
from tq_hw.compiler.plan.hosts import Box, find_hosts
from tq_hw.compiler.plan.layout import GRANULE_WORDS, block_count, blocked_words, row_words
from tq_hw.compiler.plan.places import Item, LayerPlan, Name, Plan, alternates, first_fit
from tq_hw.compiler.plan.rectangles import Rectangles, constant_words
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import UnsupportedError

__all__ = ["make_plan"]


#: Bytes of one table, which comes through the ring.
_TABLE_BYTES = 1024
#: What takes less of the scratchpad than this share does not roll to make room.
_ROLL_SHARE = 16
#: Layers of a group at most.
_GROUP_LAYERS = 8


def _by_memory(layer: Layer) -> bool:
    """Whether a layer takes its inputs from memory in any case."""
    return isinstance(layer, Pad | Staged) and not isinstance(layer, Turn)


class _Planner:
    def __init__(self, graph: Graph, config: Config, resident: bool, lead: int) -> None:
        self.graph, self.config, self.whole, self.lead = graph, config, resident, lead
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
        self.parts = find_hosts(graph, config)
        for key, (host, _) in self.parts.items():
            defined = min(self.defined[key], self.defined.get(id(host), self.defined[key]))
            self.defined[id(host)] = defined
            self.uses[id(host)] += self.uses.get(key, [])
        self.order = {key: number for number, key in enumerate(self.values)}
        self.barred: set[int] = set()  #: values whose rolling did not help
        self.folds = [self._fold(layer) for layer in graph.layers]
        self.rectangles = Rectangles(config, self.folds, self.kept)
        self.resident = {key for key, value in self.values.items() if self._may_reside(key, value)}
        self.rolling: set[int] = set()
        self.aliased = {id(v.root) for v in (*self.values.values(), *graph.outputs) if v.root is not v}
        large = [key for key, value in self.values.items() if key not in self.resident]
        for key in sorted(large, key=lambda key: -blocked_words(self.values[key], config)):
            self._roll(key)

    def _fold(self, layer: Layer) -> FoldPlan | None:
        if not isinstance(layer, Mac):
            return None
        source = layer.inputs[0]
        made = self.defined.get(id(source))
        fold = None
        if not layer.depthwise and source.dense and (made is None or isinstance(self.graph.layers[made], Staged)):
            fold = plan_fold(layer, self.config)
        assert fold is not None or layer.input_table is None, "only windows are looked up"
        return fold

    def _may_reside(self, key: int, value: Value) -> bool:
        if key in self.parts:
            return False
        if blocked_words(value, self.config) > self.capacity - self.ring_minimum:
            return False
        if key in self.defined:
            maker = self.graph.layers[self.defined[key]]
            if (key not in self.uses and not self.whole) or (isinstance(maker, Staged) and _by_memory(maker)):
                return False
            return not any(_by_memory(self.graph.layers[i]) for i in self.uses.get(key, ()))
        users = self.uses[key]
        if any(self.folds[i] is not None or _by_memory(self.graph.layers[i]) for i in users):
            return False
        # An input of one layer streams in strips under its computation.
        return self.whole or len(users) > 1 or value.shape[0] * value.shape[1] == 1

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
        for low, high in self.spans():
            if first <= high and low <= last:
                first, last = min(first, low), max(last, high)
        return first, last

    def _ordered(self, keys: Set[int]) -> list[int]:
        """Ids in the order of the graph, which is the same in every run."""
        return sorted(keys, key=lambda key: self.order[key])

    # Groups

    def spans(self) -> list[tuple[int, int]]:
        """First and last layer of each group: the layers between which values roll."""
        found: list[tuple[int, int]] = []
        for low, high in sorted((self.defined[key], max(self.uses[key])) for key in self.rolling):
            if found and low <= found[-1][1]:
                found[-1] = (found[-1][0], max(found[-1][1], high))
            else:
                found.append((low, high))
        return found

    def _roll(self, key: int) -> bool:
        """Let a value roll through a group of layers, if there is a group in which it can."""
        if not self._is_made_and_used_here(key):
            return False
        low, high = self.defined[key], max(self.uses[key])
        near = [span for span in self.spans() if span[0] <= high and low <= span[1]]
        first, last = min([low, *(s[0] for s in near)]), max([high, *(s[1] for s in near)])
        if len(near) > 1 or not self._is_cascadable(first, last):
            return False
        was = self.resident.copy()
        self.rolling.add(key)
        self.resident = {k for k in self.resident if k != key}
        if self._group(first, last, self.capacity - self._ring_least(first, last)) is None:
            self.rolling.discard(key)
            self.resident = was
            return False
        return True

    def _is_made_and_used_here(self, key: int) -> bool:
        """Whether layers alone see a value, under its own name: no input, output or state, and not barred."""
        value = self.values[key]
        return (key in self.defined and key in self.uses and key not in self.aliased and value.initial is None
                and value.root is value and not any(value is output for output in self.graph.outputs)
                and key not in self.barred)

    def _is_cascadable(self, first: int, last: int) -> bool:
        """Whether layers `first`..`last` can be a group.

        They are few, go by rows, at most one folds windows and one has tables, and half of the scratchpad is left.
        """
        layers = self.graph.layers[first:last + 1]
        folded = sum(self.folds[index] is not None for index in range(first, last + 1))
        tabled = sum(any(table is not None for table in getattr(layer, "tables", ())) for layer in layers)
        return (last - first < _GROUP_LAYERS and all(cascades(layer) for layer in layers) and folded <= 1
                and tabled <= 1 and self._ring_least(first, last) <= self.capacity // 2
                and not self._reads_views(layers))

    @staticmethod
    def _reads_views(layers: Sequence[Layer]) -> bool:
        """Whether bytes that one of the layers makes are read under another name by one of them."""
        made = {layer.output for layer in layers}
        roots = {value.root for value in made}
        return any(value.root in roots and value not in made for layer in layers for value in layer.inputs)

    def _ring_least(self, first: int, last: int) -> int:
        """Ring that layers `first`..`last` need: all constants of a group, with some room for those of the next."""
        if first == last:
            layer = self.graph.layers[first]
            if isinstance(layer, Mac | Staged):
                return self.ring_minimum
            tables = any(table is not None for table in getattr(layer, "tables", ()))
            return min(self.ring_minimum, max(self.capacity // 16, _TABLE_BYTES // self.config.word_bytes * tables))
        words = sum(constant_words(self.graph.layers[index], self.folds[index], self.config)
                    for index in range(first, last + 1))
        # Each layer has weights and parameters, in whole granules.
        gaps = GRANULE_WORDS * (2 * (last - first + 1) + 1)
        return max(self.ring_minimum, words + max(self.ring_minimum // 4, gaps))

    def _group(self, first: int, last: int, budget: int) -> tuple[Group, list[LayerPlan]] | None:
        """Strips and buffers of a group in `budget` words: strips as high as they can be, then room to roll."""
        layers = self.graph.layers[first:last + 1]
        height = layers[-1].output.shape[1]
        rolling = {key for key in self.rolling if first <= self.defined[key] <= last}
        for parts in range(4, height + 1):
            rows = ceil_div(height, parts)
            if parts > 4 and rows == ceil_div(height, parts - 1):
                continue
            for extra in (3, 2, 1, 0):
                group = schedule(layers, first, rolling, rows, extra)
                if group is None:
                    continue
                plans = [self._strip_plan(group, index) for index in range(first, last + 1)]
                words = sum(plan.slots * (sum(plan.in_words) + plan.out_words) for plan in plans)
                if words + self._rolling_words(group) <= budget:
                    return group, plans
        return None

    def _rolling_words(self, group: Group) -> int:
        return sum(self._buffer_words(key, group) for key in group.rolling)

    def _buffer_words(self, key: int, group: Group) -> int:
        _, _, w, c = self.values[key].shape
        return group.rolling[key].rows * row_words(w, block_count(c, self.config))

    def _strip_plan(self, group: Group, index: int) -> LayerPlan:
        layer = self.graph.layers[index]
        _, _, w, c = layer.output.shape
        rows, blocks = group.rows(index), block_count(c, self.config)
        ins, out = self.rectangles.strip_words(layer, index, rows, w, blocks)
        return LayerPlan(rows, w, ins, out, blocks, 2, self.folds[index], group.cuts[index - group.first])

    # Strips

    def live_words(self, index: int) -> int:
        """Words of the resident values that live while a layer runs."""
        return sum(blocked_words(self.values[k], self.config) for k in self.resident
                   if self.span(k)[0] <= index <= self.span(k)[1])

    def kept(self, value: Value) -> bool:
        """Whether a value needs no strips: it is resident, rolls, or lies inside a resident one."""
        part = self.parts.get(id(value))
        return id(value) in self.resident or id(value) in self.rolling or (
            part is not None and id(part[0]) in self.resident)

    def _settle(self) -> None:
        """Send both tensors of a turn to memory if one of them goes there."""
        before = None
        while before != self.resident:
            before = self.resident.copy()
            for layer in self.graph.layers:
                ends = {id(value) for value in (*layer.inputs, layer.output)}
                if isinstance(layer, Turn) and not ends <= self.resident:
                    self.resident -= ends

    def run(self) -> Plan:
        while True:
            self._settle()
            plans: list[LayerPlan] = []
            groups: list[Group] = []
            ends = dict(self.spans())
            while len(plans) < len(self.graph.layers):
                index = len(plans)
                budget = self.capacity - self._ring_least(index, ends.get(index, index)) - self.live_words(index)
                if index in ends:
                    made = self._group(index, ends[index], budget)
                    if made is None:
                        self._demote(index, self.graph.layers[index:ends[index] + 1])
                        break
                    groups.append(made[0])
                    plans += made[1]
                    continue
                layer = self.graph.layers[index]
                plan = None
                if self.lead and index == 0:
                    plan = self.rectangles.leading(layer, index, self.lead, budget, self.ring_minimum)
                if budget >= 0:
                    plan = plan or self.rectangles.tile(layer, index, self.capacity // 3, budget)
                if plan is None:
                    self._demote(index, (layer,))
                    break
                plans.append(plan)
            else:
                done = self._allocate(plans, groups)
                if done is not None:
                    return done

    def _demote(self, index: int, layers: Sequence[Layer]) -> None:
        """Take a value out of the scratchpad around layer `index`, better one that `layers` do not use."""
        live = [k for k in self._ordered(self.resident) if self.span(k)[0] <= index <= self.span(k)[1]]
        used = {id(v) for layer in layers for v in (*layer.inputs, layer.output)}
        if live:
            live.sort(key=lambda k: (k not in used, self._sparse(k), blocked_words(self.values[k], self.config)),
                      reverse=True)
            large = [k for k in live if blocked_words(self.values[k], self.config) >= self.capacity // _ROLL_SHARE]
            if not any(self._roll(key) for key in large):
                self.resident.discard(live[0])
            return
        span = next((s for s in self.spans() if s[0] <= index <= s[1]), None)
        if span is not None:
            key = min((k for k in self._ordered(self.rolling) if span[0] <= self.defined[k] <= span[1]),
                      key=lambda k: self.values[k].size_bytes)
            self.rolling.discard(key)
            self.barred.add(key)
            return
        needed = self.rectangles.strip_words(self.graph.layers[index], index, 1, 1, 1)
        raise UnsupportedError(
            f"operator {self.graph.layers[index].index} ({self.graph.layers[index].op}) needs at least "
            f"{sum(needed[0]) + needed[1] + self.ring_minimum} scratchpad words, configuration "
            f"{self.config.name!r} has {self.capacity}; a larger scratchpad_bytes helps")

    def _sparse(self, key: int) -> bool:
        """Whether three quarters of a value's words would be empty: it is cheap to have in memory."""
        value = self.values[key]
        return blocked_words(value, self.config) * self.config.block >= 4 * value.size_bytes

    def _allocate(self, plans: list[LayerPlan], groups: list[Group]) -> Plan | None:
        """Place all values and strip buffers; None, with a value less in the scratchpad, where that fails."""
        items = [Item(blocked_words(self.values[key], self.config), *self.span(key), ("value", key, 0, 0))
                 for key in self._ordered(self.resident)]
        for group in groups:
            items += [Item(self._buffer_words(key, group), group.first, group.last, ("value", key, 0, 0))
                      for key in group.rolling]
        lives = {index: (group.first, group.last) for group in groups for index in range(group.first, group.last + 1)}
        for index, plan in enumerate(plans):
            life = lives.get(index, (index, index))
            for slot in range(plan.slots):
                items += [Item(words, *life, ("in", index, position, slot))
                          for position, words in enumerate(plan.in_words)]
                items.append(Item(plan.out_words, *life, ("out", index, 0, slot)))
        bases, placed = first_fit(items, lambda name: self._peers(name, plans))
        tops = [max((high for _, high, a, b in placed if a <= index <= b), default=0) for index in range(len(plans))]
        for index, top in enumerate(tops):
            if top > self.capacity - self._ring_least(*lives.get(index, (index, index))):
                self._demote(index, ())
                return None
        for index, plan in enumerate(plans):
            plan.in_bases = [[bases["in", index, p, s] for s in range(plan.slots)] for p in range(len(plan.in_words))]
            plan.out_bases = [bases["out", index, 0, s] for s in range(plan.slots)]
        resident = {key: bases["value", key, 0, 0] for key in self._ordered(self.resident | self.rolling)}
        parts = {key: part for key, part in self.parts.items() if id(part[0]) in self.resident}
        stored = self._stored()
        for layer, plan in zip(self.graph.layers, plans, strict=True):
            for phase in plan.row_phases:
                if self.kept(layer.output) and isinstance(layer, Mac):
                    host, box = parts.get(id(layer.output), (layer.output, Box(0, 0, 0, 1, 1)))
                    parts[id(phase.output)] = host, phase_box(phase, layer, box)
                if id(layer.output) in stored:
                    stored.add(id(phase.output))
        return Plan(resident, plans, tops, stored, tuple(groups), parts)

    def _peers(self, name: Name, plans: list[LayerPlan]) -> list[Name]:
        """What is read together with a value or strip, word by word: it should start in another bank."""
        kind, key, position, slot = name
        if kind == "in" and len(plans[key].in_words) == 2:
            other = self.graph.layers[key].inputs[1 - position]
            return [("in", key, 1 - position, slot), ("value", id(other), 0, 0)]
        return [("value", id(value), 0, 0) for index in self.uses.get(key, ()) if kind == "value"
                and isinstance(self.graph.layers[index], Elementwise) for value in self.graph.layers[index].inputs
                if id(value) != key]

    def _stored(self) -> set[int]:
        """Values whose dense bytes must exist in system memory."""
        stored = {id(value.root) for value in self.graph.outputs}
        for layer in self.graph.layers:
            for value in layer.inputs:
                # A view of other bytes is loaded from memory, even if it is resident then.
                inside = id(value) in self.parts and self.kept(value)
                if not self.kept(value) or (value.root is not value and not inside):
                    stored.add(id(value.root))
        for layer in self.graph.layers:
            output = layer.output
            if not self.kept(output) or (output.root is not output and (
                    id(output) not in self.parts or id(output.root) in stored)):
                stored.add(id(output))
        return stored


def make_plan(graph: Graph, config: Config, *, resident: bool = False, lead: int = 0) -> Plan:
    """Decide residency, rectangles and addresses; UnsupportedError when a layer cannot fit at all.

    With `resident`, inputs and outputs of the model are whole in the scratchpad, too, where they fit; the
    first layer begins with `lead` rows by slices of its input, where there is room for them.
    """
    return _Planner(graph, config, resident, lead).run()
