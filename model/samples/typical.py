"""One model of a typical size for each operator: what tables of cycles and programs are made from."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tq_hw.model.graph import Model, Operator, OptionValue, Subgraph, Tensor
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model

__all__ = ["TYPICAL", "typical"]

_SHAPE = (1, 32, 32, 16)
_SCALE = 0.05
_Layer = Callable[[ModelBuilder, int], int]


def _weights(b: ModelBuilder, x: int, *shape: int, axis: int = 0) -> list[int]:
    rng = np.random.default_rng(0)
    weights = b.constant(rng.integers(-127, 128, shape).astype(np.int8), dimension=axis,
                         scale=rng.uniform(0.001, 0.01, shape[axis]).tolist())
    return [weights, b.bias(x, weights, rng.integers(-500, 500, shape[axis]))]


def _plain(op: str, *constants: Any, out: float | None = None, **options: OptionValue) -> _Layer:
    """Operator of the image and constants; `out` is the output's scale."""
    def add(b: ModelBuilder, x: int) -> int:
        return b.add(op, [x, *(b.constant(np.asarray(each, np.int32)) for each in constants)], scale=out, zero_point=-7,
                     options=options)
    return add


def _binary(op: str, out: float | None = 0.1) -> _Layer:
    def add(b: ModelBuilder, x: int) -> int:
        return b.add(op, [x, b.input(_SHAPE, scale=_SCALE, zero_point=3)], scale=out, zero_point=-7)
    return add


def _conv(op: str, axis: int, *shape: int, **options: OptionValue) -> _Layer:
    def add(b: ModelBuilder, x: int) -> int:
        return b.add(op, [x, *_weights(b, x, *shape, axis=axis)], padding="SAME", scale=_SCALE, zero_point=3,
                     options=options)
    return add


def _transpose_conv(b: ModelBuilder, x: int) -> int:
    weights, bias = _weights(b, x, 16, 3, 3, 16)
    return b.add("TRANSPOSE_CONV", [b.constant([1, 64, 64, 16]), weights, x, bias], padding="SAME", stride_h=2,
                 stride_w=2, shape=(1, 64, 64, 16), scale=_SCALE, zero_point=3)


def _fully_connected(b: ModelBuilder, x: int) -> int:
    return b.add("FULLY_CONNECTED", [x, *_weights(b, x, 256, 256)], scale=_SCALE, zero_point=3)


def _matmul(b: ModelBuilder, x: int) -> int:
    return b.add("BATCH_MATMUL", [x, b.input((64, 64), scale=_SCALE, zero_point=3)], scale=0.5, zero_point=3)


def _prelu(b: ModelBuilder, x: int) -> int:
    alpha = b.constant(np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 16), scale=0.02)
    return b.add("PRELU", [x, alpha], scale=0.06, zero_point=-7)


def _pad_value(b: ModelBuilder, x: int) -> int:
    value = b.constant(np.array([5], np.int8), scale=_SCALE, zero_point=3)
    return b.add("PADV2", [x, b.constant(np.array([[0, 0], [1, 1], [2, 2], [0, 0]], np.int32)), value])


def _function(op: str) -> _Layer:
    def add(b: ModelBuilder, x: int) -> int:
        return b.add(op, [x], scale=0.06, zero_point=-7, shape=_SHAPE)
    return add


def _parts(op: str) -> _Layer:
    def add(b: ModelBuilder, x: int) -> int:
        if op == "SPLIT":
            return b.add_many(op, [b.constant(np.array(3, np.int32)), x], 2)[-1]
        if op == "SPLIT_V":
            return b.add_many(op, [x, b.constant([5, 11]), b.constant(np.array(3, np.int32))], 2)[-1]
        return b.add_many(op, [x], 32, options={"axis": 1})[-1]
    return add


def _joined(op: str, axis: int) -> _Layer:
    def add(b: ModelBuilder, x: int) -> int:
        return b.add(op, [x, b.input(_SHAPE, scale=_SCALE, zero_point=3)], axis=axis)
    return add


def _embedding(b: ModelBuilder, x: int) -> int:
    table = b.constant(np.random.default_rng(0).integers(-128, 128, (100, 64)).astype(np.int8), scale=_SCALE)
    return b.add("EMBEDDING_LOOKUP", [b.add("ARG_MAX", [x, b.constant(1)], output_type="int32"), table])


def _scatter(b: ModelBuilder, x: int) -> int:
    return b.add("SCATTER_ND", [b.constant(np.array([[1]], np.int32)), x, b.constant([2, *_SHAPE[1:]])])


def _divided(b: ModelBuilder, x: int) -> int:
    divisors = np.random.default_rng(0).integers(4, 128, _SHAPE[-1:]).astype(np.int8)
    return b.add("DIV", [x, b.constant(divisors, scale=_SCALE, zero_point=3)], scale=0.1, zero_point=-7)


def _whole(op: str, *constants: Any) -> _Layer:
    """Operator of int32."""
    def add(b: ModelBuilder, x: int) -> int:
        return b.add(op, [b.input(_SHAPE, "int32"), *(b.constant(np.asarray(each, np.int32)) for each in constants)])
    return add


def _sparse(b: ModelBuilder, x: int) -> int:
    default = b.constant(np.array(3, np.int8), scale=_SCALE, zero_point=3)
    return b.add("SPARSE_TO_DENSE", [b.constant(np.arange(0, 400, 2)), b.constant([400]), x, default])


def _dilated(b: ModelBuilder, x: int) -> int:
    value = b.constant(np.array(3, np.int8), scale=_SCALE, zero_point=3)
    return b.add("DILATE", [x, b.constant([1, 2, 2, 1]), value])


def _sequences(b: ModelBuilder, x: int) -> int:
    return b.add("REVERSE_SEQUENCE", [b.input((8, 32, 16), "int16", scale=_SCALE), b.constant(list(range(16, 32, 2)))],
                 seq_dim=1, batch_dim=0)


def _filled(b: ModelBuilder, x: int) -> int:
    return b.add("FILL", [b.constant(list(_SHAPE)), b.input((), scale=_SCALE)])


def _set(b: ModelBuilder, x: int) -> int:
    return b.add("MATRIX_SET_DIAG", [x, b.input((4, 64), scale=_SCALE, zero_point=3)])


def _truth(op: str) -> _Layer:
    def add(b: ModelBuilder, x: int) -> int:
        return b.add(op, [b.input(_SHAPE, "bool"), b.constant([1, 2])], keep_dims=True)
    return add


def _one_hot(b: ModelBuilder, x: int) -> int:
    on, off = (b.constant(np.array(each, np.int8), scale=_SCALE) for each in (1, 0))
    places = b.add("ARG_MAX", [x, b.constant(1)], output_type="int32")
    return b.add("ONE_HOT", [places, b.constant(np.array(100, np.int32)), on, off], axis=-1)


def _top_k(b: ModelBuilder, x: int) -> int:
    return b.add_many("TOPK_V2", [x, b.constant(np.array(3, np.int32))], 2)[0]


def _updated(b: ModelBuilder, x: int) -> int:
    update = b.input((1, 8, 8, 16), scale=_SCALE, zero_point=3)
    return b.add("DYNAMIC_UPDATE_SLICE", [x, update, b.constant([0, 4, 5, 0])])


def _logical(op: str) -> _Layer:
    def add(b: ModelBuilder, x: int) -> int:
        return b.add(op, [b.input(_SHAPE, "bool") for _ in range(1 if op == "LOGICAL_NOT" else 2)])
    return add


def _select(op: str) -> _Layer:
    def add(b: ModelBuilder, x: int) -> int:
        return b.add(op, [b.input(_SHAPE, "bool"), x, b.input(_SHAPE, scale=_SCALE, zero_point=3)])
    return add


def _svdf(b: ModelBuilder, x: int) -> int:
    rng = np.random.default_rng(0)
    feature = b.constant(rng.integers(-127, 128, (32, 64)).astype(np.int8), scale=0.01)
    time = b.constant(rng.integers(-32767, 32768, (32, 8)).astype(np.int16), scale=2.0 ** -15)
    bias = b.constant(np.zeros(32, np.int32), scale=0.005 * 2.0 ** -15)
    state = b.tensor((1, 32 * 8), "int16", scale=0.005, is_variable=True)
    return b.add("SVDF", [x, feature, time, bias, state], scale=0.2, zero_point=-7, rank=1,
                 fused_activation_function="RELU")


def _lstm(b: ModelBuilder, x: int) -> int:
    rng, cells, scale = np.random.default_rng(0), 16, 2.0 ** -7

    def matrix() -> int:
        return b.constant(rng.integers(-127, 128, (cells, 16)).astype(np.int8), scale=0.005)
    inputs = [x, *(matrix() for _ in range(8)), -1, -1, -1]
    inputs += [b.constant(rng.integers(-999, 999, cells).astype(np.int32), scale=0.001) for _ in range(4)]
    inputs += [-1, -1, b.tensor((1, cells), scale=scale, is_variable=True),
               b.tensor((1, cells), "int16", scale=2.0 ** -11, is_variable=True), -1, -1, -1, -1]
    middle = [*(b.tensor((0,), "int16", scale=0.001) for _ in range(4)), b.tensor((0,), scale=scale)]
    output = b.tensor((1, 8, cells), scale=scale)
    b.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [output], {
        "fused_activation_function": "TANH", "cell_clip": 0.0, "proj_clip": 0.0, "time_major": False},
        intermediates=middle)
    return output


def _state() -> Model:
    """Give the input of the inference before, all -5 at first."""
    b = ModelBuilder("state")
    name: dict[str, OptionValue] = {"container": "", "shared_name": "before"}
    x, handle = b.input(_SHAPE, scale=_SCALE, zero_point=3), b.tensor((), "resource")
    before = b.tensor(_SHAPE, scale=_SCALE, zero_point=3)
    b.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    b.operator("VAR_HANDLE", [], [handle], name)
    b.operator("READ_VARIABLE", [handle], [before])
    b.operator("ASSIGN_VARIABLE", [handle, x], [])
    main = b.model(before).main
    first = replace(main.tensors[x], index=1, name="first", data=np.full(_SHAPE, -5, np.int8))
    once = Subgraph("once", (Tensor(0, "handle", "resource", ()), first), (
        Operator(0, "VAR_HANDLE", (), (0,), name), Operator(1, "ASSIGN_VARIABLE", (0, 1), ())), (), ())
    return parse_model(write_model(Model("state", (main, once))), "state")


_RELU = {"RELU": {}, "RELU6": {}, "RELU_N1_TO_1": {}, "LEAKY_RELU": {"alpha": 0.125}, "HARD_SWISH": {}}
_BLOCK = ([2, 2], [[0, 0], [0, 0]])

#: Shape of the input, and the operator after it.
_LAYERS: dict[str, tuple[tuple[int, ...], _Layer]] = {
    **{op: (_SHAPE, _binary(op)) for op in ("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE")},
    **{op: (_SHAPE, _binary(op, None)) for op in (
        "MAXIMUM", "MINIMUM", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")},
    **{op: (_SHAPE, _plain(op, 3, output_type="int32")) for op in ("ARG_MAX", "ARG_MIN")},
    **{op: (_SHAPE, _plain(op, filter_height=2, filter_width=2, stride_h=2, stride_w=2, padding="VALID"))
       for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D")},
    **{op: (_SHAPE, _plain(op, [1, 2], out=0.02, keep_dims=True)) for op in ("MEAN", "SUM")},
    **{op: (_SHAPE, _plain(op, [1, 2], keep_dims=True)) for op in ("REDUCE_MAX", "REDUCE_MIN")},
    **{op: (_SHAPE, _plain(op, out=0.06, **options)) for op, options in _RELU.items()},
    **{op: (_SHAPE, _plain(op)) for op in ("LOGISTIC", "TANH", "L2_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX")},
    "CONV_2D": (_SHAPE, _conv("CONV_2D", 0, 16, 3, 3, 16)),
    "DEPTHWISE_CONV_2D": (_SHAPE, _conv("DEPTHWISE_CONV_2D", 3, 1, 3, 3, 16)),
    "TRANSPOSE_CONV": (_SHAPE, _transpose_conv), "FULLY_CONNECTED": ((64, 256), _fully_connected),
    "BATCH_MATMUL": ((4, 64, 64), _matmul), "PRELU": (_SHAPE, _prelu), "PADV2": (_SHAPE, _pad_value),
    "PAD": (_SHAPE, _plain("PAD", [[0, 0], [1, 1], [2, 2], [0, 0]])),
    "QUANTIZE": (_SHAPE, _plain("QUANTIZE", out=0.06)), "DEQUANTIZE": (_SHAPE, _plain("DEQUANTIZE")),
    "CAST": (_SHAPE, _plain("CAST", in_data_type="int8", out_data_type="int32")),
    "RESHAPE": (_SHAPE, _plain("RESHAPE", [1, 1024, 16])), "SQUEEZE": (_SHAPE, _plain("SQUEEZE", squeeze_dims=(0,))),
    "EXPAND_DIMS": (_SHAPE, _plain("EXPAND_DIMS", 0)), "SHAPE": (_SHAPE, _plain("SHAPE", out_type="int32")),
    "TRANSPOSE": (_SHAPE, _plain("TRANSPOSE", [0, 3, 1, 2])),
    "SLICE": (_SHAPE, _plain("SLICE", [0, 1, 2, 3], [1, 30, 30, 10])),
    "STRIDED_SLICE": (_SHAPE, _plain("STRIDED_SLICE", [0, 0, 0, 0], [1, 32, 32, 16], [1, 2, 2, 1])),
    "GATHER": (_SHAPE, _plain("GATHER", [5, 3, 31, 0, 7, 8, 9, 10], axis=1, batch_dims=0)),
    "DIV": (_SHAPE, _divided), "REDUCE_PROD": (_SHAPE, _plain("REDUCE_PROD", [3], out=1e10, keep_dims=True)),
    **{op: (_SHAPE, _whole(op, np.arange(1, 17))) for op in (
        "FLOOR_DIV", "FLOOR_MOD", "BITWISE_XOR", "RIGHT_SHIFT")},
    "POW": (_SHAPE, _whole("POW", 3)), "SIGN": (_SHAPE, _whole("SIGN")),
    "REVERSE_SEQUENCE": (_SHAPE, _sequences), "SPARSE_TO_DENSE": ((200,), _sparse), "DILATE": (_SHAPE, _dilated),
    "MATRIX_DIAG": ((4, 64), _plain("MATRIX_DIAG")), "FILL": (_SHAPE, _filled), "MATRIX_SET_DIAG": ((4, 64, 64), _set),
    **{op: (_SHAPE, _truth(op)) for op in ("REDUCE_ANY", "REDUCE_ALL")},
    "ONE_HOT": ((64, 100), _one_hot), "TOPK_V2": ((64, 100), _top_k),
    "TILE": ((1, 16, 16, 16), _plain("TILE", [1, 2, 2, 1])),
    "BROADCAST_TO": ((1, 1, 1, 16), _plain("BROADCAST_TO", list(_SHAPE))),
    "REVERSE_V2": (_SHAPE, _plain("REVERSE_V2", [1])),
    "MIRROR_PAD": (_SHAPE, _plain("MIRROR_PAD", [[0, 0], [1, 1], [2, 2], [0, 0]], mode="REFLECT")),
    "DYNAMIC_UPDATE_SLICE": (_SHAPE, _updated),
    "GATHER_ND": (_SHAPE, _plain("GATHER_ND", [[0, 5], [0, 3], [0, 31], [0, 0]])), "SCATTER_ND": (_SHAPE, _scatter),
    **{op: (_SHAPE, _logical(op)) for op in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT")},
    **{op: (_SHAPE, _select(op)) for op in ("SELECT", "SELECT_V2")},
    "SPACE_TO_DEPTH": (_SHAPE, _plain("SPACE_TO_DEPTH", block_size=2)),
    "DEPTH_TO_SPACE": (_SHAPE, _plain("DEPTH_TO_SPACE", block_size=2)),
    "SPACE_TO_BATCH_ND": (_SHAPE, _plain("SPACE_TO_BATCH_ND", *_BLOCK)),
    "BATCH_TO_SPACE_ND": ((4, 16, 16, 16), _plain("BATCH_TO_SPACE_ND", *_BLOCK)),
    "RESIZE_BILINEAR": (_SHAPE, _plain("RESIZE_BILINEAR", [64, 64], half_pixel_centers=True)),
    "RESIZE_NEAREST_NEIGHBOR": (_SHAPE, _plain("RESIZE_NEAREST_NEIGHBOR", [64, 64])),
    **{op: (_SHAPE, _parts(op)) for op in ("SPLIT", "SPLIT_V", "UNPACK")},
    "CONCATENATION": (_SHAPE, _joined("CONCATENATION", 3)), "PACK": (_SHAPE, _joined("PACK", 1)),
    "EMBEDDING_LOOKUP": ((64, 100), _embedding), "SVDF": ((1, 64), _svdf),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ((1, 8, 16), _lstm),
}
_STATE = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")
#: The operators that there are models of.
TYPICAL = (*_LAYERS, *_STATE)


def typical(op: str) -> Model:
    """Return the model of an operator out of `TYPICAL`, or of a function of one int8."""
    if op in _STATE:
        return _state()
    shape, layer = _LAYERS.get(op, (_SHAPE, _function(op)))
    b = ModelBuilder(op)
    # A root is of what is not negative.
    zero_point = -128 if op in ("RSQRT", "SQRT") else 3
    return parse_model(b.build(layer(b, b.input(shape, scale=_SCALE, zero_point=zero_point))), op)
