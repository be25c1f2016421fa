"""Layers with dilation: rows and columns that no window has in common are computed separately.

Every n-th output row, n the dilation, reads every n-th input row, and no other output row reads these. A layer that
reads from memory computes one such set of rows, a *row phase*, after another. A row phase is a layer without row
dilation, whose rectangles load few rows more than once.

The array separates the columns. Every n-th column is a *column phase*; neighbouring phases that differ only in their
first column are one operation.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.value import Pitch, Value
from tq_hw.compiler.plan.hosts import Box
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.sizes import ceil_div

__all__ = ["ColumnPhases", "banks_meet", "column_phases", "phase_box", "row_phases", "shares"]

#: A layer has at most this many row phases.
_MOST_PHASES = 1024


def _rows(value: Value, first: int, step: int, count: int) -> Value:
    """Return rows first, first + step, ... of a value as one image; rows count over all images."""
    place = value.place
    pitch = Pitch(first * place.row_bytes, step * place.row_bytes, place.pixel_bytes)
    return Value(value.name, value.tensor, (1, count, *value.shape[2:]), value.zero_point, value.flip, value, pitch)


def phase_box(phase: Mac, whole: Mac, box: Box) -> Box:
    """Return the box of a row phase's output; `box` is that of the output of the layer `whole`."""
    assert phase.output.pitch is not None
    row = phase.output.pitch.offset_bytes // whole.output.place.row_bytes
    return replace(box, row=box.row + row * box.row_step, row_step=whole.dilation[0] * box.row_step)


def row_phases(layer: Mac) -> tuple[Mac, ...]:
    """Return layers that each compute one row phase; () if there are none."""
    images, height, _, _ = layer.inputs[0].shape
    out_height = layer.output.shape[1]
    dilation, count = layer.dilation[0], min(layer.dilation[0], out_height)
    if dilation == 1 or out_height == 1 or layer.stride[0] != 1 or layer.region is not None or (
            images * count > _MOST_PHASES):
        return ()
    found = []
    for number in range(images * count):
        image, first = divmod(number, count)
        rows = ceil_div(out_height - first, dilation)
        below, start = divmod(first - layer.pad[0], dilation)
        in_rows = ceil_div(height - start, dilation)
        if in_rows < 1:  # all of its taps are padding
            below, start, in_rows = -(rows + layer.kernel[0]), 0, 1
        found.append(replace(
            layer, inputs=(_rows(layer.inputs[0], image * height + start, dilation, in_rows),),
            output=_rows(layer.output, image * out_height + first, dilation, rows),
            dilation=(1, layer.dilation[1]), pad=(-below, layer.pad[1])))
    return tuple(found)


def shares(size: int) -> list[int]:
    """Return the sizes of parts for 1, 2, 3, 4, 6, 8, ... parts."""
    counts = (count << power for power in range(size.bit_length()) for count in (1, 3))
    return sorted({ceil_div(size, count) for count in counts}, reverse=True)


def banks_meet(layer: Mac, config: Config) -> bool:
    """Whether two rows that one step of a depthwise kernel reads are in one bank; the row pitch is odd."""
    distances = (number * layer.dilation[0] for number in range(1, min(config.groups, layer.kernel[0])))
    return any(distance % BANKS == 0 and distance < layer.inputs[0].shape[1] for distance in distances)


@dataclass(frozen=True)
class ColumnPhases:
    """Phases of output columns first, first + 1, ... of a rectangle, each with `count` columns, as the array sees them.

    Members
    -------
    phases : number of phases
    column : input column of the first phase's first tap, which may be outside the image
    col_first, in_cols : registers of the array; they count every n-th column, n the dilation
    """

    first: int
    phases: int
    count: int
    column: int
    col_first: int
    in_cols: int


def column_phases(layer: Mac, cols: tuple[int, int], single: bool) -> Iterator[ColumnPhases]:
    """Cut the output columns of a rectangle into phases: equal neighbours together, or each separately if `single`."""
    dilation, in_width = layer.dilation[1], layer.inputs[0].shape[2]
    width = cols[1] - cols[0]
    alike: ColumnPhases | None = None
    for first in range(min(dilation, width)):
        column = cols[0] + first - layer.pad[1]
        col_first, offset = divmod(column, dilation)
        found = ColumnPhases(first, 1, ceil_div(width - first, dilation), column, col_first,
                             ceil_div(in_width - offset, dilation))
        if alike is not None and not single and (alike.count, alike.col_first, alike.in_cols) == (
                found.count, found.col_first, found.in_cols):
            alike = replace(alike, phases=alike.phases + 1)
            continue
        if alike is not None:
            yield alike
        alike = found
    if alike is not None:
        yield alike
