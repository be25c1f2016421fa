"""A table before elementwise layers: they look up its operand in a table of their own, which does the work of both.

A sum or a product reads its operands through tables: the difference from the zero point, or a rescaled number. The
table before them, an activation or the negated mean of a normalization, then needs neither cycles nor words.
"""

from collections.abc import Sequence
from dataclasses import replace

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.specialize.packed_tables import table_alone
from tq_hw.compiler.specialize.tables import may_be_plain
from tq_hw.compiler.specialize.values import Users, is_whole
from tq_hw.isa.config import Config
from tq_hw.isa.uop import Source

__all__ = ["compose_tables"]


def compose_tables(graph: Graph, config: Config) -> Graph:
    """Return the graph without the tables that only operands with tables read, of layers that need these anyway."""
    users = Users(graph, graph.layers)
    new: dict[int, Layer] = {}
    gone: set[int] = set()
    for layer in graph.layers:
        table = table_alone(layer)
        readers = users.readers(layer.output)
        if table is None or not readers or not _can_move(users, layer):
            continue
        composed = [_composed(new.get(id(reader), reader), layer.output, layer.inputs[0], table, config)
                    for reader in readers]
        if all(each is not None for each in composed):
            new |= {id(reader): each for reader, each in zip(readers, composed, strict=True) if each is not None}
            gone.add(id(layer))
    return replace(graph, layers=tuple(new.get(id(layer), layer) for layer in graph.layers if id(layer) not in gone))


def _can_move(users: Users, layer: Layer) -> bool:
    """Whether the readers of a table's result can read its operand instead: nothing else writes either."""
    source, made = layer.inputs[0], layer.output
    return (is_whole(made) and made.alias_of is None and is_whole(source) and source.shape == made.shape
            and not users.is_kept(made) and not users.is_written_twice(made) and not users.is_written_twice(source)
            and source.root.initial is None)


def _composed(reader: Layer, value: Value, source: Value, table: IntArray, config: Config) -> Elementwise | None:
    """Return a reader of `value` that looks up the bytes of `source`; None if it does not look up all that it reads."""
    if not isinstance(reader, Elementwise) or table_alone(reader) is not None or may_be_plain(reader, config):
        return None
    inputs, tables = list(reader.inputs), list(reader.tables)
    for position, operand in enumerate(inputs):
        if operand is not value:
            if operand.root is value.root:
                return None
            continue
        number = _looked_up("ab"[position], (reader.uop, *reader.rest))
        own = tables[number - 1] if number else None
        if own is None or len(own) != len(table):
            return None
        inputs[position], tables[number - 1] = source, own[table & 0xFF]
    return replace(reader, inputs=tuple(inputs), tables=(tables[0], tables[1]), plain=())


def _looked_up(side: str, uops: Sequence[dict[str, int]]) -> int:
    """Return the table, 1 or 2, that is only for the stream of an operand, which is read once; else 0."""
    number = uops[0].get(f"{side}_table", 0)
    uses = [(at, name) for at, uop in enumerate(uops) for name in "ab" if uop.get(f"{name}_table", 0) & number]
    streams = [at for at, uop in enumerate(uops) if uop.get(f"{side}_source") == Source.STREAM]
    return number if number in (1, 2) and uses == [(0, side)] and streams == [0] else 0
