"""`compile_model`: the passes from a model to a compiled file; `passes.py` lists what holds after each."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from tq_hw.compiler.cost.events.timing import program_times
from tq_hw.compiler.cost.report import LayerReport, report
from tq_hw.compiler.cost.timing import Timeline
from tq_hw.compiler.emit.emission import emission
from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.interleave import emit_layers
from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.limits import check_commands, check_tensors
from tq_hw.compiler.lower import (
    conv,
    elementwise,
    float_resize,
    gather,
    matmul,
    movement,
    packed_float,
    place,
    pooling,
    positions,
    quantize,
    ranking,
    rearrange,
    recurrent,
    reduce,
    resize,
    select,
    soft_float,
    softmax,
    state,
)
from tq_hw.compiler.lower.legalize import WINDOW_LIMIT, legalize
from tq_hw.compiler.passes import Observer, unobserved
from tq_hw.compiler.plan.layout import has_room
from tq_hw.compiler.plan.lead import leads
from tq_hw.compiler.plan.places import Choice, Plan
from tq_hw.compiler.plan.plan import make_plan
from tq_hw.compiler.rewrite.channels import picks
from tq_hw.compiler.rewrite.groups import parts_of_groups
from tq_hw.compiler.rewrite.pools import pools_of_lines
from tq_hw.compiler.rewrite.rewrite import Pattern
from tq_hw.compiler.search import search
from tq_hw.compiler.specialize.attention import attention_inside
from tq_hw.compiler.specialize.in_place import in_place
from tq_hw.compiler.specialize.matrices import whole_matrices
from tq_hw.compiler.specialize.one_shape import one_shape
from tq_hw.compiler.specialize.product_tables import join_product_tables
from tq_hw.compiler.specialize.rows import spread_rows
from tq_hw.compiler.specialize.specialize import specialize
from tq_hw.compiler.specialize.transposed_scores import transpose_scores
from tq_hw.compiler.verify import verify, verify_makers, verify_places
from tq_hw.isa.config import Config
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Port, Program
from tq_hw.isa.program_rules import ProgramError
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.sim.golden.profiles import check_profile

__all__ = ["Compiled", "compile_model", "plan_model", "rested_plans", "without_collector"]

#: The modules whose import registers the lowerings.
LOWERING_MODULES = (conv, elementwise, float_resize, gather, matmul, movement, packed_float, place, pooling,
                    positions, quantize, ranking, rearrange, recurrent, reduce, resize, select, soft_float, softmax,
                    state)


@dataclass(frozen=True)
class Compiled:
    """A program, with its report and intermediate results.

    Members
    -------
    program : the compiled file
    report : one row per operator in the order of execution
    timeline : estimated begin and end of each RUN, by unit
    emitter : graph, plan and operations that the program was made from; see `memory_map`
    """

    program: Program
    report: tuple[LayerReport, ...]
    timeline: Timeline = field(repr=False)
    emitter: Emitter = field(repr=False)


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable the collector of cyclic garbage: it takes an eighth of the time, and a stream has no cycles."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@without_collector()
def compile_model(model: Model, config: Config, *, profile: str | None = None, resident: bool = False,
                  patterns: Sequence[Pattern] = (), memory: Memory | None = None,
                  observe: Observer = unobserved) -> Compiled:
    """Compile the main subgraph of `model` for `config`.

    - `profile`: the arithmetic, "canon", "tflm" or "litert"; by default the model's.
    - `patterns` are tried before the library's; their result is compared with the model on random inputs.
    - `memory`: the system memory of the schedule search and the estimates, by default that of the yardsticks; results
      do not depend on it.
    - `observe` is called with the name and the result of each pass: Graph, Plan, Emitter or Program.
    - `resident` keeps the model's inputs and outputs whole in the scratchpad, to measure a single layer.

    Raises UnsupportedError (operator, index, reason), ModelError, or OptionError for an unknown profile.
    """
    model = model if profile is None else model.under(profile)
    graph, plan = plan_model(model, config, patterns, resident, observe)

    def emit(plan: Plan, choices: Mapping[int, Choice]) -> Emitter:
        made = Emitter(graph, plan, config, memory or Memory(), choices)
        emit_layers(made, emission)
        return made

    others = [*_plans_for_slow_memory(graph, config, resident, plan, memory or Memory()),
              *_lead_plans(graph, config, resident)]
    plans = [plan, *rested_plans(graph, config, resident, plan)]
    emitter, commands = search(graph, plans, others, emit)
    observe("emit", emitter)
    verify(emitter)
    observe("verify", emitter)
    times = program_times(emitter.stream, config, commands, emitter.memory, emitter.image.end)
    rows = report(graph, emitter.stream, config, times)
    program = _assemble(model, graph, emitter, commands.data, rows)
    observe("assemble", program)
    return Compiled(program, rows, times, emitter)


def plan_model(model: Model, config: Config, patterns: Sequence[Pattern] = (), resident: bool = False,
               observe: Observer = unobserved) -> tuple[Graph, Plan]:
    """Return the layers of a model and their plan, from the passes before the emission of commands.

    Arguments and errors are those of `compile_model`. `passes.py` lists what holds after each pass.
    """
    check_profile(model)
    # On the serial machine, which multiplies one number at a time, moves are faster than convolutions that pick.
    picked = () if config.design == "serial" else picks(config.gemm_rows, config.cols, config.word_bytes)
    machine_patterns = (parts_of_groups(config.word_bytes),
                        pools_of_lines(config.scratchpad_words, config.word_bytes), *picked)
    # Three eighths are left for the odd pitch of the window's rows, and for weights and parameters.
    window_limit = min(WINDOW_LIMIT, config.scratchpad_words * 5 // 8)
    legal = legalize(model, patterns, machine_patterns, window_limit=window_limit,
                     has_room=partial(has_room, config=config))
    verify_makers(legal, legal)
    observe("legalize", legal)

    graph = in_place(legal)
    verify_places(legal, graph)
    observe("in_place", graph)

    transposed = join_product_tables(transpose_scores(graph, config), config)
    transposed = attention_inside(whole_matrices(transposed, config), config)
    verify_makers(graph, transposed)
    graph = transposed
    observe("products", graph)

    shaped = one_shape(graph, config)
    verify_places(graph, shaped)
    graph = shaped
    observe("one_shape", graph)

    special = specialize(graph, config)
    verify_makers(graph, special)
    observe("specialize", special)

    graph = spread_rows(special, config)
    verify_makers(special, graph)
    observe("spread_rows", graph)
    check_tensors(model.name, graph)

    plan = make_plan(graph, config, resident=resident)
    observe("plan", plan)
    check_commands(graph, plan, config)
    return graph, plan


def _assemble(model: Model, graph: Graph, emitter: Emitter, commands: bytes, rows: Sequence[LayerReport]) -> Program:
    """Append the commands to the constants, and name the ports; raise UnsupportedError for too large a program."""
    offset = emitter.image.add(commands)
    try:
        return Program(
            model.name, emitter.config, bytes(emitter.image.data), offset, len(commands), emitter.arena_bytes,
            inputs=tuple(_port(model, graph, emitter, index, value)
                         for index, value in zip(model.main.inputs, graph.inputs, strict=True)),
            outputs=tuple(_port(model, graph, emitter, index, value)
                          for index, value in zip(model.main.outputs, graph.outputs, strict=True)),
            state=bytes(emitter.state),
            layers=tuple(row.layer for row in rows), profile=model.profile)
    except ProgramError as error:
        raise UnsupportedError(f"{model.name}: {error}; use smaller tensors") from None


def _plans_for_slow_memory(graph: Graph, config: Config, resident: bool, plan: Plan, memory: Memory) -> list[Plan]:
    """Return a plan whose layers read their inputs once, if windows of several words read them more often."""
    if 2 * memory.bytes_per_cycle >= config.bus_bytes or not any(
            made.fold is not None and made.fold.pieces > 1 for made in plan.layers):
        return []
    try:
        return [make_plan(graph, config, resident=resident, in_pieces=False)]
    except UnsupportedError:  # the plan with such windows remains
        return []


def rested_plans(graph: Graph, config: Config, resident: bool, plan: Plan) -> list[Plan]:
    """Return a plan in which fewer layers wait for words that another layer uses, if it differs from `plan`."""
    rested = make_plan(graph, config, resident=resident, rested=True)
    return [] if rested.resident == plan.resident and rested.layers == plan.layers else [rested]


def _lead_plans(graph: Graph, config: Config, resident: bool) -> list[Plan]:
    """Return plans whose first layer begins with slices of its input, if there is room."""
    found = []
    for rows in leads(graph, config):
        try:
            plan = make_plan(graph, config, resident=resident, lead=rows)
        except UnsupportedError:  # the plan without slices remains
            continue
        if plan.layers[0].lead_rows:
            found.append(plan)
    return found


def _port(model: Model, graph: Graph, emitter: Emitter, tensor_index: int, value: Value) -> Port:
    outer = model.main.tensors[tensor_index]
    inner = graph.edges.get(tensor_index, outer)
    region, offset = emitter.memory_of(value)
    quantization = inner.quantization
    edge = "none"
    if outer is not inner:
        edge = "quantize" if tensor_index in model.main.inputs else "dequantize"
    return Port(outer.name, inner.dtype, outer.shape, quantization.scale[0] if quantization else 0.0,
                quantization.zero_point[0] if quantization else 0, offset, value.size_bytes, edge, region)
