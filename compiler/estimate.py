"""Estimate of a model's cycles on a configuration: its plan is emitted once and timed, without a whole compile.

If a plan with unused layers between allocations exists (`rested`), it is emitted, too, and the faster one counts, as in
a compile. A compile also tries further schedules and checks the commands of the best. That takes five to ten times as
long, for a schedule that is as fast or a few percent faster. The estimate serves to choose among hundreds of
configurations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tq_hw.compiler.compile import plan_model, rested_plans, without_collector
from tq_hw.compiler.cost.events.timing import program_times
from tq_hw.compiler.cost.report import report
from tq_hw.compiler.emit.emission import emission
from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.interleave import emit_layers
from tq_hw.compiler.plan.places import Choice, Plan
from tq_hw.compiler.search import fastest
from tq_hw.isa.config import Config
from tq_hw.isa.memory import Memory
from tq_hw.model.graph import Model

__all__ = ["Estimate", "estimate_model", "estimated_as"]

#: The only operator that uses activation lanes.
_ACTIVATES = "UNIDIRECTIONAL_SEQUENCE_LSTM"


@dataclass(frozen=True)
class Estimate:
    """One inference from a cold start.

    Members
    -------
    cycles : from start to done, of the plan's own schedule; a compile keeps it or finds a faster one
    macs : multiply-accumulates of the model
    bytes : moved to and from system memory, without commands
    memory_bytes : size in system memory: constants, commands, arena and state
    bounds : cycles of the layers by their bound: "compute", "weights", "activations", "vector"
    """

    cycles: int
    macs: int
    bytes: int
    memory_bytes: int
    bounds: dict[str, int]

    @property
    def bound(self) -> str:
        """The bound of most cycles."""
        return max(self.bounds, key=lambda name: self.bounds[name], default="")


@without_collector()
def estimate_model(model: Model, config: Config, memory: Memory | None = None) -> Estimate:
    """Estimate the main subgraph of `model` on `config` with a memory, by default the yardsticks'.

    Raises UnsupportedError where `compile_model` does, except for errors that only its check of the commands finds.
    """
    memory = memory or Memory()
    graph, plan = plan_model(model, config)

    def emit(plan: Plan, choices: Mapping[int, Choice]) -> Emitter:
        made = Emitter(graph, plan, config, memory, choices)
        emit_layers(made, emission)
        return made

    emitter, commands = fastest([plan, *rested_plans(graph, config, False, plan)], emit)
    times = program_times(emitter.stream, config, commands, memory, emitter.image.end)
    rows = report(graph, emitter.stream, config, times)
    bounds: dict[str, int] = {}
    for row in rows:
        bounds[row.bound] = bounds.get(row.bound, 0) + row.cycles
    size = len(emitter.image.data) + len(commands.data) + emitter.arena_bytes + len(emitter.state)
    return Estimate(sum(row.cycles for row in rows), sum(row.macs for row in rows), sum(row.bytes for row in rows),
                    size, bounds)


def estimated_as(model: Model, config: Config) -> Config:
    """Return the machine without the options that do not affect the estimate of `model`.

    `acc_open` serves first layers that begin with slices, for which only a compile makes plans. `activation_lanes`
    serve only LSTM layers.
    """
    activates = any(op.op == _ACTIVATES for subgraph in model.subgraphs for op in subgraph.operators)
    return replace(config, acc_open=0, activation_lanes=config.activation_lanes if activates else 0)
