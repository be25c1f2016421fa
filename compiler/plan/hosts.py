"""Values inside a host, in the scratchpad as in memory: inputs of a concatenation, row phases, slices.

Such a value is a box of its host: rows, columns and whole channel blocks, with a step between rows and between columns.
If the host is resident, the layers that compute these values write directly into it, without a copy. Slices are read in
their host.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.ir.layers import Graph, Pad
from tq_hw.compiler.ir.staged import Staged
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import View, block_count
from tq_hw.isa.config import Config

__all__ = ["Box", "box_of", "find_hosts", "find_slices", "part_view"]


@dataclass(frozen=True)
class Box:
    """First row, column and channel block of a value in its host, and the step between its rows and its columns."""

    row: int
    col: int
    block: int
    row_step: int
    col_step: int


def box_of(part: Value, config: Config) -> Box | None:
    """Return the box of a value in the value that owns its bytes, or None if it is not a box of whole words."""
    host, place = part.root, part.place
    if host is part:
        return None
    (n, h, w, c), (host_n, host_h, host_w, host_c) = part.shape, host.shape
    row, rest = divmod(place.offset_bytes, host_w * host_c)
    col, channel = divmod(rest, host_c)
    row_step, row_rest = divmod(place.row_bytes, host_w * host_c) if h > 1 else (1, 0)
    col_step, col_rest = divmod(place.pixel_bytes, host_c) if w > 1 else (1, 0)
    inside = (n == host_n == 1 and row + (h - 1) * row_step < host_h and col + (w - 1) * col_step < host_w
              and channel + c <= host_c and row_step > 0 and col_step > 0 and row_rest == col_rest == 0)
    whole = channel % config.block == 0 and (c % config.block == 0 or channel + c == host_c)
    return Box(row, col, channel // config.block, row_step, col_step) if inside and whole else None


def _fill(host: Value, parts: Mapping[Value, Box], config: Config) -> bool:
    """Whether boxes cover every word of their host exactly once."""
    _, height, width, channels = host.shape
    words = np.zeros((height, width, block_count(channels, config)), np.uint16)
    for (_, h, w, c), box in ((part.shape, box) for part, box in parts.items()):
        words[box.row:box.row + h * box.row_step:box.row_step, box.col:box.col + w * box.col_step:box.col_step,
              box.block:box.block + block_count(c, config)] += 1
    return bool((words == 1).all())


def find_hosts(graph: Graph, config: Config) -> dict[int, tuple[Value, Box]]:
    """Return host and box, by id, of each value in a host whose values are all boxes that layers can write.

    Nested concatenations have one host: a value inside a value inside a host is a box of that host.
    """
    parts: dict[Value, list[tuple[Value, bool]]] = {}
    read = {value for layer in graph.layers for value in layer.inputs}
    made = {layer.output for layer in graph.layers}
    for layer in graph.layers:
        part = layer.output
        if part.root is not part:
            parts.setdefault(part.root, []).append((part, isinstance(layer, Staged)))
    found: dict[int, tuple[Value, Box]] = {}
    for host, members in parts.items():
        boxes = {part: box for part, _ in members if (box := box_of(part, config)) is not None}
        # A reader of such a value needs neighbouring rows and columns.
        fits = all(part in boxes and (part not in read or boxes[part].row_step == boxes[part].col_step == 1)
                   for part, _ in members)
        if (fits and host in read and host not in made and not any(staged for _, staged in members)
                and not host.flip and host.initial is None and host.data is None and host not in graph.inputs
                and _fill(host, boxes, config)):
            found |= {id(part): (host, box) for part, box in boxes.items()}
    return found


def find_slices(graph: Graph, config: Config) -> dict[int, tuple[Value, Box]]:
    """Return host and box, by id, of each slice that is read inside the value it is cut from."""
    made = {layer.output for layer in graph.layers if not isinstance(layer, Staged)}
    by_memory = {value for layer in graph.layers if isinstance(layer, Pad | Staged) for value in layer.inputs}
    by_memory |= {layer.output for layer in graph.layers}
    found: dict[int, tuple[Value, Box]] = {}
    for value in dict.fromkeys(value for layer in graph.layers for value in layer.inputs):
        host = value.root
        if value is host or host not in made or value in by_memory or value.flip != host.flip:
            continue
        box = box_of(value, config)
        if box is not None and box.row_step == box.col_step == 1:
            found[id(value)] = host, box
    return found


def part_view(host: View, box: Box) -> View:
    """View of a box in its host's rows, columns and blocks."""
    return View(host.buffer, host.address(box.row, box.block, box.col), host.words, box.row_step * host.row_pitch,
                host.block_pitch, col_pitch=box.col_step, host=host, host_row=(box.row, box.row_step),
                host_block=box.block)
