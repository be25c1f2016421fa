"""How large a tensor may be."""

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["MAX_RANK", "MAX_TENSOR_BYTES", "NUMPY_TYPES", "item_bytes", "too_large"]

MAX_RANK = 8
MAX_TENSOR_BYTES = 2**31 - 1
#: TFLite's types that are numpy's.
NUMPY_TYPES = frozenset(("float32", "int32", "uint8", "int64", "bool", "int16", "complex64", "int8", "float16",
                         "float64", "complex128", "uint64", "uint32", "uint16"))


def item_bytes(dtype: str) -> int:
    """Return the bytes of one element; types that no array can have count as a byte."""
    return np.dtype(dtype).itemsize if dtype in NUMPY_TYPES else 1


def too_large(shape: Sequence[int], dtype: str) -> str | None:
    """Return what is wrong with a tensor of more bytes than can be, else None."""
    size_bytes = math.prod(shape) * item_bytes(dtype)
    if size_bytes <= MAX_TENSOR_BYTES:
        return None
    return (f"{list(shape)} of {dtype} is too large: its size is {size_bytes} bytes, at most {MAX_TENSOR_BYTES} fit")
