"""Profiles: a network with all their differences equals its engine in golden model, executor and RTL; messages."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import OptionError, ToolError, UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.rules.signatures import SEGMENTS
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.typical import typical
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.profiles import profile_rules
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

ENGINES = {"tflm": "tflm", "litert": "litert-ref"}
HIDDEN, STEPS, DEPTH = 2.0**-7, 4, 6


def lstm(b: ModelBuilder, rng: np.random.Generator, x: int, cells: int) -> int:
    """Add an LSTM over (1, STEPS, n) whose gates are neither dead nor saturated."""
    depth, scale = b.tensors[x].shape[2], b.tensors[x].scale

    def matrix(columns: int, real: float) -> int:
        weights = rng.integers(-127, 128, (cells, columns)).astype(np.int8)
        return b.constant(weights, scale=1 / (3000 * columns * real))

    inputs = [x, *(matrix(depth, scale) for _ in range(4)), *(matrix(cells, HIDDEN) for _ in range(4)), -1, -1, -1]
    inputs += [b.constant(rng.integers(-900, 900, cells).astype(np.int32), scale=0.001) for _ in range(4)]
    inputs += [-1, -1, b.tensor((1, cells), scale=HIDDEN, is_variable=True),
               b.tensor((1, cells), "int16", scale=2.0**-11, is_variable=True), -1, -1, -1, -1]
    middle = [*(b.tensor((0,), "int16", scale=0.001) for _ in range(4)), b.tensor((0,), scale=HIDDEN)]
    output = b.tensor((1, STEPS, cells), scale=HIDDEN)
    b.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [output], {
        "fused_activation_function": "TANH", "cell_clip": 0.0, "proj_clip": 0.0, "time_major": False},
        intermediates=middle)
    return output


def network() -> bytes:
    """Two LSTMs, and a dense layer whose sums are often half-integer multiples of the output's scale."""
    rng, b = np.random.default_rng(5), ModelBuilder("speech")
    second = lstm(b, rng, lstm(b, rng, b.input((1, STEPS, DEPTH), scale=0.02, zero_point=-5), 10), 8)
    flat = b.add("RESHAPE", [second, b.constant([STEPS, 8])], shape=(STEPS, 8))
    weights = b.constant(rng.integers(-127, 128, (40, 8)).astype(np.int8), scale=2.0**-7)
    bias = b.bias(flat, weights, rng.integers(-999, 999, 40))
    return b.build(b.add("FULLY_CONNECTED", [flat, weights, bias], scale=2.0**-9, zero_point=3))


def input_sets() -> list[list[np.ndarray]]:
    rng = np.random.default_rng(6)
    return [[rng.integers(-128, 128, (1, STEPS, DEPTH)).astype(np.int8)] for _ in range(4)]


def differ(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> bool:
    return any(not np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_a_network_of_lstms_and_a_dense_layer_equals_its_engine(oracles: Callable[[str], Oracle]) -> None:
    data, sets = network(), input_sets()
    model = parse_model(data, "speech")
    canon = [golden.run(model, inputs).outputs[0] for inputs in sets]
    for profile, engine in ENGINES.items():
        theirs = [outputs[0] for outputs in oracles(engine).run_sets(data, sets)]
        assert differ(canon, theirs)
        mine = model.under(profile)
        assert not differ([golden.run(mine, inputs).outputs[0] for inputs in sets], theirs)
        program = compile_model(mine, PRESETS["n8"]).program
        assert program.profile == profile
        assert not differ([execute(program, inputs).outputs[0] for inputs in sets], theirs)


@pytest.mark.parametrize("profile", ENGINES)
def test_the_hardware_computes_it(profile: str) -> None:
    model, inputs = parse_model(network(), "speech").under(profile), input_sets()[0]
    program = compile_model(model, PRESETS["tiny"]).program
    assert not differ(simulate(program, inputs).outputs, golden.run(model, inputs).outputs)


def test_int32_sums_have_an_activation_except_in_tflm(oracles: Callable[[str], Oracle]) -> None:
    b = ModelBuilder()
    x, y = b.input((1, 6), "int32"), b.input((1, 6), "int32")
    data = b.build(*(b.add(op, [x, y], fused_activation_function="RELU6") for op in ("ADD", "SUB", "MUL")))
    inputs = [np.array([[-9, -2, 0, 3, 8, 2**31 - 1]], np.int32), np.array([[1, -2, 0, 3, 8, 1]], np.int32)]
    for profile, engine in ENGINES.items():
        theirs = oracles(engine).run(data, inputs)
        model = parse_model(data, "sums").under(profile)
        assert (theirs[0].min() < 0) == (profile == "tflm")
        assert not differ(golden.run(model, inputs).outputs, theirs)
        assert not differ(execute(compile_model(model, PRESETS["n8"]).program, inputs).outputs, theirs)


def one(op: str, scale: float = 0.5, output_scale: float | None = None) -> bytes:
    b = ModelBuilder()
    point = -128 if op == "SQRT" else 0
    return b.build(b.add(op, [b.input((1, 5), scale=scale, zero_point=point)], scale=output_scale))


def floating(op: str) -> bytes:
    b = ModelBuilder()
    x = b.input((1, 5), "float32")
    more = {"POW": [b.constant(np.array(2, np.float32))], "ATAN2": [x]}
    inputs = [x, *more.get(op, [])]
    return b.build(b.add("QUANTIZE", [b.add(op, inputs)], scale=0.5))


def segmented(op: str) -> bytes:
    b = ModelBuilder()
    more = [] if op == "SEGMENT_SUM" else [b.constant(np.array(2, np.int32))]
    return b.build(b.add(op, [b.input((3, 5), "int32"), b.constant(np.array([0, 1, 1], np.int32)), *more]))


def hot() -> bytes:
    b = ModelBuilder()
    on, off = (b.constant(np.array(each, np.int8), scale=0.5) for each in (1, 0))
    return b.build(b.add("ONE_HOT", [b.input((1, 5), "int32"), b.constant(np.array(3, np.int32)), on, off], axis=-1))


def padded() -> bytes:
    b = ModelBuilder()
    x = b.input((1, 2, 2, 1), scale=0.5)
    return b.build(b.add("SPACE_TO_BATCH_ND", [x, b.constant([2, 2]), b.constant([[0, 2], [0, 0]])]))


def transposed() -> bytes:
    """TRANSPOSE_CONV of int16 with an int32 bias."""
    b = ModelBuilder("transposed")
    weights = b.constant(np.ones((2, 1, 1, 3), np.int8), scale=0.5)
    inputs = [b.constant([1, 4, 4, 2]), weights, b.input((1, 4, 4, 3), "int16", scale=0.5)]
    return b.build(b.add("TRANSPOSE_CONV", [*inputs, b.constant(np.ones(2, np.int32), scale=0.25)], scale=1.0,
                         shape=(1, 4, 4, 2), quantized_bias_type="int32"))


def of_words() -> bytes:
    b = ModelBuilder("m")
    x, weights = (b.input((2, 4), "int16", scale=0.1) for _ in range(2))
    return b.build(b.add("FULLY_CONNECTED", [x, weights, -1], shape=(2, 2), scale=0.3))


def without_bias() -> bytes:
    b = ModelBuilder()
    weights = b.constant(np.ones((2, 1, 1, 3), np.int8), scale=[0.5, 0.5])
    return b.build(b.add("CONV_2D", [b.input((1, 2, 2, 3), scale=0.5), weights, -1], scale=4.0))


def without_scales() -> bytes:
    """Weights whose scale the converter derives from a bias and a state's scale of 0."""
    b, scales = ModelBuilder("weights"), [float("inf")] * 2
    weights = b.constant(np.zeros((2, 3), np.int8), scale=scales)
    return b.build(b.add("FULLY_CONNECTED", [b.input((1, 3), "int16", scale=0.5), weights, -1], scale=4.0))


def to_int32() -> bytes:
    b = ModelBuilder()
    x, y = b.input((1, 5), scale=0.5), b.tensor((1, 5), "int32", scale=0.1)
    b.operator("QUANTIZE", [x], [y])
    return b.build(y)


def of_two_types() -> bytes:
    b = ModelBuilder()
    weights = b.constant(np.ones((4, 2), np.int8), scale=0.1)
    return b.build(b.add("BATCH_MATMUL", [b.input((3, 4), "int16", scale=0.5), weights], scale=0.5))


def wide(op: str) -> bytes:
    """One operator of int16."""
    b = ModelBuilder()
    x = b.input((1, 4, 4, 4), "int16", scale=0.5)
    pairs = b.constant([[0, 0]] * 4)
    made: dict[str, Callable[[], int]] = {
        "SPACE_TO_DEPTH": lambda: b.add(op, [x], block_size=2), "DEPTH_TO_SPACE": lambda: b.add(op, [x], block_size=2),
        "GATHER": lambda: b.add(op, [x, b.constant([1, 0])], axis=1),
        "GATHER_ND": lambda: b.add(op, [x, b.constant([[0, 1], [0, 2]])]),
        "BATCH_TO_SPACE_ND": lambda: b.add(op, [x, b.constant([1, 1]), b.constant([[0, 0]] * 2)]),
        "SPACE_TO_BATCH_ND": lambda: b.add(op, [x, b.constant([1, 1]), b.constant([[0, 0]] * 2)]),
        "MIRROR_PAD": lambda: b.add(op, [x, pairs], mode="REFLECT"),
        "EMBEDDING_LOOKUP": lambda: b.add(op, [b.input((3,), "int32"), x]),
        "DIV": lambda: b.add(op, [x, b.constant(np.ones(4, np.int16), scale=0.5)]),
        "RESIZE_BILINEAR": lambda: b.add(op, [x, b.constant([8, 8])]),
        **{name: lambda: b.add(op, [x, b.constant([1])]) for name in ("REDUCE_MAX", "REDUCE_MIN", "SUM")}}
    return b.build(made[op]() if op in made else b.add(op, [x, b.input((1, 4, 4, 4), "int16", scale=0.5)]))


def whole(op: str) -> bytes:
    """One operator of int32."""
    b = ModelBuilder()
    x = b.input((1, 4), "int32")
    return b.build(b.add(op, [x] if op == "ABS" else [x, b.constant(1)]))


def filled() -> bytes:
    b = ModelBuilder()
    return b.build(b.add("FILL", [b.constant([2, 3]), b.input((), "bool")]))


def double_words(op: str) -> bytes:
    b = ModelBuilder()
    x = b.input((2, 3), "int64")
    return b.build(b.add(op, [x, b.input((2, 3), "int64") if op in ("ADD", "SUB", "MUL") else b.constant([1])]))


#: Operators whose kernels do not support int32 in TFLite Micro.
NOT_INTEGER = ("ABS", "SUM", "REDUCE_MAX", "REDUCE_MIN", "ARG_MAX", "ARG_MIN")
#: Operators whose kernels do not support int16, by profile, with the index of the tensor of that type.
NOT_WIDE = {"tflm": ("REDUCE_MAX", "REDUCE_MIN", "RESIZE_BILINEAR", "LESS", "LESS_EQUAL", "GREATER_EQUAL", "EQUAL",
                     "NOT_EQUAL", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "GATHER", "GATHER_ND",
                     "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "MIRROR_PAD", "EMBEDDING_LOOKUP", "DIV"),
            "litert": ("SQUARED_DIFFERENCE", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE")}


def svdf(dtype: str, bias_scale: float) -> bytes:
    b = ModelBuilder()
    x = b.input((1, 3), scale=0.5)
    feature = b.constant(np.ones((2, 3), np.int8), scale=0.5)
    time = b.constant(np.ones((2, 4), "int16" if dtype == "int16" else "int8"), scale=0.25)
    bias = b.constant(np.array([1], np.int32), scale=bias_scale)
    state = b.tensor((1, 8), dtype, scale=0.5, is_variable=True)
    return b.build(b.add("SVDF", [x, feature, time, bias, state], scale=0.5, rank=2, fused_activation_function="RELU"))


def turned_ellipsis() -> bytes:
    """A whole axis that is reversed, or not if an ellipsis ignores its stride."""
    b = ModelBuilder("ellipsis")
    x = b.input((2, 4), scale=0.5)
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask"), 2)
    return b.build(b.add("STRIDED_SLICE", [x, b.constant([0, 0]), b.constant([2, 4]), b.constant([1, -1])],
                         shape=(2, 4), options=masks | {"new_axis_mask": 0, "shrink_axis_mask": 0}))


def scaled_layer(op: str, scale: list[float] | None = None, dimension: int = 0) -> bytes:
    """As ai-edge-quantizer writes a bias times ConvNeXt's layer scale."""
    b = ModelBuilder("layer_scale")
    bias = b.constant(np.array([[[100, -2000, 30]]], np.int32), scale=scale or [0.02, 0.021, 0.019],
                      dimension=dimension)
    shape = {"FULLY_CONNECTED": (3, 4), "DEPTHWISE_CONV_2D": (1, 1, 1, 3)}.get(op, (3, 1, 1, 3))
    weights = b.constant(np.ones(shape, np.int8), scale=[0.2, 0.21, 0.19], dimension=3 * (op == "DEPTHWISE_CONV_2D"))
    x = b.input((1, 4) if op == "FULLY_CONNECTED" else (1, 3, 3, 3), scale=0.1)
    inputs = [b.constant([1, 3, 3, 3]), weights, x, bias] if op == "TRANSPOSE_CONV" else [x, weights, bias]
    return b.build(b.add(op, inputs, scale=0.5, **({} if op == "FULLY_CONNECTED" else {"padding": "SAME"})))


def softmax(scale: float) -> bytes:
    b = ModelBuilder("softmax")
    return b.build(b.add("SOFTMAX", [b.input((1, 5), scale=0.1)], scale=scale, zero_point=-128))


UNDEFINED = "TFLite Micro's result is undefined"
SHIFT = "Keep the input scale at 2^-28 or more and below 2^35: the kernel shifts by its exponent"
REFUSED = [
    *(("tflm", floating(op), f"operator 0 ({op})", f"Use an operator that the engine supports; found {op}. TFLite "
       "Micro refuses it") for op in ("POW", "SIGN", "ATAN2")),
    *(("litert", floating(op), f"operator 0 ({op})", "Use an operator that the reference resolver has; found "
       f"{op}. LiteRT's reference kernels lack it") for op in ("CEIL", "ROUND")),
    *(("tflm", one(op, 0.05), f"operator 0 ({op})", "Use an operator that the engine supports; found "
       f"{op}. TFLite Micro refuses it") for op in ("RELU_N1_TO_1", "RELU_0_TO_1", "GELU", "EXP", "LOG", "NEG",
                                                                      "SQRT")),
    *(("tflm", data, f"operator 0 ({op})", f"Use an operator that the engine supports; found {op}. TFLite Micro "
                                           "refuses it")
      for op, data in (("ONE_HOT", hot()), *((op, write_model(typical(op))) for op in (
          "TILE", "SELECT", "SCATTER_ND", "REDUCE_PROD", "REDUCE_ANY", "TOPK_V2", "FLOOR_DIV", "FLOOR_MOD",
          "REVERSE_SEQUENCE", "MATRIX_DIAG", "MATRIX_SET_DIAG", "DILATE", "SPARSE_TO_DENSE", "BITWISE_XOR",
          "RIGHT_SHIFT")))),
    *(("tflm", double_words(op), f"operator 0 ({op})", "Do not use int64: the engine's kernel does not support it; "
       "found int64 for tensor 0, 't0'. TFLite Micro refuses it") for op in (
           "ADD", "SUB", "MUL", "SUM", "REDUCE_MAX", "REDUCE_MIN")),
    ("tflm", filled(), "operator 0 (FILL)", "Fill with int8, int32 or float32; found bool. TFLite Micro refuses it"),
    *(("tflm", whole(op), f"operator 0 ({op})", "Do not use int32: the engine's kernel does not support it; found "
       "int32 for tensor 0, 't0'. TFLite Micro refuses it") for op in NOT_INTEGER),
    ("tflm", padded(), "operator 0 (SPACE_TO_BATCH_ND)", "Do not pad: the kernel pads with a value that is never set; "
     f"found paddings [[0, 2], [0, 0]]. {UNDEFINED}"),
    ("tflm", turned_ellipsis(), "operator 0 (STRIDED_SLICE)", "Give an ellipsis stride 1: the kernel treats its axis "
     "like any other; found stride -1. TFLite Micro gives a different result"),
    ("tflm", one("LOGISTIC", 2.0**-29), "operator 0 (LOGISTIC)", f"{SHIFT}; found 1.86265e-09. {UNDEFINED}"),
    ("tflm", one("TANH", 2.0**35), "operator 0 (TANH)", f"{SHIFT}; found 3.43597e+10. {UNDEFINED}"),
    ("tflm", one("RELU6", 1e-9, 0.5), "operator 0 (RELU6)", "Keep 6 divided by the input scale below 2^31 - 128; found "
     f"input scale 1e-09. {UNDEFINED}"),
    ("tflm", transposed(), "operator 0 (TRANSPOSE_CONV)", "Give an int16 input an int64 bias: the kernel reads any "
     f"bias as int64; found int32. {UNDEFINED}"),
    ("tflm", svdf("int16", 0.25), "operator 0 (SVDF)", "Use a bias whose scale is within 1e-5 of state scale times "
     "time weight scale; found bias scale 0.25, expected 0.125. TFLite Micro refuses it"),
    ("litert", svdf("int8", 0.125), "operator 0 (SVDF)", "Use an int16 state; found int8. LiteRT's result is "
     "undefined"),
    *(("litert", data, f"operator 0 ({op})", f"Use an operator that the reference resolver has; found {op}. "
       "LiteRT's reference kernels lack it") for op, data in (
           ("ELU", one("ELU")), ("SEGMENT_SUM", segmented("SEGMENT_SUM")))),
    *(("tflm", segmented(op), f"operator 0 ({op})", f"Use an operator that the engine supports; found {op}. TFLite "
       "Micro refuses it") for op in SEGMENTS),
    *((profile, wide(op), f"operator 0 ({op})", "Do not use int16: the engine's kernel does not support it; found "
       f"int16 for tensor 0, 't0'. {name} refuses it") for profile, name in (("tflm", "TFLite "
                                                                                      "Micro"), ("litert", "LiteRT"))
      for op in NOT_WIDE[profile]),
    ("tflm", wide("GREATER"), "operator 0 (GREATER)", "Do not use int16: the engine's kernel does not support it; "
     f"found int16 for tensor 0, 't0'. {UNDEFINED}"),
    ("litert", wide("SUM"), "operator 0 (SUM)", "Do not sum int16: the kernel reads bytes; found int16 for tensor 0, "
     "'t0'. LiteRT's result is undefined"),
    ("tflm", of_two_types(), "operator 0 (BATCH_MATMUL)", "Multiply operands of the same type; found int16 and int8. "
     "TFLite Micro refuses it"),
    ("tflm", of_words(), "operator 0 (FULLY_CONNECTED)", "Use weights of int8; found int16 for tensor 1, 't1'. TFLite "
     "Micro refuses it"),
    ("litert", without_bias(), "operator 0 (CONV_2D)", "Use a bias; found none. LiteRT refuses it"),
    ("litert", without_scales(), "operator 0 (FULLY_CONNECTED)", "Give weights of int16 activations finite scales; "
     "found 2 that are not for tensor 0, 't0'. LiteRT's result is undefined"),
    *(("litert", scaled_layer(op), f"operator 0 ({op})", "Give weights and a bias one scale, or as many as they have "
       "elements along a quantized dimension of theirs; found 3 along dimension 0 of tensor 0, 't0', [1, 1, 3]. LiteRT "
       "refuses it") for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED")),
    ("litert", scaled_layer("DEPTHWISE_CONV_2D", [0.02]), "operator 0 (DEPTHWISE_CONV_2D)", "Give a bias one axis; "
     "found [1, 1, 3] of tensor 0, 't0'. LiteRT refuses it"),
    ("tflm", softmax(0.003909), "operator 0 (SOFTMAX)", "Give an int8 output the scale 1/256; found 0.0039090002. "
     "TFLite Micro refuses it"),
    ("litert", to_int32(), "operator 0 (QUANTIZE)", "Do not convert int8 or uint8 to int32; found int8 to int32. "
     "LiteRT refuses it"),
]


@pytest.mark.parametrize(("profile", "data", "where", "message"), REFUSED)
def test_models_without_a_result_in_an_engine(profile: str, data: bytes, where: str, message: str) -> None:
    model = parse_model(data, "m")
    inputs = [np.zeros(t.shape, t.dtype) for t in (model.main.tensors[index] for index in model.main.inputs)]
    assert golden.run(model, inputs).outputs
    for run in (lambda: golden.run(model.under(profile), inputs),
                lambda: compile_model(model, PRESETS["n16"], profile=profile)):
        with pytest.raises(UnsupportedError) as found:
            run()
        assert str(found.value) == f"{where}: under --profile {profile}: {message}; --profile canon runs it"


@pytest.mark.parametrize("op", ["LOGISTIC", "TANH", "RELU6"])
def test_float32_between_quantize_and_dequantize_has_no_scale(op: str) -> None:
    model = parse_model(floating(op), "m").under("tflm")
    assert golden.run(model, [np.zeros((1, 5), np.float32)]).outputs


def test_every_rule_of_an_operator_is_here() -> None:
    rules = [(profile, f"operator 0 ({op})", sentence, why) for profile in ENGINES
             for op, sentence, why in profile_rules(profile)]
    found = [(profile, where, message.partition("; found")[0], message.rpartition(". ")[2])
             for profile, _, where, message in REFUSED]
    assert sorted(found) == sorted(rules)


@pytest.mark.parametrize(("profile", "data", "where", "message"), [
    each for each in REFUSED if each[3].endswith("refuses it")])
def test_the_engine_refuses_it(oracles: Callable[[str], Oracle], profile: str, data: bytes, where: str,
                               message: str) -> None:
    model = parse_model(data, "m")
    inputs = [np.zeros(t.shape, t.dtype) for t in (model.main.tensors[index] for index in model.main.inputs)]
    with pytest.raises(ToolError, match=f"^{ENGINES[profile]} refused the model: "):
        oracles(ENGINES[profile]).run(data, inputs)


def test_unknown_profile() -> None:
    model: Model = parse_model(network(), "speech")
    assert (model.profile, model.under("litert").profile) == ("canon", "litert")
    with pytest.raises(OptionError) as found:
        model.under("x")
    assert str(found.value) == "profile must be one of canon, tflm, litert, not 'x'"


@pytest.mark.parametrize("data", [
    *map(scaled_layer, ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED")),
    scaled_layer("CONV_2D", [0.02], 5), scaled_layer("DEPTHWISE_CONV_2D", [0.02])])
def test_litert_refuses_these_scales(data: bytes, oracles: Callable[[str], Oracle]) -> None:
    shape = parse_model(data, "m").main.tensors[parse_model(data, "m").main.inputs[0]].shape
    with pytest.raises(ToolError, match=r"quantized_dimension must be in range|num_scales must be 1|NumDimensions"):
        oracles("litert-ref").run(data, [np.zeros(shape, np.int8)])
