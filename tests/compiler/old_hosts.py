"""An earlier search for hosts, with which nested concatenations of one pixel had wrong results."""

from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.ir.staged import Staged
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.hosts import Box, box_of
from tq_hw.isa.config import Config

__all__ = ["old_hosts"]


def old_hosts(graph: Graph, config: Config) -> dict[int, tuple[Value, Box]]:
    """Find hosts without checking parts of a part, so that a host may have contents only in memory."""
    parts: dict[Value, list[tuple[Value, bool]]] = {}
    read = {value for layer in graph.layers for value in layer.inputs}
    made = {layer.output for layer in graph.layers}
    for layer in graph.layers:
        if layer.output.alias_of is not None:
            parts.setdefault(layer.output.alias_of, []).append((layer.output, isinstance(layer, Staged)))
    found: dict[int, tuple[Value, Box]] = {}
    for host, members in parts.items():
        boxes = {part: box_of(part, config) if host.alias_of is None else None for part, _ in members}
        fits = all(box is not None and (part not in read or box.row_step == box.col_step == 1)
                   for part, box in boxes.items())
        if fits and host in read and host not in made and not any(staged for _, staged in members):
            found |= {id(part): (host, box) for part, box in boxes.items() if box is not None}
    return found
