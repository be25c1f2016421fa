"""Checks that everything is written before it is read, and that states are read between the same writes."""

from collections import Counter
from collections.abc import Iterator

from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.ir.lstm import Lstm
from tq_hw.compiler.ir.value import Value
from tq_hw.model.errors import DataflowError
from tq_hw.model.rules.variables import STATE_POSITIONS

__all__ = ["check_makers"]

#: Name endings of layers that may read states: those of operators that update them, and copies.
_READ_STATES = tuple(f"({op})" for op in (*STATE_POSITIONS, "STATE_COPY", "READ_VARIABLE"))


def check_makers(before: Graph, after: Graph) -> None:
    """Check that a pass kept a writer for everything that is read, and moved no read of a state across a write.

    Raises DataflowError if nothing writes a value that a layer or the caller reads, or if a read state differs.
    """
    _check_states(after)
    made = {id(value.root) for value in after.inputs}
    for who, values, output in _readers(after):
        for value in values:
            root = value.root
            if root.data is None and root.initial is None and id(root) not in made:
                raise DataflowError(f"{who} reads {value.name!r}, which nothing wrote before")
        if output is not None:
            made.add(id(output.root))
    known = {(who, state, writes) for who, _, state, writes in _state_reads(before)}
    # A layer that was split into steps reads the writes of its own earlier steps.
    inner = {id(value.root.initial) for layer in before.layers if isinstance(layer, Lstm) for value in layer.inputs}
    for who, value, state, writes in _state_reads(after):
        if (who, state, writes) not in known and state not in inner:
            raise DataflowError(f"{who} reads {value.name!r} after {writes} of its writes, unlike in the graph before")


def _check_states(graph: Graph) -> None:
    """Check that only owners and copies read states, and the caller only whole ones: views change with the state."""
    for who, values, output in _readers(graph):
        for value in values:
            if value.root.initial is not None and (value.root is not value if output is None else
                                                   not who.endswith(_READ_STATES)):
                raise DataflowError(f"{who} reads {value.name!r}, a state that only its owner and copies may read")


def _readers(graph: Graph) -> Iterator[tuple[str, tuple[Value, ...], Value | None]]:
    """Yield each reader with the values that it reads, then the value that it writes: the layers, then the caller."""
    for layer in graph.layers:
        yield f"operator {layer.index} ({layer.op})", layer.inputs, layer.output
    yield "the model's caller", graph.outputs, None


def _state_reads(graph: Graph) -> Iterator[tuple[str, Value, int, int]]:
    """Yield each read of a state: reader, value, a number for its contents, and the number of writes before."""
    writes: Counter[int] = Counter()
    for who, values, output in _readers(graph):
        for value in values:
            if value.root.initial is not None:
                state = id(value.root.initial)
                yield who, value, state, writes[state]
        if output is not None and output.root.initial is not None:
            writes[id(output.root.initial)] += 1
