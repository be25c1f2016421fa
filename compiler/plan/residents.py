"""The choice of values in the scratchpad: resident, or rolling through a cascade; the others go through memory."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter

from tq_hw.compiler.ir.layers import Layer, Mac
from tq_hw.compiler.ir.staged import Columns, Parts, Staged, Transpose
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.cascade import Group, cascades, schedule
from tq_hw.compiler.plan.layout import GRANULE_WORDS, block_count, blocked_words, ring_minimum, row_words
from tq_hw.compiler.plan.places import LayerPlan, alternates
from tq_hw.compiler.plan.rectangles import Rectangles, constant_words
from tq_hw.compiler.plan.uses import Uses
from tq_hw.isa.config import Config
from tq_hw.isa.legality import TABLE_BYTES
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import UnsupportedError

__all__ = ["Residents"]

#: Half of a table is in the ring at a time.
_HALF_TABLE_BYTES = TABLE_BYTES // 2
#: A value with less than this share of the scratchpad does not roll to make room.
_ROLL_SHARE = 16
#: Most layers of a group.
_GROUP_LAYERS = 8


class Residents:
    """The residents of a plan; values are demoted one by one until everything fits.

    Members
    -------
    facts : the graph
    capacity, ring_minimum : words of the scratchpad, and of the ring of a layer with weights
    resident, rolling : ids of resident values, and of values in rolling buffers
    rectangles : the cuts of layers under this choice
    """

    def __init__(self, facts: Uses, config: Config) -> None:
        self.facts, self.config = facts, config
        self.capacity = config.scratchpad_words
        self.ring_minimum = ring_minimum(config)
        self.rectangles = Rectangles(config, facts.folds, self.kept)
        self.resident = {key for key in facts.values if facts.may_reside(key, self.capacity - self.ring_minimum)}
        self.rolling: set[int] = set()
        self._barred: set[int] = set()  #: values whose rolling did not help
        #: By first and last layer, rolling values, rows of a strip, and strips of room.
        self._groups: dict[tuple[int, int, frozenset[int], int, int], Group | None] = {}
        large = [key for key in facts.values if key not in self.resident]
        for key in sorted(large, key=lambda key: -blocked_words(facts.values[key], config)):
            self._roll(key)

    def lives(self) -> dict[int, tuple[int, int]]:
        """First and last layer that use each resident value, in the order of the graph."""
        spans = self.spans()
        return {key: self._life(key, spans) for key in self.facts.ordered(self.resident)}

    def _life(self, key: int, spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """First and last layer that use a value; layers that alternate count as one, as does a group."""
        users = self.facts.users.get(key, [])
        first = self.facts.defined.get(key, users[0] if users else 0)
        last = max([first, self.facts.finished.get(key, first), *users])
        layers = self.facts.graph.layers
        if first > 0 and alternates(layers[first - 1], layers[first]):
            first -= 1
        if last + 1 < len(layers) and alternates(layers[last], layers[last + 1]):
            last += 1
        # Groups are disjoint and in order: skip those that end before the value is defined.
        for low, high in spans[bisect_left(spans, first, key=itemgetter(1)):]:
            if low > last:
                break
            first, last = min(first, low), max(last, high)
        return first, last

    def spans(self) -> list[tuple[int, int]]:
        """First and last layer of each group."""
        found: list[tuple[int, int]] = []
        for low, high in sorted((self.facts.defined[key], max(self.facts.users[key])) for key in self.rolling):
            if found and low <= found[-1][1]:
                found[-1] = (found[-1][0], max(found[-1][1], high))
            else:
                found.append((low, high))
        return found

    def kept(self, value: Value) -> bool:
        """Whether a value needs no strips: it is resident, rolls, or is inside a resident value."""
        part = self.facts.parts.get(id(value))
        return id(value) in self.resident or id(value) in self.rolling or (
            part is not None and id(part[0]) in self.resident)

    def live_words(self) -> list[int]:
        """Words of the resident values in use during each layer."""
        changes = [0] * (len(self.facts.graph.layers) + 1)
        for key, (first, last) in self.lives().items():
            words = blocked_words(self.facts.values[key], self.config)
            changes[first] += words
            changes[last + 1] -= words
        return list(accumulate(changes[:-1]))

    def settle(self) -> None:
        """Send all tensors of a layer that works within the scratchpad to memory if one of them is there.

        The results of a product of parts may be in memory.
        """
        before = None
        while before != self.resident:
            before = self.resident.copy()
            for layer in self.facts.graph.layers:
                ends = {id(value) for value in (*layer.inputs, layer.output)}
                needed = {id(value) for value in layer.inputs} if isinstance(layer, Parts) else ends
                if isinstance(layer, Columns | Parts | Transpose) and not needed <= self.resident:
                    self.resident -= ends

    def _roll(self, key: int) -> bool:
        """Let a value roll through a group of layers, if there is a group for it."""
        if key in self._barred or not self.facts.is_made_and_used_here(key):
            return False
        low, high = self.facts.defined[key], max(self.facts.users[key])
        near = [span for span in self.spans() if span[0] <= high and low <= span[1]]
        first, last = min([low, *(s[0] for s in near)]), max([high, *(s[1] for s in near)])
        if len(near) > 1 or not self._is_cascadable(first, last):
            return False
        was = self.resident.copy()
        self.rolling.add(key)
        self.resident = {k for k in self.resident if k != key}
        if self.group(first, last, self.capacity - self.ring_least(first, last)) is None:
            self.rolling.discard(key)
            self.resident = was
            return False
        return True

    def _is_cascadable(self, first: int, last: int) -> bool:
        """Whether layers `first`..`last` can be a group.

        They must be few and work by rows; at most one folds windows; each half of the table has one content for all of
        them; their constants need at most half of the scratchpad.
        """
        layers = self.facts.graph.layers[first:last + 1]
        folded = sum(self.facts.folds[index] is not None for index in range(first, last + 1))
        tables = {(half, table.tobytes()) for layer in layers
                  for half, table in enumerate(getattr(layer, "tables", ())) if table is not None}
        return (last - first < _GROUP_LAYERS and all(cascades(layer) for layer in layers) and folded <= 1
                and len(tables) == len({half for half, _ in tables}) and not _reads_views(layers)
                and self.ring_least(first, last) <= self.capacity // 2)

    def ring_least(self, first: int, last: int) -> int:
        """Words of the ring for layers `first`..`last`: all constants of a group, and some room for the next layer."""
        if first == last:
            layer = self.facts.graph.layers[first]
            if isinstance(layer, Mac | Staged):
                return self.ring_minimum
            tables = any(table is not None for table in getattr(layer, "tables", ()))
            half = _HALF_TABLE_BYTES // self.config.word_bytes
            return min(self.ring_minimum, max(self.capacity // 16, half * tables))
        words = sum(constant_words(self.facts.graph.layers[index], self.facts.folds[index], self.config)
                    for index in range(first, last + 1))
        # Each layer has weights and parameters, in whole granules.
        gaps = GRANULE_WORDS * (2 * (last - first + 1) + 1)
        return max(self.ring_minimum, words + max(self.ring_minimum // 4, gaps))

    def group(self, first: int, last: int, budget: int) -> tuple[Group, list[LayerPlan]] | None:
        """Return strips and buffers of a group in `budget` words: the tallest strips, then the most room to roll."""
        height = self.facts.graph.layers[last].output.shape[1]
        rolling = {key for key in self.rolling if first <= self.facts.defined[key] <= last}
        for parts in range(4, height + 1):
            rows = ceil_div(height, parts)
            if parts > 4 and rows == ceil_div(height, parts - 1):
                continue
            for extra in (3, 2, 1, 0):
                group = self._schedule(first, last, rolling, rows, extra)
                if group is None:
                    continue
                plans = [self._strip_plan(group, index) for index in range(first, last + 1)]
                words = sum(plan.slots * (sum(plan.in_words) + plan.out_words) for plan in plans)
                if words + self._rolling_words(group) <= budget:
                    return group, plans
        return None

    def _schedule(self, first: int, last: int, rolling: set[int], rows: int, extra: int) -> Group | None:
        """Return a group as `schedule` does, each computed once: it is needed whenever a value was demoted."""
        key = (first, last, frozenset(rolling), rows, extra)
        if key not in self._groups:
            self._groups[key] = schedule(self.facts.graph.layers[first:last + 1], first, rolling, rows, extra)
        return self._groups[key]

    def _rolling_words(self, group: Group) -> int:
        return sum(self.buffer_words(key, group) for key in group.rolling)

    def buffer_words(self, key: int, group: Group) -> int:
        """Words of the rolling buffer of a value."""
        _, _, w, c = self.facts.values[key].shape
        return group.rolling[key].rows * row_words(w, block_count(c, self.config))

    def _strip_plan(self, group: Group, index: int) -> LayerPlan:
        layer = self.facts.graph.layers[index]
        _, _, w, c = layer.output.shape
        rows, blocks = group.rows(index), block_count(c, self.config)
        ins, out = self.rectangles.strip_words(layer, index, rows, w, blocks)
        return LayerPlan(rows, w, ins, out, blocks, 2, self.facts.folds[index], group.cuts[index - group.first])

    def demote(self, index: int, layers: Sequence[Layer]) -> None:
        """Demote a value in use at layer `index`, preferably one that `layers` do not use."""
        live = [key for key, (first, last) in self.lives().items() if first <= index <= last]
        used = {id(v) for layer in layers for v in (*layer.inputs, layer.output)}
        if live:
            live.sort(key=lambda k: (k not in used, self._sparse(k), blocked_words(self.facts.values[k], self.config)),
                      reverse=True)
            least = self.capacity // _ROLL_SHARE
            large = [key for key in live if blocked_words(self.facts.values[key], self.config) >= least]
            if not any(self._roll(key) for key in large):
                self.resident.discard(live[0])
            return
        span = next((s for s in self.spans() if s[0] <= index <= s[1]), None)
        if span is not None:
            key = min((k for k in self.facts.ordered(self.rolling) if span[0] <= self.facts.defined[k] <= span[1]),
                      key=lambda k: self.facts.values[k].size_bytes)
            self.rolling.discard(key)
            self._barred.add(key)
            return
        needed = self.rectangles.strip_words(self.facts.graph.layers[index], index, 1, 1, 1)
        raise UnsupportedError(
            f"operator {self.facts.graph.layers[index].index} ({self.facts.graph.layers[index].op}) needs at least "
            f"{sum(needed[0]) + needed[1] + self.ring_minimum} scratchpad words, configuration "
            f"{self.config.name!r} has {self.capacity}; a larger scratchpad_bytes helps")

    def _sparse(self, key: int) -> bool:
        """Whether three quarters of a value's words would be empty: it costs little in memory."""
        value = self.facts.values[key]
        return blocked_words(value, self.config) * self.config.block >= 4 * value.size_bytes


def _reads_views(layers: Sequence[Layer]) -> bool:
    """Whether one of the layers reads another view of bytes that one of them computes."""
    made = {layer.output for layer in layers}
    roots = {value.root for value in made}
    return any(value.root in roots and value not in made for layer in layers for value in layer.inputs)
