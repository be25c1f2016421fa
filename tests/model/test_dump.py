import numpy as np

from tq_hw.model.dump import dump
from tq_hw.model.samples.build import ModelBuilder


def test_writes_one_line_for_each_operator():
    builder = ModelBuilder("net")
    image = builder.input((1, 8, 8, 3), scale=0.5, zero_point=-3, name="image")
    weights = builder.constant(np.ones((2, 3, 3, 3), np.int8), scale=[0.1, 0.2])
    conv = builder.add("CONV_2D", [image, weights, -1], scale=0.25, zero_point=4, fused_activation_function="RELU")
    mean = builder.add("MEAN", [conv, builder.constant([1, 2])], keep_dims=True)
    soft = builder.add("SOFTMAX", [builder.add("RESHAPE", [mean], new_shape=(1, 2))])
    assert dump(builder.model(soft)) == """\
model net
subgraph 0 'main'
  in  %0 int8[1x8x8x3] 0.5*(q+3) 'image'
    0 CONV_2D(%0 int8[1x8x8x3] 0.5*(q+3), =1 int8[2x3x3x3] 2 scales 0.1..0.2 on axis 0, -) -> \
%2 int8[1x8x8x2] 0.25*(q-4) padding=SAME stride_w=1 stride_h=1 fused_activation_function=RELU dilation_w_factor=1 \
dilation_h_factor=1 quantized_bias_type=float32
    1 MEAN(%2 int8[1x8x8x2] 0.25*(q-4), =3 int32[2]{1,2}) -> %4 int8[1x1x1x2] 0.25*(q-4) keep_dims=yes
    2 RESHAPE(%4 int8[1x1x1x2] 0.25*(q-4)) -> %5 int8[1x2] 0.25*(q-4) new_shape=1x2
    3 SOFTMAX(%5 int8[1x2] 0.25*(q-4)) -> %6 int8[1x2] 0.00390625*(q+128) beta=1
  out %6 int8[1x2] 0.00390625*(q+128) 't6'
"""


def test_marks_variables_and_escapes_names():
    builder = ModelBuilder("net")
    builder.tensor((2,), scale=1.0, is_variable=True, name="a\nb")
    handle = builder.add("VAR_HANDLE", [], dtype="resource", shape=(), shared_name="x y\n")
    assert dump(builder.model(0, handle)) == """\
model net
subgraph 0 'main'
    0 VAR_HANDLE() -> %1 resource[] container='' shared_name='x y\\n'
  out $0 int8[2] 1*q 'a\\nb'
  out %1 resource[] 't1'
"""
