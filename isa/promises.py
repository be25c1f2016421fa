"""Rules of operations that no machine checks: where one is broken, results are undefined."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tq_hw.isa.layout import ArrayMode, Unit, VectorKind
from tq_hw.isa.operations import Operation

__all__ = ["Buffers", "broken_clamp", "broken_depthwise"]

Fields = Mapping[str, int]


def broken_depthwise(fields: Fields) -> str:
    """Return the rule that a depthwise array operation breaks; empty if none.

    Tiles have their stated length, and all columns of a row pass the array within `period`.
    """
    if fields["mode"] != ArrayMode.DEPTHWISE:
        return ""
    if fields["tile_slots"] != fields["tile_rows"] * fields["out_cols"]:
        return "tile_slots must be tile_rows * out_cols"
    reach = (fields["out_cols"] - 1) * fields["col_stride"]
    needed = reach + 1
    for col in range(fields["col_first"], fields["col_first"] + fields["kernel_cols"], 3):
        needed = max(needed, min(fields["in_cols"] - 1, col + reach + 2) - max(0, col) + 1)
    return "" if fields["period"] >= needed else f"period must be at least {needed}"


def broken_clamp(uop: Fields, fields: Fields) -> str:
    """Return the rule that a micro-operation of a vector operation breaks; empty if none.

    The limits of a clamp must be in order: otherwise the two designs differ in which limit wins.
    """
    if not uop["clamp"] or fields["out_type"] == 1 or uop["act_min"] <= uop["act_max"]:
        return ""
    return f"act_min {uop['act_min']} must be at most act_max {uop['act_max']}"


@dataclass
class _Tiles:
    """Consecutive tiles of one RUN: (slots, how many) for each size, the whole sequence `repeat` times."""

    run: int
    sizes: tuple[tuple[int, int], ...]
    repeat: int


class Buffers:
    """Accumulator buffers between the array's operations and those of the vector unit."""

    def __init__(self) -> None:
        self._filled: deque[_Tiles] = deque()
        self._taken: deque[_Tiles] = deque()
        self._open: tuple[int, int] | None = None

    def follow(self, operation: Operation) -> str:
        """Return the rule that a stream's next operation breaks: tiles have as many slots as the buffers they get."""
        fields = operation.fields
        if operation.unit is Unit.ARRAY:
            before, self._open = self._open, None if fields["acc_last"] else (operation.run, fields["slots"])
            if before is not None and before[1] != fields["slots"]:
                return (f"it continues with {fields['slots']:,} slots in accumulator buffers that array RUN "
                        f"{before[0]} left open with {before[1]:,}")
            if fields["acc_last"]:
                self._filled.extend(_tiles(operation))
        elif operation.unit is Unit.VECTOR and fields["kind"] == VectorKind.PROGRAM and fields["use_acc"]:
            self._taken.extend(_tiles(operation))
        return self._match()

    def _match(self) -> str:
        """Hand over all available buffers, in few steps even for many tiles."""
        queues = self._filled, self._taken
        while self._filled and self._taken:
            filled, taken = self._filled[0], self._taken[0]
            if filled.sizes == taken.sizes:
                repeat = min(filled.repeat, taken.repeat)
                for queue in queues:
                    _drop(queue, repeat)
            elif max(len(filled.sizes), len(taken.sizes)) > 1:
                for queue in queues:
                    _unroll(queue)
            else:
                (full, had), (slots, wanted) = filled.sizes[0], taken.sizes[0]
                if full != slots:
                    return (f"vector RUN {taken.run} takes a tile of {slots:,} slots from an accumulator buffer that "
                            f"array RUN {filled.run} fills with {full:,}")
                for queue, count, other in ((self._filled, had, wanted), (self._taken, wanted, had)):
                    queue[0].sizes = ((slots, count - min(count, other)),)
                    _drop(queue, int(count <= other))
        return ""


def _drop(queue: deque[_Tiles], repeat: int) -> None:
    queue[0].repeat -= repeat
    if not queue[0].repeat:
        queue.popleft()


def _unroll(queue: deque[_Tiles]) -> None:
    """Put the first tiles of a RUN for themselves, size by size."""
    first = queue[0]
    sizes = first.sizes
    if len(sizes) > 1:
        _drop(queue, 1)
        queue.extendleft(_Tiles(first.run, (size,), 1) for size in reversed(sizes))


def _tiles(operation: Operation) -> Iterator[_Tiles]:
    """Yield the tiles of an operation in the order of their accumulator buffers."""
    fields = operation.fields
    blocks = fields["out_blocks"]
    full, rest = divmod(fields["slots"], max(fields["tile_slots"], 1))
    sizes = [(slots, count) for slots, count in ((fields["tile_slots"], full), (rest, int(rest > 0))) if count]
    if not blocks or not sizes:
        return
    if fields["blocks_inner"] or len(sizes) == 1:
        yield from (_Tiles(operation.run, ((slots, count * blocks),), 1) for slots, count in sizes)
    else:
        yield _Tiles(operation.run, tuple(sizes), blocks)
