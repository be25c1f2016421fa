"""Operators that are never lowered as themselves: in which form a model may have them.

Patterns, rules and folding put other operators or constants in their place. The table of operators and the messages
about those that are left take the form from here.
"""

from tq_hw.compiler.rewrite.raw_floats import OF_INPUTS
from tq_hw.model.rules.decided import REPLACED
from tq_hw.model.rules.shape_values import ONLY_KNOWN
from tq_hw.model.rules.signatures import FLOAT_COMPUTED, FLOAT_OPERATORS, SEGMENTS
from tq_hw.model.tflite.weights import DENSE

__all__ = ["FORMS"]


def _in_float(op: str) -> str:
    form = ("for float32 between int8 or int16 tensors" if op in FLOAT_COMPUTED else
            "for float32 as a function of one int8 or int16 tensor, or of two int8 tensors")
    return f"{form}, and for the model's float32 input before a QUANTIZE to int8" if op in OF_INPUTS else form


#: What completes "this operator is supported ...", by operator. Some of them are lowered as themselves, too.
FORMS = {**{op: _in_float(op) for op in FLOAT_OPERATORS},
         **dict.fromkeys(ONLY_KNOWN, "where its results follow from shapes and constants"),
         **dict.fromkeys(SEGMENTS, "for int32, or for float32 between codes, with constant segments"),
         "BUCKETIZE": "for float32 that is the model's input, or a function of one quantized tensor",
         "ADD_N": "for two or more tensors of one shape, of int32, or of float32 between codes",
         "CUMSUM": "for int32 and int64 along a constant axis, and for float32 computed inside the model",
         DENSE: "for constants",
         **REPLACED}
