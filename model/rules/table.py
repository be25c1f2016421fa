"""Rules of the int8 specification for single operators: which operator keeps which.

A rule is a function of a `Node` whose docstring is the sentence that a user reads; it returns what was found when
the rule is broken, else None. Tables of operators in the documentation are made from the same sentences.
"""

from collections.abc import Callable

from tq_hw.model.rules.node import Node
from tq_hw.model.rules.options import (
    constraint_activation_is_a_range,
    constraint_comparison_scale,
    constraint_difference_scale,
    constraint_hard_swish_input,
    constraint_hard_swish_scale,
    constraint_index_type,
    constraint_lstm_activation,
    constraint_lstm_cell_scale,
    constraint_lstm_is_plain,
    constraint_lstm_output,
    constraint_multiplier_fits,
    constraint_no_fused_activation,
    constraint_softmax_scale,
    constraint_square_scale,
    constraint_state_is_variable,
    constraint_sum_scale,
    constraint_svdf_activation,
    constraint_weights_are_constant,
    constraint_weights_format,
)
from tq_hw.model.rules.quantization import (
    FIXED_OUTPUTS,
    WEIGHT_AXES,
    constraint_bias_scale,
    constraint_bias_zero_point,
    constraint_computed_weights,
    constraint_dense_weights_are_symmetric,
    constraint_fixed_output,
    constraint_one_weight_scale,
    constraint_same_quantization,
    constraint_same_type,
    constraint_weight_axis,
    constraint_weights_are_symmetric,
)
from tq_hw.model.rules.signatures import COMPARISONS
from tq_hw.model.rules.sixteen import (
    constraint_bias_type,
    constraint_int16_output,
    constraint_int16_zero_point,
    constraint_power_of_two_sum,
    constraint_wide_multiplier,
    constraint_wide_weights,
)

__all__ = ["MODEL_RULES", "SUPPORT_RULES", "Rule"]

Rule = Callable[[Node], str | None]

_MOVES = ("RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE PAD PADV2 SPACE_TO_DEPTH DEPTH_TO_SPACE SPACE_TO_BATCH_ND "
          "BATCH_TO_SPACE_ND GATHER EMBEDDING_LOOKUP CONCATENATION PACK UNPACK SLICE STRIDED_SLICE SPLIT SPLIT_V "
          "AVERAGE_POOL_2D MAX_POOL_2D RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR MAXIMUM MINIMUM REDUCE_MAX REDUCE_MIN")
#: Kernels that copy codes, whatever the scales are.
_COPIES = ("TILE BROADCAST_TO REVERSE_V2 MIRROR_PAD GATHER_ND SCATTER_ND SELECT SELECT_V2 ONE_HOT TOPK_V2 "
           "DYNAMIC_UPDATE_SLICE REVERSE_SEQUENCE MATRIX_DIAG MATRIX_SET_DIAG DILATE SPARSE_TO_DENSE FILL")
_FUSED = "CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV FULLY_CONNECTED AVERAGE_POOL_2D MAX_POOL_2D ADD SUB MUL"

#: Operators that take activations of int16 as well as of int8.
_SIXTEEN = ("CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV FULLY_CONNECTED AVERAGE_POOL_2D MAX_POOL_2D LOGISTIC TANH RELU "
            "RELU6 LEAKY_RELU ADD SUB MUL MAXIMUM MINIMUM MEAN SUM RESIZE_NEAREST_NEIGHBOR RESIZE_BILINEAR "
            f"BATCH_MATMUL REDUCE_MAX REDUCE_MIN SQUARED_DIFFERENCE DIV {' '.join(COMPARISONS)}")
_LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"
_CONV = " ".join(WEIGHT_AXES)

_RULES: dict[Rule, str] = {
    constraint_weights_are_symmetric: f"CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV SVDF {_LSTM}",
    constraint_dense_weights_are_symmetric: "FULLY_CONNECTED",
    constraint_one_weight_scale: f"SVDF {_LSTM}",
    constraint_weight_axis: _CONV,
    constraint_computed_weights: "FULLY_CONNECTED",
    constraint_weights_format: "FULLY_CONNECTED",
    constraint_bias_zero_point: f"{_CONV} SVDF",
    constraint_bias_scale: "FULLY_CONNECTED",
    constraint_same_type: f"{_MOVES} {_COPIES} ADD SUB MUL SQUARED_DIFFERENCE DIV FLOOR_DIV FLOOR_MOD POW SIGN "
                          "BITWISE_XOR RIGHT_SHIFT "
                          f"REDUCE_PROD {' '.join(COMPARISONS)} "
                          "CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV FULLY_CONNECTED LOGISTIC TANH RELU RELU6 "
                          "LEAKY_RELU MEAN SUM BATCH_MATMUL",
    constraint_bias_type: _CONV,
    constraint_int16_output: "SOFTMAX",
    constraint_int16_zero_point: f"{_SIXTEEN} SOFTMAX",
    constraint_wide_multiplier: f"{_CONV} BATCH_MATMUL",
    constraint_same_quantization: _MOVES,
    constraint_fixed_output: " ".join(FIXED_OUTPUTS),
    constraint_activation_is_a_range: f"{_FUSED} DIV",
    constraint_no_fused_activation: "CONCATENATION L2_NORMALIZATION",
    constraint_svdf_activation: "SVDF",
    constraint_lstm_activation: _LSTM,
    constraint_lstm_cell_scale: _LSTM,
    constraint_lstm_output: _LSTM,
    constraint_multiplier_fits: f"{_CONV} SVDF MUL BATCH_MATMUL PRELU LEAKY_RELU RELU RELU6 RELU_N1_TO_1 MEAN SUM "
                                "QUANTIZE",
    constraint_sum_scale: "ADD",
    constraint_difference_scale: "SUB",
    constraint_square_scale: "SQUARED_DIFFERENCE",
    constraint_softmax_scale: "SOFTMAX LOG_SOFTMAX",
    constraint_comparison_scale: " ".join(COMPARISONS),
    constraint_hard_swish_scale: "HARD_SWISH",
    constraint_hard_swish_input: "HARD_SWISH",
    constraint_state_is_variable: f"SVDF {_LSTM}",
    constraint_index_type: "ARG_MAX ARG_MIN SHAPE",
}


def _by_operator(rules: dict[Rule, str]) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for rule, ops in rules.items():
        for op in ops.split():
            found.setdefault(op, []).append(rule)
    return found


#: Rules by operator: a model that breaks one is wrong.
MODEL_RULES = _by_operator(_RULES)
#: Rules by operator: a model that breaks one is legal, but not supported.
SUPPORT_RULES = _by_operator({constraint_lstm_is_plain: _LSTM,
                              constraint_weights_are_constant: f"{_CONV} SVDF {_LSTM}",
                              constraint_wide_weights: "FULLY_CONNECTED",
                              constraint_power_of_two_sum: "ADD SUB"})
