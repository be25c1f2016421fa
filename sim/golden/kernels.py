"""Register every kernel: importing a family's module fills the table."""

from tq_hw.model.rules.signatures import FLOAT_OPERATORS
from tq_hw.sim.golden import (
    activation,
    conv,
    cumsum,
    elementwise,
    fully_connected,
    integers,
    logical,
    movement,
    packed_float,
    pair,
    place,
    pointwise,
    pooling,
    product,
    quantize,
    ranking,
    raw_float,
    rearrange,
    recurrent,
    reduce,
    resize,
    segments,
    slicing,
    soft_float,
    softmax,
    svdf,
)
from tq_hw.sim.golden.float32 import either
from tq_hw.sim.golden.registry import KERNELS

__all__ = ["FAMILIES", "KERNELS"]

FAMILIES = (activation, conv, cumsum, elementwise, fully_connected, integers, logical, movement, packed_float, pair,
            place, pooling, product, quantize, ranking, raw_float, rearrange, recurrent, reduce, resize, segments,
            slicing, soft_float, softmax, svdf)
pointwise.load_all()
for _name in FLOAT_OPERATORS:
    KERNELS[_name] = either(KERNELS.get(_name))
