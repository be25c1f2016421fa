"""The plan: the address of every value, and the rectangles of every layer.

A value is `resident`, which means whole and blocked in the scratchpad from its definition to its last use, or it passes
through system memory. In the second case its layers work in rectangles of output rows and columns, with strip buffers.

If the values do not fit, the largest roll through a cascade or go to memory. The words that no value needs during a
layer are the ring for weights, parameters and tables.
"""

from collections.abc import Mapping

from tq_hw.compiler.ir.layers import Elementwise, Graph, Mac
from tq_hw.compiler.plan.cascade import Group
from tq_hw.compiler.plan.dilated import phase_box
from tq_hw.compiler.plan.hosts import Box
from tq_hw.compiler.plan.layout import blocked_words
from tq_hw.compiler.plan.places import Item, LayerPlan, Name, Placed, Plan, first_fit
from tq_hw.compiler.plan.residents import Residents
from tq_hw.compiler.plan.uses import Uses
from tq_hw.isa.config import Config

__all__ = ["make_plan"]

#: Layers for which freed words stay unused, and the share of the scratchpad that this may cost.
_REST_LAYERS, _REST_SHARE = 2, 8


class _Planner:
    """Plans layer by layer with the current residents; if something does not fit, demotes a value and starts again."""

    def __init__(self, facts: Uses, config: Config, lead: int, rested: bool) -> None:
        self._facts, self._config, self._lead, self._rested = facts, config, lead, rested
        self._choice = Residents(facts, config)
        self._layers = facts.graph.layers

    def run(self) -> Plan:
        """Return the first plan that fits."""
        while True:
            self._choice.settle()
            cut = self._cut()
            plan = None if cut is None else self._allocate(*cut)
            if plan is not None:
                return plan

    def _cut(self) -> tuple[list[LayerPlan], list[Group]] | None:
        """Cut all layers into rectangles; if that fails, demote a value and return None."""
        choice = self._choice
        plans: list[LayerPlan] = []
        groups: list[Group] = []
        ends, live = dict(choice.spans()), choice.live_words()
        while len(plans) < len(self._layers):
            index = len(plans)
            last = ends.get(index, index)
            budget = choice.capacity - choice.ring_least(index, last) - live[index]
            if index in ends:
                made = choice.group(index, last, budget)
                if made is not None:
                    groups.append(made[0])
                    plans += made[1]
            else:
                plan = self._rectangles(index, budget)
                if plan is not None:
                    plans.append(plan)
            if len(plans) == index:
                choice.demote(index, self._layers[index:last + 1])
                return None
        return plans, groups

    def _rectangles(self, index: int, budget: int) -> LayerPlan | None:
        """Return rectangles and strips of one layer in `budget` words."""
        choice, layer = self._choice, self._layers[index]
        plan = None
        if self._lead and index == 0:
            plan = choice.rectangles.leading(layer, index, self._lead, budget, choice.ring_minimum)
        if budget >= 0:
            plan = plan or choice.rectangles.tile(layer, index, choice.capacity // 3, budget)
        return plan

    def _allocate(self, plans: list[LayerPlan], groups: list[Group]) -> Plan | None:
        """Place all values and strip buffers; if that fails, demote a value and return None."""
        choice = self._choice
        lives = {index: (group.first, group.last) for group in groups for index in range(group.first, group.last + 1)}
        bases, placed = self._place(self._items(plans, groups, lives), plans)
        tops = [max((high for _, high, a, b in placed if a <= index <= b), default=0) for index in range(len(plans))]
        for index, top in enumerate(tops):
            if top > choice.capacity - choice.ring_least(*lives.get(index, (index, index))):
                choice.demote(index, ())
                return None
        for index, plan in enumerate(plans):
            plan.in_bases = [[bases["in", index, p, s] for s in range(plan.slots)] for p in range(len(plan.in_words))]
            plan.out_bases = [bases["out", index, 0, s] for s in range(plan.slots)]
        inside = self._facts.ordered(choice.resident | choice.rolling)
        parts = {key: part for key, part in self._facts.parts.items() if id(part[0]) in choice.resident}
        stored = self._stored()
        for layer, plan in zip(self._layers, plans, strict=True):
            for phase in plan.row_phases:
                if choice.kept(layer.output) and isinstance(layer, Mac):
                    host, box = parts.get(id(layer.output), (layer.output, Box(0, 0, 0, 1, 1)))
                    parts[id(phase.output)] = host, phase_box(phase, layer, box)
                if id(layer.output) in stored:
                    stored.add(id(phase.output))
        return Plan({key: bases["value", key, 0, 0] for key in inside}, plans, tops, stored, tuple(groups), parts)

    def _place(self, items: list[Item], plans: list[LayerPlan]) -> tuple[dict[Name, int], list[Placed]]:
        """Place all items, with unused layers between them if that is requested and costs few words."""
        def top(placed: list[Placed]) -> int:
            return max((high for _, high, _, _ in placed), default=0)
        closely = first_fit(items, lambda name: self._peers(name, plans))
        if self._rested:
            rested = first_fit(items, lambda name: self._peers(name, plans), _REST_LAYERS)
            if top(rested[1]) <= max(top(closely[1]), self._choice.capacity // _REST_SHARE):
                return rested
        return closely

    def _items(self, plans: list[LayerPlan], groups: list[Group], lives: Mapping[int, tuple[int, int]]) -> list[Item]:
        """Items to place in the scratchpad: their words and the layers during which they are needed."""
        choice, facts = self._choice, self._facts
        items = [Item(blocked_words(facts.values[key], self._config), *life, ("value", key, 0, 0))
                 for key, life in choice.lives().items()]
        for group in groups:
            items += [Item(choice.buffer_words(key, group), group.first, group.last, ("value", key, 0, 0))
                      for key in group.rolling]
        for index, plan in enumerate(plans):
            life = lives.get(index, (index, index))
            for slot in range(plan.slots):
                items += [Item(words, *life, ("in", index, position, slot))
                          for position, words in enumerate(plan.in_words)]
                items.append(Item(plan.out_words, *life, ("out", index, 0, slot)))
        return items

    def _peers(self, name: Name, plans: list[LayerPlan]) -> list[Name]:
        """Values and strips that are read together with this one, word by word: they should start in another bank."""
        kind, key, position, slot = name
        if kind == "in" and len(plans[key].in_words) == 2:
            other = self._layers[key].inputs[1 - position]
            return [("in", key, 1 - position, slot), ("value", id(other), 0, 0)]
        users = [self._layers[index] for index in self._facts.users.get(key, ()) if kind == "value"]
        return [("value", id(value), 0, 0) for layer in users if isinstance(layer, Elementwise)
                for value in layer.inputs if id(value) != key]

    def _stored(self) -> set[int]:
        """Values whose dense bytes must exist in system memory."""
        kept, parts = self._choice.kept, self._facts.parts
        stored = {id(value.root) for value in self._facts.graph.outputs}
        for layer in self._layers:
            for value in layer.inputs:
                # A view of other bytes is loaded from memory, even if it becomes resident.
                inside = id(value) in parts and kept(value)
                if (not kept(value) or (value.root is not value and not inside)
                        or self._facts.read_from_memory(id(value))):
                    stored.add(id(value.root))
        for layer in self._layers:
            output = layer.output
            if not kept(output) or (output.root is not output and (
                    id(output) not in parts or id(output.root) in stored)):
                stored.add(id(output))
        return stored


def make_plan(graph: Graph, config: Config, *, resident: bool = False, lead: int = 0,
              in_pieces: bool = True, rested: bool = False) -> Plan:
    """Decide residency, rectangles and addresses; raise UnsupportedError if a layer cannot fit at all.

    - `resident`: inputs and outputs of the model are whole in the scratchpad, too, if they fit.
    - `lead`: rows of a first rectangle that begins with slices of its input, if there is room for them.
    - `in_pieces`: a layer may read its input once for each word of its windows.
    - `rested`: successive layers use different words, if there is room, so that loads need not wait for the layers
      before.
    """
    return _Planner(Uses(graph, config, resident, in_pieces), config, lead, rested).run()
