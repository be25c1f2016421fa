"""What a message advises where a model is left in float32."""

from collections.abc import Iterable

from tq_hw.model.graph import Tensor

__all__ = ["has_codes", "whole_type"]


def has_codes(tensors: Iterable[Tensor]) -> bool:
    """Whether a model computes codes, so that what is float32 in it is left of a quantized model."""
    return any(each.dtype in ("int8", "int16") and each.data is None for each in tensors)


def whole_type(tensors: Iterable[Tensor]) -> str:
    """Return what all of a model is to be quantized to: "16x8" if its activations are int16 already, else "int8"."""
    computed = {each.dtype for each in tensors if each.data is None}
    return "16x8" if "int16" in computed and "int8" not in computed else "int8"
