"""Merge dependent elementwise layers of few words; intermediate results stay in registers.

A layer of few words takes one pass through the vector unit, and the next layer waits until its words are written. In a
merged program only results in registers are waited for, and independent micro-operations overlap. A cell of an unrolled
GRU becomes one layer.
"""

from collections.abc import Sequence

import numpy as np

from tq_hw.compiler.ir.chain import Chain
from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer, Mac
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.plan.layout import blocked_words
from tq_hw.compiler.programs.chain import Node, chained
from tq_hw.compiler.programs.look_ups import with_offsets
from tq_hw.compiler.programs.words import SHL
from tq_hw.compiler.specialize.packed_tables import TABLE_BYTES, packed, table_alone
from tq_hw.isa.config import Config
from tq_hw.isa.uop import Alu, Rounding, ShiftSource, Source

__all__ = ["MOST_BEATS", "fuse"]

#: Most beats of merged layers: with more, micro-operations do not wait for each other, and tables are faster.
MOST_BEATS = 22
#: Largest share of the micro-operation memory for a chain: neighbouring layers need the rest.
_UOPS_PERCENT = 80
_SINGLE = (Alu.MAX, Alu.MIN)


def _is_byte(uop: dict[str, int]) -> bool:
    """Whether a result is a signed int8 code."""
    return bool(uop.get("clamp")) or uop.get("alu") in _SINGLE


def _joins(layer: Layer, config: Config) -> bool:
    """Whether a layer can be a part of a chain."""
    if (not isinstance(layer, Elementwise) or any(value.shape != layer.output.shape for value in layer.inputs)
            or any(value.root.initial is not None for value in (*layer.inputs, layer.output))):
        return False
    n, h, w, _ = layer.output.shape
    # The whole value between two members must fit in a register.
    most = min(MOST_BEATS, config.vector_register_words)
    if n != 1 or (h > 1 and w > 1) or blocked_words(layer.output, config) * config.beats_per_word > most:
        return False
    return table_alone(layer) is not None or _is_byte(_uops(layer)[-1])


def _uops(layer: Elementwise) -> tuple[dict[str, int], ...]:
    """Return the micro-operations without tables; none if the layer needs tables."""
    if layer.plain:
        return layer.plain
    return (layer.uop, *layer.rest) if all(table is None for table in layer.tables) else ({},)


def _nodes(members: Sequence[Elementwise], inputs: list[Value], tables: list[bytes], half: int) -> list[Node]:
    """Return the micro-operations of all members; append the inputs and tables that they need."""
    made: dict[Value, Node] = {}
    nodes: list[Node] = []

    def stream(layer: Elementwise, position: int) -> "int | Node":
        value = layer.inputs[position]
        if value in made:
            return made[value]
        if value not in inputs:
            inputs.append(value)
        return inputs.index(value)

    for layer in members:
        table = table_alone(layer)
        if table is not None:
            key = table.astype(np.int8).tobytes()
            if key not in tables:
                tables.append(key)
            place = tables.index(key)
            shift = 24 - 8 * (place % TABLE_BYTES)
            nodes.append(Node({"a_table": 1 + (half + place // TABLE_BYTES) % 2, "b_source": Source.IMMEDIATE,
                               "immediate": shift, **SHL, "shift_source": ShiftSource.IMMEDIATE, "shift": -24,
                               "rounding": Rounding.FLOOR}, stream(layer, 0)))
        else:
            held: dict[int, Node] = {}
            for uop in _uops(layer):
                sources = {name: uop.get(f"{name}_source") for name in "ab"}
                ends = {name: stream(layer, position) if sources[name] == Source.STREAM else
                        held[uop[f"{name}_register"]] if sources[name] == Source.REGISTER else None
                        for position, name in enumerate("ab")}
                placed = {"destination", "d_register"} | {
                    f"{name}_{part}" for name in "ab" if ends[name] is not None for part in ("source", "register")}
                nodes.append(Node({name: uop[name] for name in uop if name not in placed}, ends["a"], ends["b"]))
                held[uop.get("d_register", 0)] = nodes[-1]
        made[layer.output] = nodes[-1]
    return nodes


def _own_tables(members: Sequence[Elementwise]) -> list[bytes]:
    """Return the byte tables that members use."""
    tables = [table_alone(member) for member in members]
    return list(dict.fromkeys(table.astype(np.int8).tobytes() for table in tables if table is not None))


def _chain(members: Sequence[Elementwise], config: Config, tables: list[bytes], half: int) -> Chain | None:
    """Return the merged layer of all members, None if there is no room; `tables` are in the table from `half` on."""
    inputs: list[Value] = []
    nodes = with_offsets(_nodes(members, inputs, tables, half))
    if len(nodes) > config.uops * _UOPS_PERCENT // 100 or len(tables) > 2 * TABLE_BYTES:
        return None
    parts = chained(nodes)
    if parts is None:
        return None
    halves: list[IntArray | None] = [None, None]
    for first in range(0, len(tables) if _own_tables(members) else 0, TABLE_BYTES):
        halves[(half + first // TABLE_BYTES) % 2] = packed([
            np.frombuffer(table, np.int8) for table in tables[first:first + TABLE_BYTES]])
    sink = members[-1]
    return Chain(sink.index, sink.op, tuple(inputs), sink.output, parts, (halves[0], halves[1]))


def _groups(chains: Sequence[Sequence[Elementwise]]) -> list[tuple[list[bytes], int]]:
    """Return for each chain the tables that are loaded together, including its own, and the half that they begin in.

    Tables fill one half, then the other one; the tables of a chain are in one or two halves. The tables of the other
    half stay until that half is filled again.
    """
    halves: list[list[bytes]] = [[]]
    spans: list[tuple[int, int]] = []
    for members in chains:
        own = _own_tables(members)
        first = max(0, len(halves) - 2)
        new = set(own).difference(*halves[first:])
        if len(new) > TABLE_BYTES - len(halves[-1]):
            first = len(halves) - 1
            if len(set(own) - set(halves[-1])) > 2 * TABLE_BYTES - len(halves[-1]):
                halves.append([])
                first += 1
        for table in own:
            if table not in halves[first] and table not in halves[-1]:
                if len(halves[-1]) == TABLE_BYTES:
                    halves.append([])
                halves[-1].append(table)
        spans.append((first if set(own) & set(halves[first]) else len(halves) - 1, len(halves)))
    return [([table for half in halves[first:end] for table in half], first % 2) for first, end in spans]


def _grown(layers: Sequence[Layer], last: int, users: dict[Value, list[int]], config: Config) -> dict[int, Elementwise]:
    """Return the layers that can be merged with layer `last`, by number, in order."""
    found: dict[int, Elementwise] = {}
    for number in range(last, -1, -1):
        layer = layers[number]
        if not isinstance(layer, Elementwise) or not _joins(layer, config):
            continue
        joined = {number: layer} | found
        inside = number == last or (set(users.get(layer.output, (-1,))) <= found.keys()
                                    and layer.output.shape == layers[last].output.shape)
        if inside and _chain([*joined.values()], config, _own_tables([*joined.values()]), 0) is not None:
            found = joined
    return found


def _earlier(layers: list[Layer], config: Config) -> list[Layer]:
    """Move small array layers across one chain whose result they do not need, so that the array works meanwhile."""
    for number in range(len(layers)):
        layer = layers[number]
        if not isinstance(layer, Mac) or blocked_words(layer.output, config) > MOST_BEATS:
            continue
        roots, at, crossed = {value.root for value in (*layer.inputs, layer.output)}, number, 0
        while at and isinstance(layers[at - 1], Mac | Chain) and not roots & {
                value.root for value in (layers[at - 1].output,)}:
            crossed += isinstance(layers[at - 1], Chain)
            if crossed == 2:
                break
            at -= 1
        if crossed:
            layers.insert(at, layers.pop(number))
    return layers


def _later(layers: list[Layer], config: Config) -> list[Layer]:
    """Move small array layers that are first read after some chains to just after the last of these chains.

    An unrolled network has the products of its inputs at the beginning. After a chain, they are in the array's queue
    before the product that needs the chain's result, and the vector unit requantizes them during that product.
    """
    for number in range(len(layers) - 1, -1, -1):
        layer = layers[number]
        if not isinstance(layer, Mac) or any(value.root.initial is not None for value in (*layer.inputs, layer.output)):
            continue
        root = layer.output.root
        user = next((at for at in range(number + 1, len(layers))
                     if any(value.root is root for value in (*layers[at].inputs, layers[at].output))), 0)
        chain = next((at for at in range(user - 1, number, -1) if isinstance(layers[at], Chain)), 0)
        if chain and blocked_words(layer.output, config) <= MOST_BEATS:
            layers.insert(chain, layers.pop(number))
    return layers


def fuse(graph: Graph, layers: Sequence[Layer], config: Config) -> list[Layer]:
    """Return the layers of a graph, with elementwise layers of few words merged where possible."""
    users: dict[Value, list[int]] = {}
    for number, layer in enumerate(layers):
        for value in layer.inputs:
            users.setdefault(value, []).append(number)
    # Values with another name, or that others read, must be written.
    seen = {value.root for value in (*graph.outputs, *(v for layer in layers for v in (*layer.inputs, layer.output)
                                                       if v.root is not v))} | set(graph.outputs)
    inner = {value: numbers for value, numbers in users.items() if value.root is value and value not in seen}
    chains: dict[int, dict[int, Elementwise]] = {}
    taken: set[int] = set()
    for number in range(len(layers) - 1, -1, -1):
        if number not in taken and _joins(layers[number], config):
            free = {value: at for value, at in inner.items() if not set(at) & taken}
            found = _grown(layers, number, free, config)
            if len(found) > 1:
                taken |= found.keys()
                chains[number] = found
    # The tables of an unmerged pair can share a load with those of other layers, so such a pair is not merged.
    if any(isinstance(layer, Elementwise) and number not in taken and any(table is not None for table in layer.tables)
           for number, layer in enumerate(layers)):
        chains = {number: found for number, found in chains.items()
                  if len(found) > 2 or not _own_tables([*found.values()])}
        taken = {number for found in chains.values() for number in found}
    if not chains:
        return list(layers)
    members = [[*chains[number].values()] for number in sorted(chains)]
    made: dict[int, Layer] = {}
    for number, group, (tables, half) in zip(sorted(chains), members, _groups(members), strict=True):
        chain = _chain(group, config, tables, half)
        assert chain is not None, "it was one by itself"
        made[number] = chain
    order = _earlier([made.get(number, layer) for number, layer in enumerate(layers)
                      if number in made or number not in taken], config)
    return _later(order, config)
