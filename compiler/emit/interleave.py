"""The order of emission: an elementwise layer overlaps with the layer that feeds it.

The vector unit is idle for part of the array's time. If an elementwise layer follows its producer, the rectangles of
both alternate: the second layer works on a rectangle while the array computes the first layer's next one.

A table is loaded into the vector unit during an earlier layer, the one that leaves it the most time. Table 1 and table
2 of a layer may be loaded during different ones.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.rows import prepare_rows
from tq_hw.compiler.ir.layers import Elementwise, Layer, Mac, RowProgram
from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.plan.cascade import Group
from tq_hw.compiler.plan.layout import blocked_words
from tq_hw.compiler.plan.places import Choice, LayerPlan, alternates
from tq_hw.compiler.stream.program_places import place_programs
from tq_hw.isa.legality import TABLE_BYTES, TABLE_ENTRIES
from tq_hw.isa.sizes import ceil_div

__all__ = ["emit_layers"]

#: Tables are loaded early if the ring is this many times as large.
_TABLE_SHARE = 8
#: Most micro-operations of the layers of a group, whose programs must all be present.
_GROUP_UOPS = 24
#: Most cycles that the first sums of a layer wait for a second table.
_LATE_CYCLES = 200
Emission = Callable[[Emitter, Layer, LayerPlan], Iterator[None]]
#: Contents of tables 1 and 2.
Tables = tuple[IntArray | None, IntArray | None]


def _follows(emitter: Emitter, index: int) -> bool:
    """Whether the layer after layer `index` may alternate with it; both are then cut into the same rows."""
    layers, plan = emitter.graph.layers, emitter.plan
    if (index + 1 == len(layers) or not alternates(layers[index], layers[index + 1])
            or plan.group_of(index) is not None or plan.group_of(index + 1) is not None):
        return False
    _, height, width, _ = layers[index].output.shape
    if all(any(table is not None for table in getattr(layer, "tables", ())) for layer in layers[index:index + 2]):
        return False
    uncut = all(p.rows >= height and p.cols >= width for p in plan.layers[index:index + 2])
    return uncut and width <= emitter.config.acc_words and all(
        id(value) in plan.resident for value in (*layers[index + 1].inputs, layers[index].output,
                                                 layers[index + 1].output))


def _early_tables(emitter: Emitter) -> dict[int, list[tuple[Layer, Tables]]]:
    """Return for each layer the tables that are loaded during it, and the layers that use them."""
    early: dict[int, list[tuple[Layer, Tables]]] = {}
    loads = Counter[int]()
    #: First layer after the last one that uses table 1, and table 2; and the contents that they then have.
    free, held = [0, 0], [b"", b""]
    for index, layer in enumerate(emitter.graph.layers):
        tables: Tables = getattr(layer, "tables", (None, None))
        contents = [b"" if table is None else table.tobytes() for table in tables]
        halves = [half for half, content in enumerate(contents) if content]
        group = emitter.plan.group_of(index)
        last = index - 1 if index and _follows(emitter, index - 1) else index
        last, after = (last, index + 1) if group is None else (group.first, group.last + 1)
        # The program of rows comes with all of its tables.
        parts = [halves] if isinstance(layer, RowProgram) and halves else [[half] for half in halves]
        for part in parts:
            if all(contents[half] == held[half] for half in part):
                continue
            best = _most_slack(emitter, max(free[half] for half in part), last, loads)
            loads[index if best is None else best] += len(part)
            if best is not None:
                wanted = [table if half in part else None for half, table in enumerate(tables)]
                early.setdefault(best, []).append((layer, (wanted[0], wanted[1])))
        for half in halves:
            free[half], held[half] = after, contents[half]
    return early


def _most_slack(emitter: Emitter, first: int, last: int, loads: Mapping[int, int]) -> int | None:
    """Return the layer from `first` to before `last` that leaves the vector unit the most time for a table, or None.

    A layer that loads tables already can load another if this ends not long after the sums of its first tile, or if it
    waits for its weights.
    """
    config = emitter.config
    slack: dict[int, int] = {}
    for number, layer in enumerate(emitter.graph.layers[first:last], first):
        room = config.scratchpad_words - emitter.plan.ring_bases[number]
        if not isinstance(layer, Mac) or room * config.word_bytes < _TABLE_SHARE * TABLE_BYTES:
            continue
        n, h, w, c = layer.output.shape
        blocks = ceil_div(c, config.cols)
        cycles = layer.dense_macs * blocks * config.cols // (c * config.macs)
        host = emitter.plan.group_of(number)
        place = number if host is None else host.first
        tile = cycles * min(h * w, config.acc_words) // (n * h * w * blocks)
        waits = emitter.memory.cycles(config, ceil_div(layer.weights.size, config.bus_bytes)) > cycles
        if loads.get(place) and (loads[place] + 1) * TABLE_ENTRIES // 2 > tile + _LATE_CYCLES and not waits:
            continue
        slack[place] = slack.get(place, 0) + cycles - blocked_words(layer.output, config) * config.beats_per_word + (
            emitter.choices.get(number, Choice()).table_cycles)
    best = max(slack, key=lambda number: (slack[number], number), default=None)
    return best if best is not None and slack[best] > 0 else None


def _prepare(emitter: Emitter, user: Layer, tables: Tables, started: bool = False) -> None:
    """Load tables and a long program of a later layer, but do not overwrite that of a layer that has `started`."""
    if isinstance(user, RowProgram):
        count = emitter.config.uops // 2 + _GROUP_UOPS
        if started and not emitter.has_program_room(count):
            emitter.tables(tables)
            return
        emitter.reserve_program(count)
        prepare_rows(emitter, user)
    else:
        emitter.tables(tables, between=emitter.choice().table_pieces)


def _emit_group(emitter: Emitter, group: Group, emission: Emission) -> None:
    """Emit the strips of a cascade in order."""
    layers, plans = emitter.graph.layers, emitter.plan.layers
    emitter.reserve_program(_GROUP_UOPS)
    for layer in layers[group.first:group.last + 1]:
        if isinstance(layer, Elementwise | Mac):
            emitter.tables(layer.tables)
    with emitter.scope(hold=True):
        steps = {index: emission(emitter, layers[index], plans[index]) for index in range(group.first, group.last + 1)}
        for index, _ in group.order:
            emitter.layer_index = index
            next(steps[index])
        for index, rest in steps.items():
            emitter.layer_index = index
            for _ in rest:
                raise AssertionError(f"layer {index} has more strips than its group")


def emit_layers(emitter: Emitter, emission: Emission) -> None:
    """Emit all layers of the graph in an order that keeps array and vector unit busy at the same time."""
    layers, plans = emitter.graph.layers, emitter.plan.layers
    early = _early_tables(emitter)
    index = 0
    while index < len(layers):
        emitter.layer_index = index
        group = emitter.plan.group_of(index)
        if group is not None:
            for user, tables in early.get(index, ()):
                _prepare(emitter, user, tables)
            _emit_group(emitter, group, emission)
            emitter.all_tables()
            index = group.last + 1
            continue
        steps = emission(emitter, layers[index], plans[index])
        for user, tables in early.get(index, ()):
            if index == 0:
                next(steps, None)  # the first layer's own loads come first
            if emitter.room_words() * emitter.config.word_bytes >= TABLE_BYTES:
                _prepare(emitter, user, tables, started=index == 0)
        if _follows(emitter, index):
            if index:
                # Rectangles of both alternate, so neither program may overwrite the other.
                emitter.reserve_program(_GROUP_UOPS)
            # Later there may be no room for its tables: the first layer's constants are held in the ring.
            emitter.tables(getattr(layers[index + 1], "tables", (None, None)))
            follower = emission(emitter, layers[index + 1], plans[index + 1])
            # The follower is one rectangle behind, so that the array already has the first layer's next rectangle.
            next(steps, None)
            for _ in steps:
                emitter.layer_index = index + 1
                next(follower, None)
                emitter.layer_index = index
            index += 1
            emitter.layer_index = index
            steps = follower
        for _ in steps:
            pass
        emitter.all_tables()
        index += 1
    place_programs(emitter.stream)
