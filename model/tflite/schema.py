"""The part of the TFLite schema (version 3) that is read: names by code, option tables by slot.

Facts from `schema.fbs` of google-ai-edge/LiteRT as of ai-edge-litert 2.3.0. A table is one line of
`name:kind=default` words in slot order; `_` is a slot that the schema has retired.
"""

from dataclasses import dataclass

__all__ = ["ENUMS", "LOST_OPTIONS", "MAX_VERSIONS", "OPERATOR_OPTIONS", "OPERATORS", "OPTIONS", "OPTION_TABLES",
           "OPTIONS_REQUIRED", "SECOND_TABLES", "TENSOR_TYPES", "OptionField", "operator_code"]

def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: Builtin operator names; the position is the code.
OPERATORS = _words("""
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D
LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1
RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM
CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND
SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM
CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT
SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT
SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND
LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL
REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE
MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5
SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM
CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND
HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE
ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL
GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT
STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM
STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM
STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS
STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG
STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER
STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER
STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE
STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT
STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR
REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
""")

#: Tensor type names in lower case; the position is the code.
TENSOR_TYPES = _words("""
float32 float16 int32 uint8 int64 string bool int16 complex64 int8 float64 complex128 uint64
resource variant uint32 uint16 int4 bfloat16 int2 uint4 float8_e4m3fn float8_e5m2
""")

#: Enumerations that option tables use; each is stored as one byte, the position is the value.
ENUMS = {
    "Activation": ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT"),
    "Padding": ("SAME", "VALID"),
    "MirrorPadMode": ("REFLECT", "SYMMETRIC"),
    "WeightsFormat": ("DEFAULT", "SHUFFLED4x16INT8"),
    "LstmKernel": ("FULL", "BASIC"),
    "TensorType": TENSOR_TYPES,
}

#: Names of the `BuiltinOptions` union; the position is the union's type code.
OPTION_TABLES = _words("""
NONE Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions
Pool2DOptions SVDFOptions RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions
AddOptions L2NormOptions LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions
CallOptions ReshapeOptions SkipGramOptions SpaceToDepthOptions EmbeddingLookupSparseOptions
MulOptions PadOptions GatherOptions BatchToSpaceNDOptions SpaceToBatchNDOptions
TransposeOptions ReducerOptions SubOptions DivOptions SqueezeOptions SequenceRNNOptions
StridedSliceOptions ExpOptions TopKV2Options SplitOptions LogSoftmaxOptions CastOptions
DequantizeOptions MaximumMinimumOptions ArgMaxOptions LessOptions NegOptions PadV2Options
GreaterOptions GreaterEqualOptions LessEqualOptions SelectOptions SliceOptions
TransposeConvOptions SparseToDenseOptions TileOptions ExpandDimsOptions EqualOptions
NotEqualOptions ShapeOptions PowOptions ArgMinOptions FakeQuantOptions PackOptions
LogicalOrOptions OneHotOptions LogicalAndOptions LogicalNotOptions UnpackOptions
FloorDivOptions SquareOptions ZerosLikeOptions FillOptions BidirectionalSequenceLSTMOptions
BidirectionalSequenceRNNOptions UnidirectionalSequenceLSTMOptions FloorModOptions RangeOptions
ResizeNearestNeighborOptions LeakyReluOptions SquaredDifferenceOptions MirrorPadOptions
AbsOptions SplitVOptions UniqueOptions ReverseV2Options AddNOptions GatherNdOptions CosOptions
WhereOptions RankOptions ReverseSequenceOptions MatrixDiagOptions QuantizeOptions
MatrixSetDiagOptions HardSwishOptions IfOptions WhileOptions DepthToSpaceOptions
NonMaxSuppressionV4Options NonMaxSuppressionV5Options ScatterNdOptions SelectV2Options
DensifyOptions SegmentSumOptions BatchMatMulOptions CumsumOptions CallOnceOptions
BroadcastToOptions Rfft2dOptions Conv3DOptions HashtableOptions HashtableFindOptions
HashtableImportOptions HashtableSizeOptions VarHandleOptions ReadVariableOptions
AssignVariableOptions RandomOptions BucketizeOptions GeluOptions DynamicUpdateSliceOptions
UnsortedSegmentProdOptions UnsortedSegmentMaxOptions UnsortedSegmentMinOptions
UnsortedSegmentSumOptions ATan2Options SignOptions BitcastOptions BitwiseXorOptions
RightShiftOptions
""")


@dataclass(frozen=True)
class OptionField:
    """One field of an option table.

    Members
    -------
    slot : FlatBuffer slot number
    kind : "int32", "uint32", "int64", "float32", "bool", "string", "int32s", "int64s", "float32s", "uint8s", or a key
        of `ENUMS`
    default : the schema's default, an enumeration's as its name
    """

    name: str
    slot: int
    kind: str
    default: int | float | bool | str | tuple[int, ...]


_ACTIVATION = "fused_activation_function:Activation"
_STRIDE = "padding:Padding stride_w:int32 stride_h:int32 "
_QUANTIZE_INPUTS = "asymmetric_quantize_inputs:bool"
_TABLES = {
    "Conv2DOptions": f"{_STRIDE}{_ACTIVATION} dilation_w_factor:int32=1 dilation_h_factor:int32=1 "
                     "quantized_bias_type:TensorType",
    "DepthwiseConv2DOptions": f"{_STRIDE}depth_multiplier:int32 {_ACTIVATION} "
                              "dilation_w_factor:int32=1 dilation_h_factor:int32=1",
    "Pool2DOptions": f"{_STRIDE}filter_width:int32 filter_height:int32 {_ACTIVATION}",
    "SVDFOptions": f"rank:int32 {_ACTIVATION} {_QUANTIZE_INPUTS}",
    "FullyConnectedOptions": f"{_ACTIVATION} weights_format:WeightsFormat keep_num_dims:bool "
                             f"{_QUANTIZE_INPUTS} quantized_bias_type:TensorType",
    "SoftmaxOptions": "beta:float32",
    "ConcatenationOptions": f"axis:int32 {_ACTIVATION}",
    "AddOptions": f"{_ACTIVATION} pot_scale_int16:bool=1",
    "L2NormOptions": _ACTIVATION,
    "LSTMOptions": f"{_ACTIVATION} cell_clip:float32 proj_clip:float32 kernel_type:LstmKernel "
                   f"{_QUANTIZE_INPUTS}",
    "ResizeBilinearOptions": "_ _ align_corners:bool half_pixel_centers:bool",
    "CallOptions": "subgraph:uint32",
    "ReshapeOptions": "new_shape:int32s",
    "SpaceToDepthOptions": "block_size:int32",
    "MulOptions": _ACTIVATION,
    "GatherOptions": "axis:int32 batch_dims:int32",
    "ReducerOptions": "keep_dims:bool",
    "SubOptions": f"{_ACTIVATION} pot_scale_int16:bool=1",
    "DivOptions": _ACTIVATION,
    "SqueezeOptions": "squeeze_dims:int32s",
    "SequenceRNNOptions": f"time_major:bool {_ACTIVATION} {_QUANTIZE_INPUTS}",
    "StridedSliceOptions": "begin_mask:int32 end_mask:int32 ellipsis_mask:int32 "
                           "new_axis_mask:int32 shrink_axis_mask:int32 offset:bool",
    "SplitOptions": "num_splits:int32",
    "CastOptions": "in_data_type:TensorType out_data_type:TensorType",
    "ArgMaxOptions": "output_type:TensorType",
    "TransposeConvOptions": f"{_STRIDE}{_ACTIVATION} quantized_bias_type:TensorType",
    "ShapeOptions": "out_type:TensorType",
    "ArgMinOptions": "output_type:TensorType",
    "PackOptions": "values_count:int32 axis:int32",
    "OneHotOptions": "axis:int32",
    "UnpackOptions": "num:int32 axis:int32",
    "UnidirectionalSequenceLSTMOptions": f"{_ACTIVATION} cell_clip:float32 proj_clip:float32 "
                                         f"time_major:bool {_QUANTIZE_INPUTS} "
                                         "diagonal_recurrent_tensors:bool",
    "BidirectionalSequenceLSTMOptions": f"{_ACTIVATION} cell_clip:float32 proj_clip:float32 "
                                        f"merge_outputs:bool time_major:bool=1 {_QUANTIZE_INPUTS}",
    "ResizeNearestNeighborOptions": "align_corners:bool half_pixel_centers:bool",
    "LeakyReluOptions": "alpha:float32",
    "MirrorPadOptions": "mode:MirrorPadMode",
    "SplitVOptions": "num_splits:int32",
    "ReverseSequenceOptions": "seq_dim:int32 batch_dim:int32",
    "IfOptions": "then_subgraph_index:int32 else_subgraph_index:int32",
    "WhileOptions": "cond_subgraph_index:int32 body_subgraph_index:int32",
    "DepthToSpaceOptions": "block_size:int32",
    "BatchMatMulOptions": f"adj_x:bool adj_y:bool {_QUANTIZE_INPUTS}",
    "CumsumOptions": "exclusive:bool reverse:bool",
    "CallOnceOptions": "init_subgraph_index:int32",
    "VarHandleOptions": "container:string shared_name:string",
    "GeluOptions": "approximate:bool",
    "LocalResponseNormalizationOptions": "radius:int32 bias:float32 alpha:float32 beta:float32",
    "RNNOptions": f"{_ACTIVATION} {_QUANTIZE_INPUTS}",
    "BidirectionalSequenceRNNOptions": f"time_major:bool {_ACTIVATION} merge_outputs:bool {_QUANTIZE_INPUTS}",
    "SparseToDenseOptions": "validate_indices:bool",
    "FakeQuantOptions": "min:float32 max:float32 num_bits:int32 narrow_range:bool",
    "Conv3DOptions": f"padding:Padding stride_d:int32 stride_w:int32 stride_h:int32 {_ACTIVATION} "
                     "dilation_d_factor:int32=1 dilation_w_factor:int32=1 dilation_h_factor:int32=1",
    "RandomOptions": "seed:int64 seed2:int64",
    "BucketizeOptions": "boundaries:float32s",
    "StablehloReduceWindowOptions": "window_dimensions:int64s window_strides:int64s base_dilations:int64s "
                                    "window_dilations:int64s padding:int64s body_subgraph_index:int32",
    "StablehloScatterOptions": "indices_are_sorted:bool update_window_dims:int64s inserted_window_dims:int64s "
                               "scatter_dims_to_operand_dims:int64s index_vector_dim:int64 unique_indices:bool "
                               "update_computation_subgraph_index:int32",
    "StablehloGatherOptions": "offset_dims:int64s collapsed_slice_dims:int64s start_index_map:int64s "
                              "index_vector_dim:int64 slice_sizes:int64s indices_are_sorted:bool",
    "StablehloPadOptions": "edge_padding_low:int64s edge_padding_high:int64s interior_padding:int64s",
    "StableHLOCompositeOptions": "name:string decomposition_subgraph_index:int32 composite_attributes:uint8s",
}


def _parse(line: str) -> tuple[OptionField, ...]:
    fields = []
    for slot, word in enumerate(line.split()):
        if word == "_":
            continue
        name, _, rest = word.partition(":")
        kind, _, default = rest.partition("=")
        zero: dict[str, int | float | bool | str | tuple[int, ...]] = {
            "float32": 0.0, "bool": default == "1", "string": "", "int32s": (), "int64s": (), "float32s": (),
            "uint8s": ()}
        value = ENUMS[kind][0] if kind in ENUMS else zero.get(kind, int(default or 0))
        fields.append(OptionField(name, slot, kind, value))
    return tuple(fields)


#: Fields of the option tables that have any and that are read.
OPTIONS = {name: _parse(line) for name, line in _TABLES.items()}

#: Option table of an operator, where the name is not simply the operator's in CamelCase.
_SPECIAL = {
    "AVERAGE_POOL_2D": "Pool2DOptions", "MAX_POOL_2D": "Pool2DOptions",
    "L2_POOL_2D": "Pool2DOptions", "L2_NORMALIZATION": "L2NormOptions",
    "MEAN": "ReducerOptions", "SUM": "ReducerOptions", "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions", "REDUCE_PROD": "ReducerOptions",
    "REDUCE_ANY": "ReducerOptions", "REDUCE_ALL": "ReducerOptions",
    "MAXIMUM": "MaximumMinimumOptions", "MINIMUM": "MaximumMinimumOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions", "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "RANDOM_STANDARD_NORMAL": "RandomOptions", "RANDOM_UNIFORM": "RandomOptions", "MULTINOMIAL": "RandomOptions",
}


def _operator_options() -> dict[str, str]:
    by_letters = {table.removesuffix("Options").upper(): table for table in OPTION_TABLES[1:]}
    found = {op: by_letters[op.replace("_", "")] for op in OPERATORS
             if op.replace("_", "") in by_letters}
    return found | _SPECIAL


#: Option table of each operator that has one.
OPERATOR_OPTIONS = _operator_options()

#: Option tables of the schema's second union that are read, with their number there.
SECOND_TABLES = {
    "STABLEHLO_SCATTER": ("StablehloScatterOptions", 7), "STABLEHLO_PAD": ("StablehloPadOptions", 10),
    "STABLEHLO_REDUCE_WINDOW": ("StablehloReduceWindowOptions", 13),
    "STABLEHLO_GATHER": ("StablehloGatherOptions", 16), "STABLEHLO_COMPOSITE": ("StableHLOCompositeOptions", 21)}

#: Operators with options that are not read: what writes one again would lose them.
LOST_OPTIONS = frozenset(_words("""
CONCAT_EMBEDDINGS LSH_PROJECTION SKIP_GRAM EMBEDDING_LOOKUP_SPARSE UNIQUE HASHTABLE DILATE REDUCE_WINDOW
STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_SLICE STABLEHLO_CONVOLUTION STABLEHLO_CUSTOM_CALL
STABLEHLO_REDUCE STABLEHLO_COMPARE STABLEHLO_DYNAMIC_SLICE STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_SORT
STABLEHLO_WHILE STABLEHLO_TRANSPOSE STABLEHLO_RNG_BIT_GENERATOR STABLEHLO_SHIFT_LEFT STABLEHLO_CASE
"""))

#: Operators that have no meaning without their option table: a default in it is out of range.
OPTIONS_REQUIRED = frozenset(_words("""
CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D SOFTMAX
SPACE_TO_DEPTH DEPTH_TO_SPACE SPLIT SPLIT_V PACK UNPACK SVDF LEAKY_RELU CALL_ONCE CALL IF WHILE
VAR_HANDLE UNIDIRECTIONAL_SEQUENCE_LSTM
"""))

_VERSIONS = {
    1: "RELU_N1_TO_1 RELU_0_TO_1 RESHAPE PRELU EXPAND_DIMS SHAPE HARD_SWISH CALL_ONCE VAR_HANDLE READ_VARIABLE "
       "ASSIGN_VARIABLE LOGICAL_AND LOGICAL_OR LOGICAL_NOT SCATTER_ND ONE_HOT REDUCE_ANY REDUCE_ALL "
       "POW REVERSE_SEQUENCE MATRIX_DIAG MATRIX_SET_DIAG DILATE BITWISE_XOR "
       "RIGHT_SHIFT BUCKETIZE",
    2: "DIV REDUCE_PROD SQUARED_DIFFERENCE SELECT_V2 DEPTH_TO_SPACE L2_NORMALIZATION SPACE_TO_DEPTH SQUEEZE "
       "LOG_SOFTMAX GREATER LESS_EQUAL SUM LEAKY_RELU FLOOR_MOD SIGN",
    3: "TOPK_V2 MIRROR_PAD TILE AVERAGE_POOL_2D MAX_POOL_2D LOGISTIC TANH RELU RELU6 MEAN ARG_MAX ARG_MIN LESS "
       "GREATER_EQUAL REDUCE_MAX REDUCE_MIN SPLIT_V FLOOR_DIV "
       "SPARSE_TO_DENSE",
    4: "REVERSE_V2 SELECT BROADCAST_TO RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SOFTMAX SVDF BATCH_TO_SPACE_ND "
       "SPACE_TO_BATCH_ND UNIDIRECTIONAL_SEQUENCE_LSTM MAXIMUM MINIMUM NOT_EQUAL BATCH_MATMUL",
    5: "EMBEDDING_LOOKUP SUB SPLIT TRANSPOSE_CONV EQUAL PACK FILL",
    6: "DYNAMIC_UPDATE_SLICE GATHER_ND ADD PAD PADV2 UNPACK QUANTIZE",
    7: "CONCATENATION DEPTHWISE_CONV_2D",
    8: "CONV_2D MUL GATHER STRIDED_SLICE SLICE",
    9: "DEQUANTIZE TRANSPOSE CAST",
    14: "FULLY_CONNECTED",
}
#: Newest version of an operator that ai-edge-litert 2.3.0 registers: a later one may mean something else.
MAX_VERSIONS = {op: version for version, ops in _VERSIONS.items() for op in ops.split()}


def operator_code(deprecated_builtin_code: int, builtin_code: int) -> int:
    """Return the code in force: codes above 127 are in the second field, old files use the first."""
    return max(deprecated_builtin_code, builtin_code)
