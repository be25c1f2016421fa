"""One operator of each kind on each integer type, with inputs that its kernel accepts; for `kernels.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tq_hw.model.graph import OptionValue
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.schema import OPERATOR_OPTIONS, OPTIONS

__all__ = ["FORMS", "TYPES", "Draw", "built"]

TYPES = ("int8", "int16", "int32", "int64", "uint8", "bool")
SHAPE = (1, 4, 4, 4)
#: Scale and zero point of each quantized type.
CODES: dict[str, tuple[float, int]] = {"int8": (0.05, 3), "uint8": (0.05, 131), "int16": (0.001, 0)}
_FIXED = {"LOGISTIC": (1 / 256, -128), "SOFTMAX": (1 / 256, -128), "TANH": (1 / 128, 0), "LOG_SOFTMAX": (16 / 256, 127),
          "L2_NORMALIZATION": (1 / 128, 0)}
#: Operators with a restricted range of inputs: divisors are not 0, powers stay small.
_RANGES = {**dict.fromkeys(("DIV", "FLOOR_DIV", "FLOOR_MOD", "LOG"), (5, 100)), "POW": (1, 4), "RIGHT_SHIFT": (0, 9)}

Output = tuple[str, tuple[int, ...]]
Made = tuple[Sequence[int], Sequence[Output], dict[str, OptionValue]]


@dataclass
class Draw:
    """A model under construction and its inputs."""

    op: str
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    arrays: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.b = ModelBuilder(self.op)

    def codes(self, dtype: str) -> dict[str, Any]:
        """Return scale and zero point of a type, {} for plain integers."""
        # The argument of a root must not be negative.
        found = (0.05, -128) if self.op in ("SQRT", "RSQRT") and dtype == "int8" else CODES.get(dtype)
        found = (0.001, 0) if (self.op, dtype) == ("QUANTIZE", "int32") else found
        return {} if found is None else {"scale": found[0], "zero_point": found[1]}

    def x(self, dtype: str, shape: Sequence[int] = SHAPE) -> int:
        """Add an input."""
        low, high = _RANGES.get(self.op, (0 if self.op in ("SQRT", "RSQRT") and dtype == "int16" else -100, 100))
        offset = 135 if dtype == "uint8" else 0
        data = self.rng.integers(low, high, shape) + offset if dtype != "bool" else self.rng.random(shape) < 0.5
        self.arrays.append(np.asarray(data).astype(dtype))
        return self.b.input(shape, dtype, **self.codes(dtype))

    def index(self, shape: Sequence[int], limit: int, dtype: str = "int32") -> int:
        """Add an input of integers from 0 to limit - 1."""
        self.arrays.append(self.rng.integers(0, limit, shape).astype(dtype))
        return self.b.input(shape, dtype)

    def k(self, data: Any, dtype: str = "int32") -> int:
        """Add a constant. A scalar of a quantized type gets the type's scale."""
        return self.b.constant(np.asarray(data, dtype), **(self.codes(dtype) if np.ndim(data) == 0 else {}))

    def weights(self, dtype: str, *shape: int) -> list[int]:
        """Add int8 weights, and a bias of the type that the activations require."""
        scale = CODES.get(dtype, (1.0, 0))[0]
        kind, outputs = ("int64" if dtype == "int16" else "int32"), shape[3 if shape[0] == 1 else 0]
        return [self.b.constant(np.ones(shape, np.int8), scale=0.01),
                self.b.constant(np.zeros(outputs, kind), scale=0.01 * scale)]


Form = Callable[[Draw, str], Made]
_WINDOW: dict[str, Any] = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
_PAIRS = [[0, 0], [1, 1], [0, 0], [0, 0]]


def _one(shape: tuple[int, ...], *constants: Any, source: Sequence[int] = SHAPE, out: str | None = None,
         **options: OptionValue) -> Form:
    """One output from one input, followed by int32 constants."""
    return lambda d, t: ([d.x(t, source), *map(d.k, constants)], [(out or t, shape)], options)


def _many(*shapes: tuple[int, ...], source: Sequence[int] = SHAPE, before: Sequence[Any] = (),
          after: Sequence[Any] = (), **options: OptionValue) -> Form:
    """Several outputs from one input, with int32 constants before and after it."""
    return lambda d, t: ([*map(d.k, before), d.x(t, source), *map(d.k, after)], [(t, each) for each in shapes], options)


def _pair(out: str | None = None) -> Form:
    return lambda d, t: ([d.x(t), d.x(t)], [(out or t, SHAPE)], {})


_UNARY = ("ABS NEG SIN COS EXP LOG SQRT RSQRT SQUARE FLOOR CEIL ROUND SIGN ELU GELU HARD_SWISH RELU RELU6 RELU_N1_TO_1 "
          "RELU_0_TO_1 LOGISTIC TANH L2_NORMALIZATION LOG_SOFTMAX ZEROS_LIKE")
_TABLE: dict[str, Form] = {
    _UNARY: _one(SHAPE), "SOFTMAX": _one(SHAPE, beta=1.0), "LEAKY_RELU": _one(SHAPE, alpha=0.125),
    "ADD SUB MUL DIV MAXIMUM MINIMUM SQUARED_DIFFERENCE FLOOR_DIV FLOOR_MOD POW RIGHT_SHIFT BITWISE_XOR ADD_N": _pair(),
    "LESS LESS_EQUAL GREATER GREATER_EQUAL EQUAL NOT_EQUAL": _pair("bool"), "LOGICAL_AND LOGICAL_OR": _pair("bool"),
    "LOGICAL_NOT": _one(SHAPE, out="bool"), "RANK": _one((), out="int32"),
    "PRELU": lambda d, t: ([d.x(t), d.b.constant(np.ones((1, 1, 4), np.int8), scale=0.05)], [(t, SHAPE)], {}),
    "SHAPE": _one((4,), out="int32", out_type="int32"),
    "MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL": _one((1, 4, 4), [3]),
    "ARG_MAX ARG_MIN": _one((1, 4, 4), 3, out="int32", output_type="int32"), "CUMSUM": _one(SHAPE, 1),
    "TOPK_V2": lambda d, t: ([d.x(t), d.k(2)], [(t, (1, 4, 4, 2)), ("int32", (1, 4, 4, 2))], {}),
    "RESHAPE": _one((4, 16), [4, 16]), "SQUEEZE": _one((4, 4, 4), squeeze_dims=(0,)),
    "EXPAND_DIMS": _one((1, 1, 4, 4, 4), 0), "TRANSPOSE": _one(SHAPE, [0, 3, 1, 2]), "PAD": _one((1, 6, 4, 4), _PAIRS),
    "PADV2": lambda d, t: ([d.x(t), d.k(_PAIRS), d.k(1, t)], [(t, (1, 6, 4, 4))], {}),
    "MIRROR_PAD": _one((1, 6, 4, 4), _PAIRS, mode="REFLECT"), "TILE": _one((1, 8, 4, 4), [1, 2, 1, 1]),
    "BROADCAST_TO": _one(SHAPE, [1, 4, 4, 4], source=(1, 1, 4, 4)), "REVERSE_V2": _one(SHAPE, [1]),
    "REVERSE_SEQUENCE": _one((2, 4, 4), [2, 3], source=(2, 4, 4), seq_dim=1, batch_dim=0),
    "GATHER": _one((1, 2, 4, 4), [0, 2], axis=1), "GATHER:computed": lambda d, t: (
        [d.x(t), d.index((2,), 4)], [(t, (1, 2, 4, 4))], {"axis": 1}),
    "GATHER_ND": _one((2, 4, 4), [[0, 1], [0, 2]]), "GATHER_ND:computed": lambda d, t: (
        [d.x(t), d.index((2, 1), 1)], [(t, (2, 4, 4, 4))], {}),
    "SCATTER_ND": _many((3, 4), source=(2, 4), before=[[[1], [0]]], after=[[3, 4]]),
    "SCATTER_ND:repeated": _many((3, 4), source=(2, 4), before=[[[1], [1]]], after=[[3, 4]]),
    "SPARSE_TO_DENSE": lambda d, t: ([d.k([1, 3]), d.k([6]), d.x(t, (2,)), d.k(1, t)], [(t, (6,))], {}),
    "SEGMENT_SUM": _one((3, 3), [0, 0, 1, 2], source=(4, 3)),
    "UNSORTED_SEGMENT_SUM UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD":
        _one((3, 3), [2, 0, 1, 2], 3, source=(4, 3)),
    "SELECT SELECT_V2": lambda d, t: ([d.x("bool"), d.x(t), d.x(t)], [(t, SHAPE)], {}),
    "WHERE": _one((9, 2), source=(3, 3), out="int64"),
    "ONE_HOT": lambda d, t: ([d.index((4,), 5), d.k(5), d.k(1, t), d.k(0, t)], [(t, (4, 5))], {"axis": -1}),
    "DYNAMIC_UPDATE_SLICE": lambda d, t: ([d.x(t), d.x(t, (1, 2, 2, 4)), d.k([0, 1, 1, 0])], [(t, SHAPE)], {}),
    "DYNAMIC_UPDATE_SLICE:computed": lambda d, t: (
        [d.x(t), d.x(t, (1, 2, 4, 4)), d.index((4,), 2)], [(t, SHAPE)], {}),
    "SLICE": _one((1, 2, 4, 4), [0, 1, 0, 0], [1, 2, 4, 4]), "SLICE:computed": lambda d, t: (
        [d.x(t), d.index((4,), 1), d.k([1, 2, 4, 4])], [(t, (1, 2, 4, 4))], {}),
    "STRIDED_SLICE": _one((1, 2, 4, 4), [0, 1, 0, 0], [1, 3, 4, 4], [1, 1, 1, 1]),
    "SPLIT": _many((1, 2, 4, 4), (1, 2, 4, 4), before=[1], num_splits=2),
    "SPLIT_V": _many((1, 1, 4, 4), (1, 3, 4, 4), after=[[1, 3], 1], num_splits=2),
    "UNPACK": _many((2, 4), (2, 4), (2, 4), source=(2, 3, 4), num=3, axis=1),
    "PACK": lambda d, t: ([d.x(t), d.x(t)], [(t, (1, 4, 2, 4, 4))], {"values_count": 2, "axis": 2}),
    "CONCATENATION": lambda d, t: ([d.x(t), d.x(t)], [(t, (1, 8, 4, 4))], {"axis": 1}),
    "SPACE_TO_DEPTH": _one((1, 2, 2, 16), block_size=2), "DEPTH_TO_SPACE": _one((1, 8, 8, 1), block_size=2),
    "SPACE_TO_BATCH_ND": _one((4, 2, 2, 4), [2, 2], [[0, 0], [0, 0]]),
    "BATCH_TO_SPACE_ND": _one((1, 5, 2, 4), [3, 1], [[0, 1], [0, 0]], source=(3, 2, 2, 4)),
    "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D": _one((1, 4, 4, 4), filter_height=2, filter_width=2, **_WINDOW),
    "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR": _one((1, 8, 8, 4), [8, 8]),
    "BATCH_MATMUL": _pair(), "EMBEDDING_LOOKUP": lambda d, t: ([d.index((3,), 4), d.x(t, (4, 5))], [(t, (3, 5))], {}),
    "FILL": lambda d, t: ([d.k([2, 3]), d.x(t, ())], [(t, (2, 3))], {}),
    "MATRIX_DIAG": _one((2, 3, 3), source=(2, 3)),
    "MATRIX_SET_DIAG": lambda d, t: ([d.x(t, (2, 3, 3)), d.x(t, (2, 3))], [(t, (2, 3, 3))], {}),
    "DILATE": lambda d, t: ([d.x(t, (2, 3)), d.k([2, 2]), d.k(0, t)], [(t, (3, 5))], {}),
    "CONV_2D": lambda d, t: ([d.x(t), *d.weights(t, 5, 3, 3, 4)], [(t, (1, 4, 4, 5))], _WINDOW),
    "DEPTHWISE_CONV_2D": lambda d, t: ([d.x(t), *d.weights(t, 1, 3, 3, 4)], [(t, SHAPE)], {
        **_WINDOW, "depth_multiplier": 1}),
    "FULLY_CONNECTED": lambda d, t: ([d.x(t), *d.weights(t, 5, 4)], [(t, (16, 5))], {}),
    "DEQUANTIZE": _one(SHAPE, out="float32"),
    **{f"QUANTIZE:{out}": _one(SHAPE, out=out) for out in ("int8", "uint8", "int16")},
    **{f"CAST:{out}": _one(SHAPE, out=out, out_data_type=out) for out in (*TYPES, "float32")},
}
#: How to build each operator, or a form of it, named after a colon.
FORMS: dict[str, Form] = {name: form for names, form in _TABLE.items() for name in names.split()}


def built(name: str, dtype: str) -> tuple[bytes, list[np.ndarray]]:
    """Return the file contents of a form on a data type, unverified, and its inputs."""
    draw = Draw(name.partition(":")[0])
    inputs, outputs, options = FORMS[name](draw, dtype)
    made = []
    for out, shape in outputs:
        scale, point = CODES.get(out, (None, 0))
        if scale is not None and draw.op in _FIXED:
            scale, point = (2.0**-15, 0) if out == "int16" else _FIXED[draw.op]
        factor = {"MUL": 3, "REDUCE_PROD": 10000, "DIV": 2, "BATCH_MATMUL": 20, "CONV_2D": 4, "DEPTHWISE_CONV_2D": 4,
                  "FULLY_CONNECTED": 4}.get(draw.op, 1)
        made.append(draw.b.tensor(shape, out, scale=scale if scale is None else factor * scale, zero_point=point))
    known: dict[str, OptionValue] = {each.name: each.default
                                     for each in OPTIONS.get(OPERATOR_OPTIONS.get(draw.op, ""), ())}
    given = {"in_data_type": dtype, **options}
    draw.b.operator(draw.op, inputs, made, known | {key: given[key] for key in given if key in known},
                    version=2 if draw.op == "BROADCAST_TO" else 1)
    return draw.b.build(*made), draw.arrays
