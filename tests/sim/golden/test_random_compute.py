"""Operators that compute, in generated models of one operator: the results of the public engines."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_draws import Generator
from random_elements import (
    binary,
    bits,
    cast,
    div,
    divided_integers,
    double_words,
    equal_truth,
    from_float,
    from_integer,
    integer_reduction,
    integers,
    l2_normalization,
    one_hot,
    pool,
    product,
    reduction,
    resize,
    softmax,
    top_k,
    truth,
    unary,
    whole,
)
from random_products import (
    asymmetric,
    batch_matmul,
    computed,
    conv,
    fully_connected,
    lstm,
    svdf,
    svdf_int8,
    without_bias,
)

from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model

BOTH, REF, TFLM = ("litert-ref", "tflm"), ("litert-ref",), ("tflm",)
#: Operator -> generator, engines that profile canon equals.
OPERATORS: dict[str, tuple[Generator, tuple[str, ...]]] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"), (conv, BOTH)),
    "FULLY_CONNECTED": (fully_connected, TFLM),
    "BATCH_MATMUL": (batch_matmul, REF),
    **dict.fromkeys(("ADD", "SUB", "MAXIMUM", "MINIMUM", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL",
                     "EQUAL", "NOT_EQUAL", "SQUARED_DIFFERENCE"), (binary, BOTH)),
    "MUL": (binary, REF),
    **dict.fromkeys(("LOGISTIC", "TANH"), (unary, REF)),
    **dict.fromkeys(("PRELU", "HARD_SWISH", "QUANTIZE", "DEQUANTIZE"), (unary, BOTH)),
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU"), (unary, REF)),
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX"), (softmax, BOTH)),
    "L2_NORMALIZATION": (l2_normalization, BOTH),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), (pool, BOTH)),
    **dict.fromkeys(("MEAN", "REDUCE_MAX", "REDUCE_MIN", "ARG_MAX", "ARG_MIN"), (reduction, BOTH)),
    "SUM": (reduction, TFLM),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), (resize, BOTH)),
    "SVDF": (svdf, BOTH), "DIV": (div, REF), "REDUCE_PROD": (product, REF), "ONE_HOT": (one_hot, REF),
    "TOPK_V2": (top_k, REF), **dict.fromkeys(("REDUCE_ANY", "REDUCE_ALL"), (truth, REF)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (lstm, REF),
    "FLOAT_QUANTIZE": (from_float, BOTH),
    # TFLite Micro omits the activation of int32.
    **dict.fromkeys(("ADD:int32", "SUB:int32", "MUL:int32", "SQUARED_DIFFERENCE:int32"), (integers, REF)),
    **dict.fromkeys((f"{op}:int32" for op in ("MAXIMUM", "MINIMUM", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL",
                                              "EQUAL", "NOT_EQUAL")), (integers, BOTH)),
    **dict.fromkeys((f"{op}:{dtype}" for op in ("FLOOR_DIV", "FLOOR_MOD") for dtype in ("int8", "int16", "int32")),
                    (divided_integers, REF)),
    **dict.fromkeys((f"{op}:{dtype}" for op in ("BITWISE_XOR", "RIGHT_SHIFT") for dtype in ("int8", "int16", "int32")),
                    (bits, REF)),
    "DIV:int32": (divided_integers, BOTH), **dict.fromkeys(("ABS:int32", "NEG:int32", "SIGN", "POW"), (whole, REF)),
    **dict.fromkeys((f"{op}:int32" for op in ("SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "ARG_MAX", "ARG_MIN")),
                    (integer_reduction, REF)),
    **dict.fromkeys(("ADD:int64", "SUB:int64", "MUL:int64"), (double_words, REF)),
    **dict.fromkeys((f"{op}:int64" for op in ("MAXIMUM", "MINIMUM", "LESS", "LESS_EQUAL", "GREATER",
                                              "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")), (double_words, BOTH)),
    **dict.fromkeys(("EQUAL:bool", "NOT_EQUAL:bool"), (equal_truth, BOTH)),
    **dict.fromkeys(("uint8:int8", "int8:uint8", "int16:int8", "int32:int8", "int32:int16"), (from_integer, BOTH)),
    **dict.fromkeys(("int8:int16", "int16:int32", "int8:int32"), (from_integer, TFLM)),
    "CAST": (cast, REF),
    **dict.fromkeys(("CONV_2D:bias", "DEPTHWISE_CONV_2D:bias"), (without_bias, TFLM)),
    "FULLY_CONNECTED:asymmetric": (asymmetric, TFLM),
    "FULLY_CONNECTED:computed": (computed, TFLM),
    "SVDF:int8": (svdf_int8, TFLM),
}


def sweep(op: str, seeds: range, agree: Callable[..., None], random_sets: Callable[..., Any]) -> None:
    generate, engines = OPERATORS[op]
    for seed in seeds:
        data = generate(np.random.default_rng([seed, *op.encode()]), op)
        sets = random_sets(parse_model(data, op, check=False), seed)
        for engine in engines:
            try:
                agree(engine, data, sets, reset=not op.startswith("SVDF"))
            except Exception as error:
                error.add_note(f"{op}, seed {seed}, {engine}")
                raise


@pytest.mark.parametrize("op", OPERATORS)
def test_equals_the_engines(op: str, agree: Callable[..., None], random_sets: Callable[..., Any]) -> None:
    sweep(op, range(3), agree, random_sets)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("classes", [4096, 5000, 20000])
def test_log_softmax_of_so_many_classes_that_the_sum_wraps(classes: int, engine: str,
                                                           agree: Callable[..., None]) -> None:
    b = ModelBuilder("classes")
    data = b.build(b.add("LOG_SOFTMAX", [b.input((1, classes), scale=0.01, zero_point=3)]))
    rng = np.random.default_rng(classes)
    agree(engine, data, [[rng.integers(low, high, (1, classes)).astype(np.int8)]
                         for low, high in ((7, 8), (-128, 128), (100, 128))])


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("scales", [(1e-6, 1.0), (1e-7, 1e-6), (1e-9, 1e-9), (1e-9, 1e-5), (1e-30, 1e-24), (2e7, 1e9)])
def test_hard_swish_with_shifts_of_16_and_more(scales: tuple[float, float], engine: str,
                                               agree: Callable[..., None]) -> None:
    b = ModelBuilder("hard_swish")
    x = b.input((256,), scale=scales[0], zero_point=3)
    data = b.build(b.add("HARD_SWISH", [x], scale=scales[1], zero_point=-5))
    agree(engine, data, [[np.arange(-128, 128).astype(np.int8)]])


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
def test_equals_the_engines_in_a_sweep(op: str, agree: Callable[..., None],
                                       random_sets: Callable[..., Any]) -> None:
    sweep(op, range(3, 60), agree, random_sets)
