"""Recipes of random graphs for float32 that ends in something else than a table: places of extremes."""

from tq_hw.model.random.sketch import Sketch, Unfit

__all__ = ["float_arg"]


def _function(s: Sketch, x: int) -> int:
    """Float32 of a tensor of bytes, a function of it as often as not."""
    real = s.b.add("DEQUANTIZE", [x])
    op = s.pick("", "", "", "NEG", "ABS", "SQUARE", "FLOOR", "TANH", "RELU", "SIGN")
    return s.b.add(op, [real]) if op else real


def float_arg(s: Sketch, x: int) -> list[int]:
    """Place of the largest or smallest float32 number, of one tensor or of two that are joined, moved or not."""
    shape = s.shape(x)
    if not shape or len(shape) > 4:
        raise Unfit
    axis = s.between(0, len(shape) - 1)
    made = _function(s, x)
    same = [y for y in s.live if s.shape(y) == shape]
    if s.chance(0.3):
        other = s.b.add("SIGN", [s.b.add("DEQUANTIZE", [s.pick(*same)])])
        made = s.b.add("CONCATENATION", [s.b.add("FLOOR", [made]), other], options={"axis": axis})
    elif s.chance(0.3):
        made = s.b.add("PAD", [made, s.indices(s.rng.integers(0, 3, (len(shape), 2)))])
    elif s.chance(0.3):
        made = s.b.add("REVERSE_V2", [made, s.indices([axis])])
    return [s.b.add(s.pick("ARG_MAX", "ARG_MIN"), [made, s.indices(axis)],
                    options={"output_type": s.pick("int32", "int32", "int64")})]
