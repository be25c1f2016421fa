"""Output shapes of operators that cut data: SLICE, STRIDED_SLICE, SPLIT, SPLIT_V, UNPACK."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tq_hw.model.rules.node import Node

__all__ = ["SLICE_SHAPES", "Cut", "strided_cuts", "strided_ranges"]

Shapes = list[tuple[int, ...]] | None


def _slice(node: Node) -> Shapes:
    shape = node.shape(0)
    begin = node.integers(1, "begin", len(shape))
    size = node.integers(2, "size", len(shape))
    if begin is None or size is None:
        return None
    result = []
    for axis, (start, count, full) in enumerate(zip(begin, size, shape, strict=True)):
        length = full - start if count == -1 else count
        if start < 0 or length < 0 or start + length > full:
            raise node.error(f"slice of axis {axis} from {start} of size {count} is out of range "
                             f"of {full}")
        result.append(length)
    return [tuple(result)]


@dataclass(frozen=True)
class Cut:
    """What STRIDED_SLICE does to one axis of its input, or to a new axis of size 1.

    Members
    -------
    size : of the axis
    entry : position in begin, end and strides, and of the bits in the masks; -1: the whole axis is taken
    is_new : the input does not have this axis
    """

    size: int
    entry: int
    is_new: bool = False


def strided_cuts(shape: Sequence[int], count: int, options: Mapping[str, object]) -> list[Cut] | None:
    """Lay `count` entries of STRIDED_SLICE out over the axes, as `strided_slice.cc` does; None if they do not fit.

    An entry with a bit in `new_axis_mask` adds an axis; the one in `ellipsis_mask` stands for all axes that no other
    entry takes. Axes after the last entry are taken whole.
    """
    masks = (options.get("ellipsis_mask", 0), options.get("new_axis_mask", 0))
    ellipsis_mask, new_axis_mask = (mask if isinstance(mask, int) else 0 for mask in masks)
    is_ellipsis = [bool(ellipsis_mask >> entry & 1) for entry in range(count)]
    is_new = [bool(new_axis_mask >> entry & 1) and not is_ellipsis[entry] for entry in range(count)]
    spare = len(shape) - count + sum(is_ellipsis) + sum(is_new)
    # LiteRT's kernel lets an ellipsis that stands for no axis take one from the entries after it.
    if spare < sum(is_ellipsis) or sum(is_ellipsis) > 1:
        return None
    cuts, axis = [], 0
    for entry in range(count):
        if is_new[entry]:
            cuts.append(Cut(1, -1, True))
            continue
        for _ in range(spare if is_ellipsis[entry] else 1):
            cuts.append(Cut(shape[axis], -1 if is_ellipsis[entry] else entry))
            axis += 1
    return cuts + [Cut(size, -1) for size in shape[axis:]]


def strided_ranges(node: Node) -> list[tuple[range, bool]] | None:
    """Return for each axis of STRIDED_SLICE, also a new one, its indices and whether the axis is dropped.

    None when begin, end or strides are no constants. An axis that is shrunk and has its begin_mask
    set takes index 0, as LiteRT's kernel does.
    """
    shape = node.shape(0)
    count = node.input(1).shape[0] if len(node.input(1).shape) == 1 else -1
    cuts = strided_cuts(shape, count, node.operator.options) if count >= 0 else None
    if cuts is None:
        raise node.error(f"begin has shape {list(node.input(1).shape)}, expected at most {len(shape)} elements besides "
                         f"new axes and at most one ellipsis, for at least one axis")
    if node.option("offset"):
        raise node.unsupported("offset is set, which engines interpret differently; give ends instead of sizes")
    begin = node.integers(1, "begin", count)
    end = node.integers(2, "end", count)
    strides = node.integers(3, "strides", count)
    if begin is None or end is None or strides is None:
        return None
    return [(range(cut.size), False) if cut.entry < 0 else
            _axis_range(node, cut.entry, cut.size, begin[cut.entry], end[cut.entry], strides[cut.entry])
            for cut in cuts]


def _axis_range(node: Node, axis: int, size: int, begin: int, end: int,
                stride: int) -> tuple[range, bool]:
    def masked(name: str) -> bool:
        return bool(node.option(name) >> axis & 1)

    if stride == 0:
        raise node.error(f"stride of axis {axis} is 0")
    low, high = (0, size) if stride > 0 else (-1, size - 1)
    start = begin + size if begin < 0 else begin
    if masked("begin_mask"):
        start = 0 if stride > 0 else size - 1
    if masked("shrink_axis_mask"):
        if not 0 <= start < size:
            raise node.error(f"index {begin} of axis {axis} is out of range of {size}")
        if stride < 0:
            # LiteRT's kernel writes no output then.
            raise node.error(f"stride of axis {axis} is {stride}, expected 1 or more because the axis is shrunk")
        return range(start, start + 1), True
    stop = end + size if end < 0 else end
    if masked("end_mask"):
        stop = high if stride > 0 else low
    return range(min(max(start, low), high), min(max(stop, low), high), stride), False


def _strided_slice(node: Node) -> Shapes:
    ranges = strided_ranges(node)
    if ranges is None:
        return None
    return [tuple(len(indices) for indices, dropped in ranges if not dropped)]


def _split(node: Node) -> Shapes:
    shape = node.shape(1)
    axis = node.integers(0, "axis", 1)
    parts = node.option("num_splits")
    if parts != len(node.operator.outputs) or parts < 1:
        raise node.error(f"num_splits is {parts}, the operator has "
                         f"{len(node.operator.outputs)} outputs")
    if axis is None:
        return None
    at = node.axis(axis[0], len(shape))
    if shape[at] % parts:
        raise node.error(f"cannot split axis {at} of {list(shape)}: {shape[at]} is not divisible "
                         f"by {parts}")
    return [(*shape[:at], shape[at] // parts, *shape[at + 1:])] * parts


def _split_v(node: Node) -> Shapes:
    shape = node.shape(0)
    parts = node.option("num_splits")
    if parts != len(node.operator.outputs) or parts < 1:
        raise node.error(f"num_splits is {parts}, the operator has "
                         f"{len(node.operator.outputs)} outputs")
    axis = node.integers(2, "axis", 1)
    sizes = node.integers(1, "size_splits", parts)
    if axis is None or sizes is None:
        return None
    at = node.axis(axis[0], len(shape))
    known = sum(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and min(sizes) == -1 and known <= shape[at]:
        sizes = [shape[at] - known if size == -1 else size for size in sizes]
    if min(sizes) < 0 or sum(sizes) != shape[at]:
        raise node.error(f"size_splits {sizes} do not split the {shape[at]} elements of axis {at}")
    return [(*shape[:at], size, *shape[at + 1:]) for size in sizes]


def _unpack(node: Node) -> Shapes:
    shape = node.shape(0)
    axis = node.axis(node.option("axis"), len(shape))
    count = node.option("num")
    if count != shape[axis] or count != len(node.operator.outputs):
        raise node.error(f"num is {count}, axis {axis} has {shape[axis]} elements, the operator "
                         f"has {len(node.operator.outputs)} outputs")
    return [shape[:axis] + shape[axis + 1:]] * count


SLICE_SHAPES: dict[str, Callable[[Node], Shapes]] = {
    "SLICE": _slice, "STRIDED_SLICE": _strided_slice, "SPLIT": _split, "SPLIT_V": _split_v,
    "UNPACK": _unpack,
}
