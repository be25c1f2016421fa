"""Files of other accelerators' compilers: the message names the compiler, whatever its operators read."""

import pytest

from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Quantization, Tensor
from tq_hw.model.samples.build import build_model
from tq_hw.model.tflite.reader import parse_model

_INT8 = Quantization((0.5,), (0,))


@pytest.mark.parametrize("custom, maker", [
    ("ethos-u", "Vela, for an Ethos-U"), ("edgetpu-custom-op", "the Edge TPU compiler"),
    ("XC_conv2d_v2", "XMOS' optimizer, for an xcore"),
])
def test_the_compiler_is_named(custom: str, maker: str) -> None:
    # Tensor 1 is a scratch area, which nothing provides.
    tensors = [Tensor(0, "in", "int8", (1, 4), _INT8), Tensor(1, "scratch", "uint8", (64,), None),
               Tensor(2, "out", "int8", (1, 4), _INT8)]
    data = build_model(tensors, [Operator(0, f"CUSTOM:{custom}", (0, 1), (2,))], [0], [2])
    with pytest.raises(UnsupportedError) as caught:
        parse_model(data, "m.tflite")
    assert str(caught.value) == (f"m.tflite: subgraph 0, operator 0 CUSTOM:{custom}: the file was compiled by {maker}; "
                                 "give the .tflite file that was compiled")
