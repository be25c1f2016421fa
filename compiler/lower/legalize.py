"""From TFLite operators to layers: one function per operator, found by name.

Each `@lowers(NAME)` function reads an operator and adds layers, or only values: RESHAPE and PAD cost nothing if a
neighbour can absorb them. All integers come from the functions that the golden model uses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tq_hw.compiler.ir.layers import Graph, Layer, Pad
from tq_hw.compiler.ir.staged import Copy, Move
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.lower.constraints import check
from tq_hw.compiler.lower.live import live
from tq_hw.compiler.rewrite.float_variables import first_codes, first_contents, quantized_variables
from tq_hw.compiler.rewrite.fold_constants import ALWAYS_CONSTANT, fold_constants
from tq_hw.compiler.rewrite.forms import FORMS
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.packed_floats import packed_floats
from tq_hw.compiler.rewrite.raw_floats import read_raw
from tq_hw.compiler.rewrite.reasons import check_floats, refuse_unknown
from tq_hw.compiler.rewrite.rewrite import Pattern, check_rewrite, rewrite
from tq_hw.compiler.rewrite.state_reads import copied_states
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model, Operator, Quantization, Subgraph, Tensor
from tq_hw.model.rules.check import check_shapes
from tq_hw.model.rules.node import Node
from tq_hw.model.rules.signatures import SIGNATURES
from tq_hw.model.rules.variables import variable_names
from tq_hw.sim.golden.pointwise import POINTWISE
from tq_hw.sim.golden.registry import Array, located
from tq_hw.sim.golden.state import initial_value

__all__ = ["LOWERINGS", "WINDOW_LIMIT", "Legalizer", "byte_shape", "legalize", "lowers", "publish",
           "replaced_operators", "reshaped", "rewritten", "supported_operators", "view_shape"]

Lowering = Callable[["Legalizer", Operator], None]
#: Whether the scratchpad holds a window [rows, cols, channels] and a pixel of so many results at once, beside weights.
HasRoom = Callable[[tuple[int, int, int], int], bool]
LOWERINGS: dict[str, Lowering] = {}
#: Types of tensors in the accelerator's memory.
_STORED = ("int8", "uint8", "int16", "int32", "int64", "bool")
#: Most pixels of an image that is summed as one window, if the scratchpad has room for it.
WINDOW_LIMIT = 1024


def _has_room(_window: tuple[int, int, int], _results: int) -> bool:
    """Whether a scratchpad of any size holds a window."""
    return True


def lowers(*names: str) -> Callable[[Lowering], Lowering]:
    """Register the decorated function for each operator in `names`."""
    def add(function: Lowering) -> Lowering:
        for name in names:
            LOWERINGS[name] = function
        return function
    return add


def view_shape(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """NHWC view of a tensor: the last axis is the channel, leading ones become rows and columns."""
    if len(shape) == 4:
        return (shape[0], shape[1], shape[2], shape[3])
    if len(shape) > 4:
        return view_shape((int(np.prod(shape[:-3])), *shape[-3:]))
    padded = (1,) * (4 - len(shape)) + shape
    # The rows of a [rows, channels] matrix become image rows of one pixel.
    return (padded[0], padded[2], 1, padded[3]) if len(shape) == 2 else (padded[0], padded[1], padded[2], padded[3])


def byte_shape(shape: tuple[int, ...], dtype: str) -> tuple[int, ...]:
    """Shape of a tensor's bytes: each byte of an element is a channel."""
    size = np.dtype(dtype).itemsize
    return shape if size == 1 else (*shape[:-1], (shape[-1] if shape else 1) * size)


@dataclass
class Legalizer:
    """State of one legalization: the subgraph, its values and layers so far."""

    subgraph: Subgraph
    values: dict[int, Value] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    edges: dict[int, int] = field(default_factory=dict)
    #: Outputs among them that are plain integers, whose scale is not applied.
    plain_edges: set[int] = field(default_factory=set)
    resources: dict[str, Value] = field(default_factory=dict)
    variable_names: dict[int, str] = field(default_factory=dict)
    #: Planes of upper and lower bytes of int16 activations, by the value that owns their bytes.
    planes: dict[Value, tuple[Value, Value]] = field(default_factory=dict)
    #: Most pixels of an image that is summed as one window.
    window_limit: int = WINDOW_LIMIT
    has_room: HasRoom = _has_room

    def tensor(self, op: Operator, position: int) -> Tensor:
        """Return the record of an input, which must be present."""
        return self.subgraph.tensors[op.inputs[position]]

    @staticmethod
    def view(shape: tuple[int, ...], dtype: str) -> tuple[int, int, int, int]:
        """NHWC view of a tensor's bytes."""
        return view_shape(byte_shape(shape, dtype))

    def new_value(self, tensor: Tensor, *, alias_of: Value | None = None, flip: bool = False) -> Value:
        """Return a new value for `tensor`."""
        if 0 in tensor.shape:
            raise UnsupportedError(f"tensor {tensor.index} ({tensor.name!r}) of shape {tensor.shape} is empty")
        # Weights and biases that are outputs of the model have several zero points; they are copied unchanged.
        points = tensor.quantization.zero_point if tensor.quantization is not None else ()
        zero_point = points[0] if len(points) == 1 else 0
        return Value(tensor.name, tensor.index, self.view(tensor.shape, tensor.dtype), zero_point, flip, alias_of)

    def input(self, op: Operator, position: int) -> Value:
        """Return the value of an activation input (a constant becomes a value in the image)."""
        tensor = self.tensor(op, position)
        if tensor.is_variable:
            return self.variable(op, position)
        if tensor.index not in self.values:
            if tensor.data is None:
                raise UnsupportedError(f"input {position} (tensor {tensor.index}, {tensor.name!r}) of type "
                                       f"{tensor.dtype} is not computed on the accelerator")
            self.constant_value(tensor)
        return self.values[tensor.index]

    def constant_value(self, tensor: Tensor) -> Value:
        """Return the value of a constant tensor, in the image."""
        if tensor.index not in self.values:
            self.values[tensor.index] = replace(self.new_value(tensor), data=np.asarray(tensor.data))
        return self.values[tensor.index]

    def variable(self, op: Operator, position: int) -> Value:
        """Return the value of a variable tensor, which persists from one inference to the next."""
        tensor = self.tensor(op, position)
        if tensor.index not in self.values:
            contents = initial_value(self.subgraph, tensor.index)
            self.values[tensor.index] = replace(self.new_value(tensor), initial=contents)
        return self.values[tensor.index]

    def output(self, op: Operator) -> Value:
        """Return a new value for the operator's only output."""
        value = self.new_value(self.subgraph.tensors[op.outputs[0]])
        self.values[op.outputs[0]] = value
        return value

    def producer(self, value: Value) -> Layer | None:
        """Return the layer that computes `value`."""
        return next((layer for layer in reversed(self.layers) if layer.output is value), None)

    def through_pad(self, value: Value) -> tuple[Value, tuple[int, int]]:
        """Look through a PAD by the zero point: return the value before it, and the rows and columns added before."""
        layer = self.producer(value)
        if isinstance(layer, Pad) and layer.fill == value.zero_point:
            return layer.inputs[0], layer.before
        return value, (0, 0)

    def constant(self, op: Operator, position: int) -> IntArray:
        """Return the contents of a constant input."""
        tensor = self.tensor(op, position)
        if tensor.data is None:
            raise UnsupportedError(f"input {position} (tensor {tensor.index}, {tensor.name!r}) must be constant")
        return tensor.data


def reshaped(value: Value, shape: tuple[int, int, int, int]) -> Value:
    """Return another view of a value's dense bytes."""
    return value if value.shape == shape else replace(value, shape=shape, alias_of=value, data=None)


def publish(state: Legalizer, op: Operator, raw: Value) -> None:
    """Make the operator's output a view of `raw`, which already has its bytes in order."""
    value = state.new_value(state.subgraph.tensors[op.outputs[0]])
    state.values[op.outputs[0]] = raw if raw.shape == value.shape else replace(value, alias_of=raw)


def supported_operators() -> list[str]:
    """Return the sorted names of the operators that models may have."""
    return sorted([*(op for op in LOWERINGS if op in SIGNATURES or op in POINTWISE), *ALWAYS_CONSTANT])


def replaced_operators() -> dict[str, str]:
    """Return the operators that others or constants always replace, sorted, and where: "it is supported ..."."""
    supported = supported_operators()
    return {op: FORMS[op] for op in sorted(FORMS) if op not in supported}


def rewritten(model: Model, patterns: Sequence[Pattern] = (), *, packs: bool = True
              ) -> tuple[Subgraph, Mapping[str, Array]]:
    """Return the main subgraph after `patterns` and the library's, and the first contents of variables by name."""
    folded = fold_constants(model)
    first = first_contents(model, folded)
    subgraph = rewrite(copied_states(quantized_variables(folded, first)), (*patterns, *LIBRARY))
    return packed_floats(subgraph) if packs else subgraph, first


def legalize(model: Model, patterns: Sequence[Pattern] = (), machine: Sequence[Pattern] = (), *,
             packs: bool = True, window_limit: int = WINDOW_LIMIT, has_room: HasRoom = _has_room) -> Graph:
    """Lower the model's main subgraph to layers, after the library's patterns, `patterns` and those of the machine.

    The result of `patterns` is compared with the model on random inputs. Without `packs`, float32 is not computed
    operator by operator. An image of more pixels than `window_limit` is not summed as one window, which would have to
    be in the scratchpad. Rows of which `has_room` is false are multiplied by weights in parts, from memory.

    Raises UnsupportedError or ModelError with the operator's index, its name, the reason and what is supported.
    """
    subgraph, first = rewritten(model, (*patterns, *machine), packs=packs)
    if patterns:
        check_rewrite(model, subgraph)
    check_floats(subgraph)
    refuse_unknown(subgraph, LOWERINGS)
    state = Legalizer(subgraph, variable_names=variable_names(subgraph), window_limit=window_limit,
                      has_room=has_room)
    _initialize(state, first)
    raw = read_raw(subgraph)
    for index in subgraph.inputs:
        tensor = subgraph.tensors[index]
        if tensor.dtype in _STORED or index in raw:
            state.values[index] = state.new_value(tensor)
        elif tensor.dtype != "float32":
            raise UnsupportedError(f"model input {tensor.name!r} (tensor {index}) is {tensor.dtype}; inputs must be "
                                   f"{', '.join(_STORED)} or float32")
    for op in subgraph.operators:
        lowering = LOWERINGS[op.op]
        with located(op):
            # Again, because computed shapes are known now.
            check_shapes(Node(op, subgraph.tensors, f"operator {op.index} ({op.op})"))
            check(op, subgraph)
            lowering(state, op)
    inputs, unread = _inputs(state)
    outputs = []
    for index in subgraph.outputs:
        wanted = state.edges.get(index, index)
        if index in subgraph.inputs and wanted != index:
            raise UnsupportedError(f"model output {subgraph.tensors[index].name!r} (tensor {index}) is a float32 input "
                                   "of the model, which the accelerator does not have; use the caller's copy")
        if subgraph.tensors[wanted].data is not None:
            state.constant_value(subgraph.tensors[wanted])
        if wanted not in state.values:
            tensor = subgraph.tensors[index]
            raise UnsupportedError(f"model output {tensor.name!r} (tensor {index}) of type {tensor.dtype} is not "
                                   "computed on the accelerator")
        value = state.values[wanted]
        if value.flip:
            # The host reads memory directly, so a view with bit 7 inverted is copied.
            plain = replace(value, alias_of=None, flip=False)
            state.layers.append(Move(len(subgraph.operators) - 1, "QUANTIZE", (value,), plain,
                                     (Copy(0, 0, 0, ((value.size_bytes, 1, 1),)),)))
            value = plain
        outputs.append(value)
    edges = {outer: subgraph.tensors[inner] for outer, inner in state.edges.items()}
    edges |= {outer: replace(edges[outer], quantization=Quantization((1.0,), (0,))) for outer in state.plain_edges}
    return Graph(live(state.layers, outputs), inputs, tuple(outputs), edges | unread)


def _inputs(state: Legalizer) -> tuple[tuple[Value, ...], dict[int, Tensor]]:
    """Return the values of the model's inputs, and the edges of unread float32 inputs, which the host makes int8."""
    subgraph, unread = state.subgraph, dict[int, Tensor]()
    read = {index for op in subgraph.operators for index in op.inputs} | {*subgraph.outputs}
    for index in subgraph.inputs:
        tensor = subgraph.tensors[index]
        if index not in read and tensor.dtype == "float32":
            unread[index] = replace(tensor, dtype="int8", quantization=Quantization((1.0,), (0,)))
            state.values[index] = state.new_value(unread[index])
        elif state.edges.get(index, index) not in state.values:
            raise UnsupportedError(f"model input {tensor.name!r} (tensor {index}) is float32 and must go through "
                                   "QUANTIZE first")
    return tuple(state.values[state.edges.get(index, index)] for index in subgraph.inputs), unread


def _initialize(state: Legalizer, first: Mapping[str, Array]) -> None:
    """Add the values of resource variables, with their contents before the first inference."""
    for name, kept in first.items():
        contents = first_codes(state.subgraph, name, kept)
        view = state.view(contents.shape, contents.dtype.name)
        state.resources[name] = Value(name, -1, view, initial=contents)
