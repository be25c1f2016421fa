"""Shrink a model that fails, as long as the failure remains.

`shrink(model, fails)` drops outputs, replaces an operator's output by one of its inputs or a new input of the model,
drops parts of joins, and shortens axes. Dependent shapes and weights are adapted.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tq_hw.model.errors import TqError
from tq_hw.model.graph import Model, Operator, Subgraph, Tensor
from tq_hw.model.random.graphs import pruned
from tq_hw.model.rules.node import Node
from tq_hw.model.rules.shapes import output_shapes
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model

__all__ = ["shrink", "size_of"]

#: Operators with several inputs, any of which may be dropped.
_JOINS = ("CONCATENATION", "PACK")


def size_of(model: Model) -> tuple[int, int, int]:
    """Return what shrinking minimizes: operators, then outputs and inputs, then elements of all tensors."""
    main = model.main
    return (len(main.operators), len(main.outputs) + len(main.inputs),
            sum(math.prod(tensor.shape) for tensor in main.tensors))


def shrink(model: Model, fails: Callable[[Model], bool], most_trials: int = 3000) -> Model:
    """Return the smallest model found for which `fails` is still true.

    `fails` gets valid models only. It should be true only for the original kind of failure.
    """
    best, trials, changed = model, 0, True
    while changed:
        changed = False
        for candidate in _candidates(best):
            if trials >= most_trials:
                return best
            trials += 1
            smaller = _valid(candidate)
            if smaller is not None and size_of(smaller) < size_of(best) and fails(smaller):
                best, changed = smaller, True
                break
    return best


def _valid(model: Model) -> Model | None:
    """Return the model after writing and parsing, without operators that no output needs; None if it is not valid."""
    try:
        main = pruned(_settled(model.main))
        return parse_model(write_model(replace(model, subgraphs=(main, *model.subgraphs[1:]))), model.name)
    except (TqError, ValueError, KeyError, IndexError):
        return None


def _settled(subgraph: Subgraph) -> Subgraph:
    """Set the output shapes of operators to those that follow from their inputs."""
    tensors = list(subgraph.tensors)
    for operator in subgraph.operators:
        shapes = output_shapes(Node(operator, tensors, "shrink"))
        for index, shape in zip(operator.outputs, shapes or (), strict=False):
            tensors[index] = replace(tensors[index], shape=shape)
    return replace(subgraph, tensors=tuple(tensors))


def _candidates(model: Model) -> Iterator[Model]:
    """Yield changed models, the most promising first. They may be invalid."""
    main = model.main
    for changed in (*_fewer_outputs(main), *_cut(main), *_bypassed(main), *_fewer_parts(main), *_shorter(main)):
        yield replace(model, subgraphs=(changed, *model.subgraphs[1:]))
    if len(model.subgraphs) > 1:
        # Variables are removed together with their operators.
        states = ("VAR_HANDLE", "ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE")
        kept = tuple(op for op in main.operators if op.op not in states)
        given = [y for op in main.operators if op.op == "READ_VARIABLE" for y in op.outputs]
        yield replace(model, subgraphs=(replace(main, operators=kept, inputs=(*main.inputs, *given)),))


def _fewer_outputs(main: Subgraph) -> Iterator[Subgraph]:
    if len(main.outputs) > 1:
        for at in range(len(main.outputs)):
            yield replace(main, outputs=(main.outputs[at],))
        for at in range(len(main.outputs)):
            yield replace(main, outputs=main.outputs[:at] + main.outputs[at + 1:])


def _cut(main: Subgraph) -> Iterator[Subgraph]:
    """Turn an operator's outputs into inputs of the model, or its inputs into outputs of the model."""
    for op in main.operators:
        made = [y for y in op.outputs if main.tensors[y].dtype in ("int8", "int32", "int16", "bool")]
        if made:
            yield replace(main, operators=tuple(o for o in main.operators if o is not op),
                          inputs=(*main.inputs, *(y for y in made)))
    for op in main.operators:
        if set(op.outputs) & set(main.outputs):
            computed = [x for x in op.inputs if x >= 0 and main.tensors[x].data is None
                        and main.tensors[x].dtype == "int8"]
            rest = tuple(y for y in main.outputs if y not in op.outputs)
            if computed or rest:
                yield replace(main, outputs=tuple(dict.fromkeys((*rest, *computed))))


def _bypassed(main: Subgraph) -> Iterator[Subgraph]:
    """Replace an operator's output by one of its computed inputs of the same type."""
    for op in main.operators:
        for y in op.outputs:
            for x in op.inputs:
                if x >= 0 and main.tensors[x].data is None and main.tensors[x].dtype == main.tensors[y].dtype:
                    yield _with(main, y, x)


def _with(main: Subgraph, old: int, new: int) -> Subgraph:
    """Replace tensor `old` by `new` everywhere."""
    tensors = list(main.tensors)
    tensors[new] = replace(tensors[new], quantization=tensors[old].quantization)
    operators = tuple(replace(op, inputs=tuple(new if x == old else x for x in op.inputs)) for op in main.operators)
    outputs = tuple(new if y == old else y for y in main.outputs)
    return replace(main, tensors=tuple(tensors), operators=operators, outputs=outputs)


def _fewer_parts(main: Subgraph) -> Iterator[Subgraph]:
    for op in main.operators:
        if op.op in _JOINS and len(op.inputs) > 1:
            for at in range(len(op.inputs)):
                options = dict(op.options)
                if "values_count" in options:
                    options["values_count"] = len(op.inputs) - 1
                yield _replaced(main, replace(op, inputs=op.inputs[:at] + op.inputs[at + 1:], options=options))


def _replaced(main: Subgraph, new: Operator) -> Subgraph:
    return replace(main, operators=tuple(new if op.index == new.index else op for op in main.operators))


def _shorter(main: Subgraph) -> Iterator[Subgraph]:
    """Shorten an axis of one tensor, or all axes of one length, with the constants that depend on it."""
    lengths = sorted({size for x in main.inputs for size in main.tensors[x].shape if size > 1}, reverse=True)
    for length in lengths:
        for new in dict.fromkeys((1, length // 2, length - 1)):
            if 0 < new < length:
                yield replace(main, tensors=tuple(_scaled(t, length, new) for t in main.tensors))
    for index in (*main.inputs, *(t.index for t in main.tensors if t.data is not None and t.data.ndim > 1)):
        for axis, length in enumerate(main.tensors[index].shape):
            for new in dict.fromkeys((1, length // 2, length - 1)):
                if 0 < new < length:
                    yield _axis_cut(main, index, axis, new)


def _scaled(tensor: Tensor, length: int, new: int) -> Tensor:
    """Return a tensor whose axes of `length` have `new` elements; values in shape constants change likewise."""
    if tensor.data is not None and tensor.dtype in ("int32", "int64") and tensor.quantization is None:
        data = np.where(tensor.data == length, new, tensor.data).astype(tensor.data.dtype)
        return replace(tensor, data=data)
    for axis, size in enumerate(tensor.shape):
        if size == length:
            tensor = _shortened(tensor, axis, new)
    return tensor


def _shortened(tensor: Tensor, axis: int, new: int) -> Tensor:
    shape = (*tensor.shape[:axis], new, *tensor.shape[axis + 1:])
    data = None if tensor.data is None else np.take(tensor.data, range(new), axis)
    quantization = tensor.quantization
    if quantization is not None and len(quantization.scale) > 1 and (quantization.dimension == axis
                                                                    or len(tensor.shape) == 1):
        quantization = replace(quantization, scale=quantization.scale[:new], zero_point=quantization.zero_point[:new])
    return replace(tensor, shape=shape, data=data, quantization=quantization)


def _axis_cut(main: Subgraph, index: int, axis: int, new: int) -> Subgraph:
    """Shorten one axis of one tensor, and the matching channels of weights and biases."""
    tensors = list(main.tensors)
    length = tensors[index].shape[axis]
    tensors[index] = _shortened(tensors[index], axis, new)
    for op in main.operators:
        if op.op in ("CONV_2D", "FULLY_CONNECTED", "DEPTHWISE_CONV_2D") and index in op.inputs[:2]:
            follows = op.inputs[1:3] if index == op.inputs[0] else op.inputs[2:3]
            for other in follows:
                if other < 0:
                    continue
                found = tensors[other]
                axes = [a for a, size in enumerate(found.shape) if size == length]
                if axes:
                    tensors[other] = _shortened(found, axes[-1], new)
    return replace(main, tensors=tuple(tensors))
