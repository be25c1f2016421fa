"""Limits of the compiler per operator: the docstring of each function is the user's message.

A `constraint_*` function returns what it found when the operator breaks the limit, else None. The specification's own
rules (types, quantization) are checked when the model is read (`tq_hw.model.rules.check`); these are this compiler's.
"""

from collections.abc import Callable, Iterable

import numpy as np

from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.registry import input_tensor, int_option

__all__ = ["KERNEL_LIMIT", "check", "covers_image", "limits_of"]

Constraint = Callable[[Operator, Subgraph], str | None]

#: The array's kernel counters have eight bits.
KERNEL_LIMIT = 255
_STRIDE_LIMIT = 255
_CONSTRAINTS: dict[str, list[Constraint]] = {}


def _limits(*names: str) -> Callable[[Constraint], Constraint]:
    def add(function: Constraint) -> Constraint:
        for name in names:
            _CONSTRAINTS.setdefault(name, []).append(function)
        return function
    return add


def _message(constraint: Constraint) -> str:
    return " ".join((constraint.__doc__ or "").split()).rstrip(".")


def limits_of(name: str) -> list[str]:
    """Return the limits of an operator as sentences."""
    return [_message(constraint) for constraint in _CONSTRAINTS.get(name, ())]


def check(op: Operator, subgraph: Subgraph) -> None:
    """Raise UnsupportedError with the first limit that `op` breaks and what was found."""
    for constraint in _CONSTRAINTS.get(op.op, ()):
        found = constraint(op, subgraph)
        if found is not None:
            raise UnsupportedError(f"{_message(constraint)}; found {found}")


def _first_computed(op: Operator, subgraph: Subgraph, positions: Iterable[int]) -> str | None:
    for position in positions:
        tensor = input_tensor(op, subgraph, position)
        if tensor is not None and tensor.data is None:
            return f"input {position} (tensor {tensor.index}, {tensor.name!r}) computed at run time"
    return None


@_limits("CONV_2D", "DEPTHWISE_CONV_2D")
def constraint_constant_weights(op: Operator, subgraph: Subgraph) -> str | None:
    """Weights and bias must be constants of the model."""
    return _first_computed(op, subgraph, (1, 2))


@_limits("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
def constraint_kernel_size(op: Operator, subgraph: Subgraph) -> str | None:
    """Kernels must have at most 255 rows and columns."""
    weights = input_tensor(op, subgraph, 1)
    if weights is not None and max(weights.shape[1:3]) > KERNEL_LIMIT:
        return f"{weights.shape[1]}x{weights.shape[2]}"
    return None


def covers_image(op: Operator, subgraph: Subgraph) -> bool:
    """Whether a pool has one window for each image, which sees all of it."""
    source, output = subgraph.tensors[op.inputs[0]], subgraph.tensors[op.outputs[0]]
    return (output.shape[1:3] == (1, 1) and int_option(op, "filter_height") >= source.shape[1]
            and int_option(op, "filter_width") >= source.shape[2])


@_limits("AVERAGE_POOL_2D", "MAX_POOL_2D")
def constraint_filter_size(op: Operator, subgraph: Subgraph) -> str | None:
    """Filters must have at most 255 rows and columns, unless one filter covers the whole image."""
    size = int_option(op, "filter_height"), int_option(op, "filter_width")
    return f"{size[0]}x{size[1]}" if max(size) > KERNEL_LIMIT and not covers_image(op, subgraph) else None


@_limits("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D")
def constraint_strides(op: Operator, subgraph: Subgraph) -> str | None:
    """Strides and dilations must be at most 255, unless one window covers the whole image."""
    if "filter_height" in op.options and covers_image(op, subgraph):
        return None
    names = ("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor")
    large = {name: op.options[name] for name in names if name in op.options and int_option(op, name) > _STRIDE_LIMIT}
    return ", ".join(f"{name} {value}" for name, value in large.items()) or None


@_limits("TRANSPOSE_CONV")
def constraint_constant_transposed_weights(op: Operator, subgraph: Subgraph) -> str | None:
    """Weights and bias must be constants of the model."""
    return _first_computed(op, subgraph, (1, 3))


@_limits("TRANSPOSE", "STRIDED_SLICE", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", "RESIZE_BILINEAR",
         "RESIZE_NEAREST_NEIGHBOR", "EXPAND_DIMS", "PADV2", "SPLIT_V", "TILE", "BROADCAST_TO", "REVERSE_V2",
         "MIRROR_PAD")
def constraint_constant_geometry(op: Operator, subgraph: Subgraph) -> str | None:
    """Permutation, sizes, begins, blocks, crops and fill values must be constants of the model."""
    return _first_computed(op, subgraph, range(1, len(op.inputs)))


@_limits("REVERSE_SEQUENCE")
def constraint_constant_lengths(op: Operator, subgraph: Subgraph) -> str | None:
    """The lengths must be constants of the model."""
    return _first_computed(op, subgraph, (1,))


@_limits("SPARSE_TO_DENSE")
def constraint_constant_indices(op: Operator, subgraph: Subgraph) -> str | None:
    """Indices and shape must be constants of the model."""
    return _first_computed(op, subgraph, (0, 1))


@_limits("DILATE", "FILL")
def constraint_constant_sizes(op: Operator, subgraph: Subgraph) -> str | None:
    """Steps and sizes must be constants of the model."""
    return _first_computed(op, subgraph, (1 if op.op == "DILATE" else 0,))


@_limits("DYNAMIC_UPDATE_SLICE")
def constraint_update_axis(op: Operator, subgraph: Subgraph) -> str | None:
    """An update at a computed start must be smaller than the input along at most one axis."""
    shape, part, start = (input_tensor(op, subgraph, position) for position in range(3))
    if shape is None or part is None or start is None or start.data is not None:
        return None
    smaller = sum(size < whole for size, whole in zip(part.shape, shape.shape, strict=True))
    return f"{list(part.shape)} in {list(shape.shape)}" if smaller > 1 else None


@_limits("ADD", "SUB", "MUL")
def constraint_plain_double_words(op: Operator, subgraph: Subgraph) -> str | None:
    """Do not fuse an activation into sums and products of int64."""
    tensor, activation = input_tensor(op, subgraph, 0), str(op.options.get("fused_activation_function", "NONE"))
    return activation if tensor is not None and tensor.dtype == "int64" and activation != "NONE" else None


@_limits("SLICE")
def constraint_constant_slice(op: Operator, subgraph: Subgraph) -> str | None:
    """Sizes must be constants of the model, and none of them -1 where the begin is computed."""
    sizes, begin = input_tensor(op, subgraph, 2), input_tensor(op, subgraph, 1)
    if sizes is None or sizes.data is None:
        return _first_computed(op, subgraph, (2,))
    return f"sizes {sizes.data.tolist()}" if begin is not None and begin.data is None and -1 in sizes.data else None


@_limits("ONE_HOT", "TOPK_V2")
def constraint_constant_counts(op: Operator, subgraph: Subgraph) -> str | None:
    """The depth, the count, and on and off values must be constants of the model."""
    return _first_computed(op, subgraph, range(1, len(op.inputs)))


@_limits("POW")
def constraint_constant_exponent(op: Operator, subgraph: Subgraph) -> str | None:
    """The exponents must be constants of the model, all equal and 0 or more."""
    exponents = input_tensor(op, subgraph, 1)
    if exponents is None or exponents.data is None:
        return _first_computed(op, subgraph, (1,))
    found = np.unique(exponents.data).tolist()
    if len(found) == 1 and found[0] >= 0:
        return None
    return ", ".join(map(str, found[:4])) + (", ..." if len(found) > 4 else "") if found else "none"


@_limits("SCATTER_ND")
def constraint_constant_targets(op: Operator, subgraph: Subgraph) -> str | None:
    """Indices and the shape must be constants of the model, and no index of int64 may occur twice."""
    indices, updates = input_tensor(op, subgraph, 0), input_tensor(op, subgraph, 1)
    if indices is not None and indices.data is not None and indices.data.size and updates is not None and (
            updates.dtype == "int64"):
        rows = indices.data.reshape(-1, indices.data.shape[-1])
        different, counts = np.unique(rows, axis=0, return_counts=True)
        if len(different) < len(rows):
            return f"index {different[counts.argmax()].tolist()} {counts.max()} times"
    return _first_computed(op, subgraph, (0, 2))


@_limits("SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM")
def constraint_constant_recurrent_weights(op: Operator, subgraph: Subgraph) -> str | None:
    """Weights and biases must be constants of the model, the state a variable."""
    states = (4,) if op.op == "SVDF" else (18, 19)
    computed = _first_computed(op, subgraph, [p for p in range(1, len(op.inputs)) if p not in states])
    if computed is not None:
        return computed
    tensors = [input_tensor(op, subgraph, position) for position in states]
    return None if all(t is not None and t.is_variable for t in tensors) else "a state that is not a variable tensor"


@_limits("FULLY_CONNECTED")
def constraint_int16_by_constants(op: Operator, subgraph: Subgraph) -> str | None:
    """Weights of int8 must be constants if activations are int16."""
    tensor, weights = (input_tensor(op, subgraph, position) for position in range(2))
    if tensor is None or tensor.dtype != "int16" or weights is None or weights.dtype == "int16":
        return None
    return _first_computed(op, subgraph, (1,))


@_limits("FULLY_CONNECTED")
def constraint_constant_bias(op: Operator, subgraph: Subgraph) -> str | None:
    """The bias must be a constant of the model."""
    return _first_computed(op, subgraph, (2,))


@_limits("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL", "ARG_MAX", "ARG_MIN")
def constraint_constant_axes(op: Operator, subgraph: Subgraph) -> str | None:
    """The axes must be constants."""
    axes = input_tensor(op, subgraph, 1)
    return "axes computed at run time" if axes is None or axes.data is None else None


@_limits("PAD", "PADV2")
def constraint_constant_padding(op: Operator, subgraph: Subgraph) -> str | None:
    """Paddings must be constants."""
    paddings = input_tensor(op, subgraph, 1)
    return "paddings computed at run time" if paddings is None or paddings.data is None else None


@_limits("QUANTIZE")
def constraint_quantize_types(op: Operator, subgraph: Subgraph) -> str | None:
    """QUANTIZE takes int8, uint8, int16 and int32, or float32 that is an input of the model."""
    source = input_tensor(op, subgraph, 0)
    if source is None:
        return "no input"
    if source.dtype == "float32" and source.index not in subgraph.inputs:
        return "float32 computed inside the model"
    return None if source.dtype in ("int8", "uint8", "int16", "int32", "float32") else f"input of type {source.dtype}"


@_limits("DEQUANTIZE", "CAST")
def constraint_float_place(op: Operator, subgraph: Subgraph) -> str | None:
    """A float32 result must be an output of the model and nothing else."""
    target = op.outputs[0]
    if subgraph.tensors[target].dtype != "float32":
        return None
    if target not in subgraph.outputs or any(target in other.inputs for other in subgraph.operators):
        return f"tensor {target} used inside the model"
    return None
