"""Search for the schedule that is fastest in the cost model.

The plan determines the addresses of values; the search tries different numbers of rectangles and operations for its
layers. A trial changes one option of all layers that it applies to. The whole program is then emitted, encoded and
timed. A layer keeps the change if it became faster together with the layer after it. If the program with all kept
changes is faster, too, it is the base of the next trial.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.cost.timing import run_times
from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.ir.layers import Elementwise, Graph, Mac, MaxPool
from tq_hw.compiler.plan.places import Choice, Plan
from tq_hw.compiler.stream.stream import Commands
from tq_hw.model.errors import UnsupportedError

__all__ = ["fastest", "search"]

#: The options that are tried, in order.
_MOVES: tuple[dict[str, Any], ...] = ({"dips": True}, {"parts": 4}, {"operation_cycles": 384}, {"parts": 3},
                                     {"tile_slots": 64}, {"tile_slots": 32}, {"table_cycles": 64},
                                     {"table_pieces": True})
#: Most operations that are emitted for trials.
_OPERATIONS = 40_000
#: Least gain for a change: cycles of a layer, and one part in this many of all cycles.
_LEAST_CYCLES, _LEAST_SHARE = 8, 2000
#: Number of following layers whose tables may be loaded during a layer.
_TABLE_LAYERS = 3
#: Least gain, one part in this many of all cycles, for another plan and for early tables: smaller differences may be
#: errors of the model of bursts.
_PLAN_SHARE, _TABLE_SHARE = 100, 50

Choices = Mapping[int, Choice]


class _Trial:
    """One schedule; its times are computed on demand, because a long schedule is compared with no other."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.commands = emitter.stream.assemble()

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """For each layer, the cycle in which it and all layers before it are done."""
        emitter = self.emitter
        times = run_times(emitter.stream, emitter.config, self.commands, emitter.memory)
        ends = [0] * len(emitter.graph.layers)
        for unit, operations in emitter.stream.by_unit.items():
            for operation, done in zip(operations, times[unit][:, 1].tolist(), strict=True):
                ends[operation.layer] = max(ends[operation.layer], done)
        return np.maximum.accumulate(ends)

    @property
    def cycles(self) -> int:
        """The cycle in which all layers are done."""
        return int(self.ends[-1])

    def spent(self, number: int) -> int:
        """Return the cycles from the end of all layers before a layer to the end of the layer after it."""
        last = min(number + 1, len(self.ends) - 1)
        return int(self.ends[last] - (self.ends[number - 1] if number else 0))


def _concerns(move: Mapping[str, Any], graph: Graph, plan: Plan, number: int) -> bool:
    """Whether an option can apply to a layer."""
    layer, made = graph.layers[number], plan.layers[number]
    if not isinstance(layer, Mac | Elementwise | MaxPool) or made.cuts is not None:
        return False
    whole = made.rows >= layer.output.shape[1]
    if "dips" in move:
        return isinstance(layer, Mac) and any(made.in_words) and not whole
    if "table_cycles" in move or "table_pieces" in move:
        near = graph.layers[number + 1:number + (_TABLE_LAYERS if "table_pieces" in move else 1) + 1]
        return isinstance(layer, Mac) and any(table is not None for other in near
                                              for table in getattr(other, "tables", ()))
    if "parts" in move:
        return whole and layer.output.shape[1] > 1
    return isinstance(layer, Mac)


def _fastest(plans: Sequence[Plan], emit: Callable[[Plan, Choices], Emitter]) -> tuple[Plan, _Trial, int]:
    """Return the fastest plan without changes, its schedule, and the number of trials left."""
    plan = plans[0]
    best = _Trial(emit(plan, {}))
    stream = best.emitter.stream
    left = _OPERATIONS // (max(1, len(stream.items)) + stream.work)
    for other in plans[1:1 + max(0, left)]:
        left -= 1
        try:
            tried = _Trial(emit(other, {}))
        except UnsupportedError:  # too many commands
            continue
        if tried.cycles + best.cycles // _PLAN_SHARE < best.cycles:
            best, plan = tried, other
    return plan, best, left


def fastest(plans: Sequence[Plan], emit: Callable[[Plan, Choices], Emitter]) -> tuple[Emitter, Commands]:
    """Return the schedule of the fastest of `plans`, without trials of options, and its commands."""
    _, best, _ = _fastest(plans, emit)
    return best.emitter, best.commands


def search(graph: Graph, plans: Sequence[Plan], others: Sequence[Plan],
           emit: Callable[[Plan, Choices], Emitter]) -> tuple[Emitter, Commands]:
    """Return the best schedule found, and its commands.

    `emit` makes a schedule from a plan and choices. Choices are tried with the fastest of `plans`, and the best choices
    then with the other plans.
    """
    plan, best, left = _fastest(plans, emit)
    choices: Choices = {}

    def attempt(changed: Choices, plan: Plan) -> _Trial:
        nonlocal left
        left -= 1
        return _Trial(emit(plan, changed))

    for move in _MOVES:
        changed = {number: replace(choices.get(number, Choice()), **move) for number in range(len(graph.layers))
                   if _concerns(move, graph, plan, number)}
        if not changed or left < 2:
            continue
        try:
            tried = attempt({**choices, **changed}, plan)
            faster = {number: choice for number, choice in changed.items()
                      if tried.spent(number) + _LEAST_CYCLES < best.spent(number)}
            if faster and len(faster) < len(changed):
                tried = attempt({**choices, **faster}, plan)
        except UnsupportedError:  # too many commands
            continue
        share = _TABLE_SHARE if "table_cycles" in move else _LEAST_SHARE
        if faster and tried.cycles + best.cycles // share < best.cycles:
            best, choices = tried, {**choices, **faster}
    for other in [*(other for other in plans if other is not plan), *others][:max(0, left)]:
        share = _PLAN_SHARE if any(other is one for one in plans) else _LEAST_SHARE
        try:
            tried = attempt(choices, other)
        except UnsupportedError:
            continue
        if tried.cycles + best.cycles // share < best.cycles:
            best = tried
    return best.emitter, best.commands
