"""Differences between the profiles: the arithmetic of rescaling factors, and operators without a defined result.

- canon: LiteRT's reference kernels (BUILTIN_REF), but FULLY_CONNECTED and SUM as in TFLite Micro.
- tflm: TFLite Micro's kernels.
- litert: LiteRT's reference kernels.

Kernels read the profile from the subgraph. Sources: the `Prepare` functions of both engines, and experiments with the
wheels: TFLite Micro's computes in double where its kernels write a float32 product.

A rule is a function of an operator and its subgraph. Its docstring is the user's message. It returns the offending
value if the operator has no result under the profile, else None. The engine either refuses such a model, or runs it
with an undefined result.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model, Operator, Subgraph
from tq_hw.model.tflite.zeros import NOT_FINITE
from tq_hw.sim.golden.registry import input_tensor, int_option, located, output_tensor

__all__ = ["check_host", "check_profile", "factor", "profile_rules"]

Rule = Callable[[Operator, Subgraph], str | None]
_NAMES = {"tflm": "TFLite Micro", "litert": "LiteRT"}
_REFUSED, _UNDEFINED, _OTHER = "{} refuses it", "{}'s result is undefined", "{} gives a different result"
_LACKING = "{}'s reference kernels lack it"
#: Rules by profile and operator, each with the engine's reaction.
_RULES: dict[tuple[str, str], list[tuple[Rule, str]]] = {}


def factor(subgraph: Subgraph, factors: Sequence[float], divisor: float) -> float:
    """Product of float32 numbers divided by another one: in float32 step by step, in double for tflm."""
    kind = np.float64 if subgraph.profile == "tflm" else np.float32
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        product = kind(factors[0])
        for each in factors[1:]:
            product = kind(product * kind(each))
        return float(product / kind(divisor))


def check_profile(model: Model) -> None:
    """Raise UnsupportedError for the first rule of the model's profile that an operator breaks."""
    for subgraph in model.subgraphs:
        for op in subgraph.operators:
            broken, _ = _broken(op, subgraph)
            if broken:
                with located(op):
                    raise UnsupportedError(f"under --profile {subgraph.profile}: {broken}",
                                           "; --profile canon runs it")


def check_host(model: Model, operators: Collection[int]) -> None:
    """Raise UnsupportedError for the first of these main operators that LiteRT on the host refuses or leaves undefined.

    The model is under `litert`. Operators that only the reference kernels lack are none of them.
    """
    for op in model.main.operators:
        broken, why = _broken(op, model.main) if op.index in operators else ("", "")
        if broken and why is not _LACKING:
            with located(op):
                raise UnsupportedError(f"on the host, in LiteRT: {broken}")


def _broken(op: Operator, subgraph: Subgraph) -> tuple[str, str]:
    """Return which rule an operator breaks, what is there instead, and the engine's reaction; and the reaction."""
    for rule, why in _RULES.get((subgraph.profile, op.op), ()):
        found = rule(op, subgraph)
        if found is not None:
            return f"{_message(rule)}; found {found}. {why.format(_NAMES[subgraph.profile])}", why
    return "", ""


def profile_rules(profile: str) -> list[tuple[str, str, str]]:
    """Return operator, sentence and the engine's reaction for each rule of a profile."""
    return [(op, _message(rule), why.format(_NAMES[profile])) for (name, op), rules in _RULES.items() if name == profile
            for rule, why in rules]


def _message(rule: Rule) -> str:
    return " ".join((rule.__doc__ or "").split()).rstrip(".")


def _rule(profile: str, why: str, *ops: str) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        for op in ops:
            _RULES.setdefault((profile, op), []).append((rule, why))
        return rule
    return add


@_rule("tflm", _REFUSED, "RELU_N1_TO_1", "RELU_0_TO_1", "GELU", "EXP", "LOG", "POW", "SIGN", "TILE", "SELECT",
       "SCATTER_ND", "REDUCE_PROD", "REDUCE_ANY", "ONE_HOT", "TOPK_V2", "NEG", "SQRT", "FLOOR_DIV", "FLOOR_MOD",
       "REVERSE_SEQUENCE", "MATRIX_DIAG", "MATRIX_SET_DIAG", "DILATE", "SPARSE_TO_DENSE", "BITWISE_XOR",
       "RIGHT_SHIFT", "ATAN2", "SEGMENT_SUM", "UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN")
def constraint_tflm_kernel(op: Operator, subgraph: Subgraph) -> str | None:
    """Use an operator that the engine supports."""
    tensor = input_tensor(op, subgraph, 0)
    is_float = tensor is not None and tensor.dtype == "float32"
    return None if is_float and op.op in ("EXP", "LOG", "NEG", "SQRT", "FLOOR_DIV", "FLOOR_MOD") else op.op


@_rule("tflm", _UNDEFINED, "GREATER")
@_rule("tflm", _REFUSED, "REDUCE_MAX", "REDUCE_MIN", "RESIZE_BILINEAR", "LESS", "LESS_EQUAL", "GREATER_EQUAL", "EQUAL",
       "NOT_EQUAL", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "GATHER", "GATHER_ND", "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND",
       "MIRROR_PAD", "EMBEDDING_LOOKUP", "DIV")
@_rule("litert", _REFUSED, "SQUARED_DIFFERENCE", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def constraint_sixteen_kernel(op: Operator, subgraph: Subgraph) -> str | None:
    """Do not use int16: the engine's kernel does not support it."""
    tensor = input_tensor(op, subgraph, 1 if op.op == "EMBEDDING_LOOKUP" else 0)
    return None if tensor is None or tensor.dtype != "int16" else f"int16 for tensor {tensor.index}, {tensor.name!r}"


@_rule("tflm", _REFUSED, "BATCH_MATMUL")
def constraint_tflm_product(op: Operator, subgraph: Subgraph) -> str | None:
    """Multiply operands of the same type."""
    lhs, rhs = (input_tensor(op, subgraph, position) for position in (0, 1))
    if lhs is None or rhs is None or lhs.dtype == rhs.dtype:
        return None
    return f"{lhs.dtype} and {rhs.dtype}"


@_rule("tflm", _REFUSED, "ABS", "SUM", "REDUCE_MAX", "REDUCE_MIN", "ARG_MAX", "ARG_MIN")
def constraint_integer_kernel(op: Operator, subgraph: Subgraph) -> str | None:
    """Do not use int32: the engine's kernel does not support it."""
    tensor = input_tensor(op, subgraph, 0)
    return None if tensor is None or tensor.dtype != "int32" else f"int32 for tensor {tensor.index}, {tensor.name!r}"


@_rule("tflm", _REFUSED, "ADD", "SUB", "MUL", "SUM", "REDUCE_MAX", "REDUCE_MIN")
def constraint_double_word_kernel(op: Operator, subgraph: Subgraph) -> str | None:
    """Do not use int64: the engine's kernel does not support it."""
    tensor = input_tensor(op, subgraph, 0)
    return None if tensor is None or tensor.dtype != "int64" else f"int64 for tensor {tensor.index}, {tensor.name!r}"


@_rule("tflm", _REFUSED, "FILL")
def constraint_tflm_fill(op: Operator, subgraph: Subgraph) -> str | None:
    """Fill with int8, int32 or float32."""
    tensor = input_tensor(op, subgraph, 1)
    return None if tensor is None or tensor.dtype in ("int8", "int32", "float32") else tensor.dtype


@_rule("litert", _UNDEFINED, "SUM")
def constraint_litert_sum(op: Operator, subgraph: Subgraph) -> str | None:
    """Do not sum int16: the kernel reads bytes."""
    tensor = input_tensor(op, subgraph, 0)
    return None if tensor is None or tensor.dtype != "int16" else f"int16 for tensor {tensor.index}, {tensor.name!r}"


@_rule("litert", _LACKING, "ELU", "CEIL", "ROUND", "SEGMENT_SUM")
def constraint_litert_kernel(op: Operator, subgraph: Subgraph) -> str | None:
    """Use an operator that the reference resolver has."""
    return op.op


@_rule("tflm", _UNDEFINED, "SPACE_TO_BATCH_ND")
def constraint_tflm_padding(op: Operator, subgraph: Subgraph) -> str | None:
    """Do not pad: the kernel pads with a value that is never set."""
    paddings = input_tensor(op, subgraph, 2)
    if paddings is None or paddings.data is None:
        return "paddings computed at run time"
    return f"paddings {paddings.data.tolist()}" if paddings.data.any() else None


@_rule("tflm", _OTHER, "STRIDED_SLICE")
def constraint_tflm_ellipsis(op: Operator, subgraph: Subgraph) -> str | None:
    """Give an ellipsis stride 1: the kernel treats its axis like any other."""
    strides, mask = input_tensor(op, subgraph, 3), int_option(op, "ellipsis_mask")
    if strides is None or strides.data is None:
        return None
    found = [int(stride) for at, stride in enumerate(strides.data.reshape(-1)) if mask >> at & 1 and stride != 1]
    return f"stride {found[0]}" if found else None


@_rule("tflm", _UNDEFINED, "LOGISTIC", "TANH")
def constraint_tflm_gate_scale(op: Operator, subgraph: Subgraph) -> str | None:
    """Keep the input scale at 2^-28 or more and below 2^35: the kernel shifts by its exponent."""
    tensor = input_tensor(op, subgraph, 0)
    if tensor is None or tensor.dtype == "float32":
        return None
    return None if 2.0**-28 <= tensor.scale < 2.0**35 else f"{tensor.scale:g}"


@_rule("tflm", _UNDEFINED, "RELU6")
def constraint_tflm_six(op: Operator, subgraph: Subgraph) -> str | None:
    """Keep 6 divided by the input scale below 2^31 - 128."""
    tensor = input_tensor(op, subgraph, 0)
    if tensor is None or tensor.dtype == "float32":
        return None
    return None if 6 / tensor.scale < 2.0**31 - 128 else f"input scale {tensor.scale:g}"


@_rule("tflm", _UNDEFINED, "TRANSPOSE_CONV")
def constraint_tflm_wide_bias(op: Operator, subgraph: Subgraph) -> str | None:
    """Give an int16 input an int64 bias: the kernel reads any bias as int64."""
    source, bias = input_tensor(op, subgraph, 2), input_tensor(op, subgraph, 3)
    if source is None or source.dtype != "int16" or bias is None or bias.dtype == "int64":
        return None
    return bias.dtype


@_rule("tflm", _REFUSED, "SVDF")
def constraint_tflm_bias(op: Operator, subgraph: Subgraph) -> str | None:
    """Use a bias whose scale is within 1e-5 of state scale times time weight scale."""
    time, bias, state = (input_tensor(op, subgraph, position) for position in (2, 3, 4))
    if bias is None:
        return "no bias"
    if time is None or state is None:
        return None
    scale = bias.quantization.scale[0] if bias.quantization is not None else 0.0
    expected = state.scale * time.scale
    return None if abs(scale - expected) < 1e-5 else f"bias scale {scale:g}, expected {expected:g}"


@_rule("litert", _UNDEFINED, "SVDF")
def constraint_litert_state(op: Operator, subgraph: Subgraph) -> str | None:
    """Use an int16 state."""
    state = input_tensor(op, subgraph, 4)
    return None if state is None or state.dtype == "int16" else state.dtype


@_rule("litert", _REFUSED, "CONV_2D")
def constraint_litert_bias(op: Operator, subgraph: Subgraph) -> str | None:
    """Use a bias."""
    return "none" if input_tensor(op, subgraph, 2) is None else None


@_rule("litert", _REFUSED, "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED")
def constraint_litert_scale_count(op: Operator, subgraph: Subgraph) -> str | None:
    """Give weights and a bias one scale, or as many as they have elements along a quantized dimension of theirs."""
    for position in range(4):
        tensor = input_tensor(op, subgraph, position)
        quantization = None if tensor is None else tensor.quantization
        if tensor is not None and quantization is not None and quantization.stored_dimension is not None:
            return (f"{len(quantization.scale)} along dimension {quantization.stored_dimension} of tensor "
                    f"{tensor.index}, {tensor.name!r}, {list(tensor.shape)}")
    return None


@_rule("litert", _REFUSED, "DEPTHWISE_CONV_2D")
def constraint_litert_bias_axes(op: Operator, subgraph: Subgraph) -> str | None:
    """Give a bias one axis."""
    bias = input_tensor(op, subgraph, 2)
    return None if bias is None or len(bias.shape) == 1 else f"{list(bias.shape)} of tensor {bias.index}, {bias.name!r}"


@_rule("tflm", _REFUSED, "SOFTMAX")
def constraint_tflm_softmax(op: Operator, subgraph: Subgraph) -> str | None:
    """Give an int8 output the scale 1/256."""
    output = output_tensor(op, subgraph)
    return None if output.dtype != "int8" or output.scale == 1 / 256 else f"{output.scale:.9g}"


@_rule("litert", _UNDEFINED, "FULLY_CONNECTED")
def constraint_litert_scales(op: Operator, subgraph: Subgraph) -> str | None:
    """Give weights of int16 activations finite scales."""
    tensor, weights = input_tensor(op, subgraph, 0), input_tensor(op, subgraph, 1)
    if tensor is None or tensor.dtype != "int16" or weights is None or weights.quantization is None:
        return None
    count = weights.quantization.scale.count(NOT_FINITE)
    return f"{count} that are not for tensor {weights.index}, {weights.name!r}" if count else None


@_rule("tflm", _REFUSED, "FULLY_CONNECTED")
def constraint_tflm_weights(op: Operator, subgraph: Subgraph) -> str | None:
    """Use weights of int8."""
    weights = input_tensor(op, subgraph, 1)
    if weights is None or weights.dtype != "int16":
        return None
    return f"int16 for tensor {weights.index}, {weights.name!r}"


@_rule("litert", _REFUSED, "QUANTIZE")
def constraint_litert_types(op: Operator, subgraph: Subgraph) -> str | None:
    """Do not convert int8 or uint8 to int32."""
    source, target = input_tensor(op, subgraph, 0), output_tensor(op, subgraph)
    if source is None or target.dtype != "int32" or source.dtype not in ("int8", "uint8"):
        return None
    return f"{source.dtype} to {target.dtype}"
