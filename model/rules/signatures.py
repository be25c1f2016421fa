"""Which types every operator takes and gives, position by position.

A signature reads "inputs -> outputs". A word is a kind of `KINDS`; `?` marks an input that may be absent (-1 or left
out), `+` one or more of a kind. Operators without a signature have no rules here.
"""

from dataclasses import dataclass

__all__ = ["ACTIVATION_KINDS", "COMPARISONS", "FLOAT_COMPUTED", "FLOAT_MOVES", "FLOAT_OPERATORS", "FLOAT_POOLS",
           "FLOAT_PRODUCTS", "FLOAT_REDUCTIONS", "FLOAT_RESIZES", "FLOAT_ROWS", "FLOAT_TOPS", "KINDS", "MIXED_KINDS",
           "RANKINGS", "SEGMENTS", "SIGNATURES", "Signature", "Slot"]

#: Types of each kind. `q8` and `q16` are activations: one scale, one zero point; what else kinds of `MIXED_KINDS` have
#: has neither. Where all is known, what begins with q8 or q32 is an integer of either width.
KINDS = {
    "q8": ("int8",), "q16": ("int16",), "q8or16": ("int8", "int16"),
    "q32": ("int32",), "q8or32": ("int8", "int32"), "q8or16or32": ("int8", "int16", "int32"),
    "q8toint": ("int8", "int16", "int32", "int64"),
    "q8orany": ("int8", "int16", "int32", "int64", "bool"),
    "w8": ("int8",), "w16": ("int16",),
    "w8or16": ("int8", "int16"), "b32": ("int32",),
    "bias": ("int32", "int64"), "index": ("int32", "int64"), "i32": ("int32",), "bool": ("bool",),
    "data": ("int8", "uint8", "int16", "int32", "int64", "bool"),
    "sequence": ("uint8", "int16", "int32", "int64"), "matrix": ("int8", "uint8", "int16", "int32", "int64"),
    "sparse": ("int8", "uint8", "int32", "int64"),
    "any": ("int8", "uint8", "int16", "int32", "int64", "bool", "float32"),
    "number": ("float32", "int8", "uint8", "int16", "int32", "int64", "bool"),
    "real": ("float32", "int8", "uint8", "int16", "int32"), "code": ("int8", "uint8", "int16", "int32"),
    "code16": ("int8", "uint8", "int16"), "f32": ("float32",), "resource": ("resource",),
}
ACTIVATION_KINDS = ("q8", "q16", "q8or16", "code", "code16")
MIXED_KINDS = ("q8or32", "q8or16or32", "q8toint", "q8orany")

#: Operators of one element each that may be float32 inside a model: all of their inputs and outputs then are.
FLOAT_OPERATORS = (
    "ABS", "ADD", "ATAN2", "CEIL", "COS", "DIV", "ELU", "EXP", "FLOOR", "FLOOR_DIV", "FLOOR_MOD", "GELU", "HARD_SWISH",
    "LEAKY_RELU", "LOG", "LOGISTIC", "MAXIMUM", "MINIMUM", "MUL", "NEG", "POW", "PRELU", "RELU", "RELU6",
    "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SIGN", "SIN", "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "SUB",
    "TANH")

#: Operators that only move or choose what may be float32 inside a model: then their `data` and activations are.
FLOAT_MOVES = (
    "BATCH_TO_SPACE_ND", "BROADCAST_TO", "CONCATENATION", "DEPTH_TO_SPACE", "DYNAMIC_UPDATE_SLICE",
    "EMBEDDING_LOOKUP", "EXPAND_DIMS", "GATHER", "GATHER_ND", "MIRROR_PAD", "ONE_HOT", "PACK", "PAD", "PADV2",
    "REDUCE_MAX", "REDUCE_MIN", "RESHAPE", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "SCATTER_ND", "SELECT", "SELECT_V2",
    "SLICE", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE",
    "UNPACK")

#: Sums and products that may be of float32 inside a model, and give float32 then.
FLOAT_REDUCTIONS = ("MEAN", "REDUCE_PROD", "SUM")

#: Operators of whole rows that may be of float32 inside a model, and give float32 then.
FLOAT_ROWS = ("BATCH_MATMUL", "L2_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX")

#: Operators that are computed in float32 where all they come of are int8 tensors and constants.
FLOAT_COMPUTED = ("ABS", "ADD", "AVERAGE_POOL_2D", "BATCH_MATMUL", "CUMSUM", "DIV", "ELU", "EXP", "GELU",
                  "HARD_SWISH", "L2_NORMALIZATION", "LEAKY_RELU", "LOG", "LOGISTIC", "LOG_SOFTMAX", "MAXIMUM",
                  "MAX_POOL_2D", "MEAN", "MINIMUM", "MUL", "NEG", "POW", "PRELU", "REDUCE_MAX", "REDUCE_MIN",
                  "REDUCE_PROD", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "RESIZE_BILINEAR",
                  "RESIZE_NEAREST_NEIGHBOR", "RSQRT", "SIGN", "SOFTMAX", "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "SUB",
                  "SUM", "TANH")

#: Pools that may be of float32 inside a model, and give float32 then.
FLOAT_POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D")

#: Products with a matrix that may be of float32 inside a model if that is computed, and give float32 then.
FLOAT_PRODUCTS = ("FULLY_CONNECTED",)

#: Interpolations that may be of float32 inside a model, and give float32 then.
FLOAT_RESIZES = ("RESIZE_BILINEAR",)

#: Operators whose output is bool whatever the inputs are; these may be float32 inside a model.
COMPARISONS = ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")

#: Operators whose output is a place among what they read, which may be float32 inside a model.
RANKINGS = ("ARG_MAX", "ARG_MIN")

#: Operators of the largest of rows, which may be of float32 that a DEQUANTIZE makes.
FLOAT_TOPS = ("TOPK_V2",)

#: Sums and extremes of rows by their segments, of int32, and of float32 inside a model.
SEGMENTS = ("SEGMENT_SUM", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_SUM")

_TABLE = {
    "q8or16 w8 bias? -> q8or16": "CONV_2D DEPTHWISE_CONV_2D",
    "q8or16 w8or16 bias? -> q8or16": "FULLY_CONNECTED",
    "index w8 q8or16 bias? -> q8or16": "TRANSPOSE_CONV",
    "q8 -> q8": "LOG_SOFTMAX L2_NORMALIZATION RELU_N1_TO_1 HARD_SWISH",
    "q8or16 -> q8or16": "AVERAGE_POOL_2D MAX_POOL_2D LOGISTIC TANH RELU RELU6 LEAKY_RELU SOFTMAX",
    "q8or16 q8 -> q8or16": "PRELU",
    "q8or16 q8or16 -> q8or16": "BATCH_MATMUL",
    "q8toint q8toint -> q8toint": "ADD SUB MUL MAXIMUM MINIMUM",
    "q8or16or32 q8or16or32 -> q8or16or32": "SQUARED_DIFFERENCE DIV FLOOR_DIV FLOOR_MOD "
                                            "BITWISE_XOR RIGHT_SHIFT",
    "q32 q32 -> q32": "POW",
    "q32 -> q32": "SIGN",
    "q8toint q8toint -> bool": " ".join(COMPARISONS[:4]),
    "q8orany q8orany -> bool": " ".join(COMPARISONS[4:]),
    "q8or16 index -> q8or16": "MEAN",
    "q8toint index -> q8toint": "SUM REDUCE_MAX REDUCE_MIN",
    "q8or16or32 index -> q8or16or32": "REDUCE_PROD",
    "bool index -> bool": "REDUCE_ANY REDUCE_ALL",
    "index i32 data data -> data": "ONE_HOT",
    "q8or16 i32 -> q8or16 i32": "TOPK_V2",
    "q8or32 index -> index": " ".join(RANKINGS),
    "q8or16 i32 -> q8or16": "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR",
    "data index? -> data": "RESHAPE",
    "data index -> data": "EXPAND_DIMS TRANSPOSE PAD GATHER TILE BROADCAST_TO MIRROR_PAD GATHER_ND",
    "data i32 -> data": "REVERSE_V2",
    "i32 data i32 -> data": "SCATTER_ND",
    "bool bool -> bool": "LOGICAL_AND LOGICAL_OR",
    "bool -> bool": "LOGICAL_NOT",
    "bool data data -> data": "SELECT SELECT_V2",
    "data data index -> data": "DYNAMIC_UPDATE_SLICE",
    "data -> data": "SQUEEZE SPACE_TO_DEPTH DEPTH_TO_SPACE",
    "matrix -> matrix": "MATRIX_DIAG",
    "matrix matrix -> matrix": "MATRIX_SET_DIAG",
    "data index data -> data": "PADV2",
    "data i32 data -> data": "DILATE",
    "sequence index -> sequence": "REVERSE_SEQUENCE",
    "index index sparse sparse -> sparse": "SPARSE_TO_DENSE",
    "index any -> any": "FILL",
    "data index index -> data": "SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND SLICE",
    "data index index index -> data": "STRIDED_SLICE",
    "i32 data -> data": "EMBEDDING_LOOKUP",
    "data+ -> data": "CONCATENATION PACK",
    "data -> data+": "UNPACK",
    "index data -> data+": "SPLIT",
    "data index index -> data+": "SPLIT_V",
    "any -> index": "SHAPE",
    "real -> code": "QUANTIZE",
    "code16 -> f32": "DEQUANTIZE",
    "number -> number": "CAST",
    "q8 w8 w8or16 b32? q8or16 -> q8": "SVDF",
    "q8 w8? w8 w8 w8 w8? w8 w8 w8 w16? w16? w16? b32? b32 b32 b32 w8? b32? q8 q16 w16? w16? w16? w16? -> q8":
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "-> resource": "VAR_HANDLE",
    "resource -> any": "READ_VARIABLE",
    "resource any ->": "ASSIGN_VARIABLE",
    "->": "CALL_ONCE",
}


@dataclass(frozen=True)
class Slot:
    """One position of a signature: a key of `KINDS`, and whether it may be absent."""

    kind: str
    is_optional: bool


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of an operator; `many_*` says that the last slot may repeat."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    many_inputs: bool
    many_outputs: bool


def _parse(text: str) -> Signature:
    left, _, right = text.partition("->")
    inputs, outputs = ([Slot(word.rstrip("?+"), word.endswith("?")) for word in side.split()] for side in (left, right))
    return Signature(tuple(inputs), tuple(outputs), "+" in left, "+" in right)


#: Signatures by operator.
SIGNATURES = {op: _parse(text) for text, ops in _TABLE.items() for op in ops.split()}
