"""Values that lie inside another one in the scratchpad as they do in memory: the parts of a concatenation, phases.

A part is a box of its host: rows, columns and whole channel blocks, with steps between its rows and columns. When the
host is resident, the layers that make the parts write into it, and nothing is left to move.
"""

from dataclasses import dataclass

from tq_hw.compiler.ir import Graph, Staged, Value
from tq_hw.compiler.layout import View
from tq_hw.isa.config import Config

__all__ = ["Box", "box_of", "find_hosts", "part_view"]


@dataclass(frozen=True)
class Box:
    """First row, column and channel block of a part in its host, and the steps of its rows and columns."""

    row: int
    col: int
    block: int
    row_step: int
    col_step: int


def box_of(part: Value, config: Config) -> Box | None:
    """Where a part lies in its host, or None if it is no box of whole words there."""
    host, pitch = part.alias_of, part.pitch
    if host is None or pitch is None or host.alias_of is not None:
        return None
    (n, h, w, c), (host_n, host_h, host_w, host_c) = part.shape, host.shape
    row, rest = divmod(pitch.offset_bytes, host_w * host_c)
    col, channel = divmod(rest, host_c)
    row_step, row_rest = divmod(pitch.row_bytes, host_w * host_c) if h > 1 else (1, 0)
    col_step, col_rest = divmod(pitch.pixel_bytes, host_c) if w > 1 else (1, 0)
    inside = (n == host_n == 1 and row + (h - 1) * row_step < host_h and col + (w - 1) * col_step < host_w
              and channel + c <= host_c and row_step > 0 and col_step > 0 and row_rest == col_rest == 0)
    whole = channel % config.block == 0 and (c % config.block == 0 or channel + c == host_c)
    return Box(row, col, channel // config.block, row_step, col_step) if inside and whole else None


def find_hosts(graph: Graph, config: Config) -> dict[int, tuple[Value, Box]]:
    """Host and box of each part, by its id, where all parts of the host are boxes that layers can write into it."""
    parts: dict[Value, list[tuple[Value, bool]]] = {}
    read = {value for layer in graph.layers for value in layer.inputs}
    made = {layer.output for layer in graph.layers}
    for layer in graph.layers:
        part = layer.output
        if part.alias_of is not None:
            parts.setdefault(part.alias_of, []).append((part, isinstance(layer, Staged)))
    found: dict[int, tuple[Value, Box]] = {}
    for host, members in parts.items():
        boxes = {part: box_of(part, config) for part, _ in members}
        # Who reads a part reads neighbouring rows and columns.
        fits = all(box is not None and (part not in read or box.row_step == box.col_step == 1)
                   for part, box in boxes.items())
        if (fits and host in read and host not in made and not any(staged for _, staged in members)
                and not host.flip and host.initial is None and host.data is None and host not in graph.inputs):
            found |= {id(part): (host, box) for part, box in boxes.items() if box is not None}
    return found


def part_view(host: View, box: Box) -> View:
    """View of a part in its host's rows, columns and blocks."""
    return View(host.buffer, host.address(box.row, box.block, box.col), host.words, box.row_step * host.row_pitch,
                host.block_pitch, col_pitch=box.col_step, host=host, host_row=(box.row, box.row_step),
                host_block=box.block)
