"""Output shapes of operators that only the host runs: spectra, segments, boxes; also for operators after them."""

from collections.abc import Callable

from tq_hw.model.rules.node import Node

__all__ = ["BOXES", "HOST_SHAPES"]

#: TensorFlow stores [1, n] for the n boxes that these choose, and a RESHAPE after them; kernels make [n].
BOXES = ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")

Shapes = list[tuple[int, ...]] | None


def _same(node: Node) -> Shapes:
    return [node.shape(0)]


def _alike(node: Node) -> Shapes:
    if node.shape(0) != node.shape(1):
        raise node.error(f"inputs have shapes {list(node.shape(0))} and {list(node.shape(1))}, expected one shape")
    return [node.shape(0)]


def _rfft2d(node: Node) -> Shapes:
    shape, sizes = node.shape(0), node.integers(1, "fft_length", 2)
    if len(shape) < 2:
        raise node.error(f"input has shape {list(shape)}, expected rank 2 or more")
    if sizes is None:
        return None
    if min(sizes) < 1:
        raise node.error(f"fft_length is {sizes}, expected 1 or more")
    return [(*shape[:-2], sizes[0], sizes[1] // 2 + 1)]


def _segments(node: Node) -> Shapes:
    shape, of, count = node.shape(0), node.shape(1), node.integers(2, "num_segments", any_rank=True)
    if shape[:len(of)] != of:
        raise node.error(f"data have shape {list(shape)} and their segments {list(of)}, expected one for each of the "
                         "first dimensions")
    if count is None:
        return None
    if len(count) != 1 or count[0] < 0:
        raise node.error(f"num_segments is {count}, expected one number of 0 or more")
    return [(count[0], *shape[len(of):])]


def _sorted_segments(node: Node) -> Shapes:
    shape, segments = node.shape(0), node.input(1)
    if len(segments.shape) != 1 or segments.shape != shape[:1]:
        raise node.error(f"data have shape {list(shape)} and their segments {list(segments.shape)}, expected one for "
                         "each row")
    if segments.data is None:
        return None
    numbers = [int(number) for number in segments.data]
    if numbers != sorted(numbers) or min(numbers, default=0) < 0:
        raise node.error("segments must be 0 or more and must not decrease")
    return [(max(numbers, default=-1) + 1, *shape[1:])]


def _boxes(node: Node) -> Shapes:
    most = node.integers(2, "max_output_size", any_rank=True)
    if most is None:
        return None
    if len(most) != 1 or most[0] < 0:
        raise node.error(f"max_output_size is {most}, expected one number of 0 or more")
    return [(most[0],)] * (1 + node.operator.op.endswith("V5")) + [()]


#: Rules by operator.
HOST_SHAPES: dict[str, Callable[[Node], Shapes]] = {
    op: rule for rule, ops in {
        _same: "REAL IMAG COMPLEX_ABS LOCAL_RESPONSE_NORMALIZATION BUCKETIZE", _rfft2d: "RFFT2D", _alike: "ATAN2",
        _segments: "UNSORTED_SEGMENT_SUM UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN",
        _sorted_segments: "SEGMENT_SUM", _boxes: " ".join(BOXES)}.items() for op in ops.split()}
