"""Float32 inputs of the model that operators other than QUANTIZE read: comparisons, BUCKETIZE, functions.

The bits of a float32 number become an int32 key; keys sort like the numbers and are compared instead of them. The code
that QUANTIZE gives for a monotone or even function of an input is a step function of its key. The compiler finds all
its steps by bisection. The host does not quantize an input that is read this way; the input's own QUANTIZE becomes
steps as well.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, pattern
from tq_hw.model.graph import Operator, Subgraph, Tensor
from tq_hw.model.rules.signatures import COMPARISONS
from tq_hw.sim.golden.arith import INT32_MAX, IntArray, dtype_range, round_half_away
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.raw_float import INFINITY, ordered

__all__ = ["OF_INPUTS", "RAW", "read_raw"]

_BYTES = ("int8", "uint8")
#: A quotient beyond which the code does not change.
_FAR = np.float32(1024)
#: Monotone functions of one number.
_MONOTONE = ("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "FLOOR", "CEIL", "ROUND", "NEG", "SIGN")
#: Operators that are monotone if their other input is a constant.
_WITH_CONSTANT = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM")
#: Even functions: they fall up to 0 and rise from there.
_EVEN = ("ABS", "SQUARE")
#: Functions of an input that need no other operand.
OF_INPUTS = (*_MONOTONE, *_EVEN)
Function = Callable[[IntArray], Float32]


def read_raw(subgraph: Subgraph) -> set[int]:
    """Return the float32 inputs whose bits operators read."""
    return {op.inputs[0] for op in subgraph.operators if op.op in ("FLOAT_ORDER", "CAST")
            and op.inputs[0] in subgraph.inputs and subgraph.tensors[op.inputs[0]].dtype == "float32"}


def _is_given(graph: Subject, index: int) -> bool:
    tensor = graph.tensors[index]
    return tensor.dtype == "float32" and tensor.data is None and not tensor.is_variable and graph.maker(index) is None


def _order(graph: Subject, op: Operator, index: int, made: list[Operator], *, high: bool) -> int:
    """Return a tensor of int32 keys that sort like the numbers of a tensor."""
    tensor = graph.tensors[index]
    if tensor.data is not None:
        return graph.add_constant(ordered(tensor.data.view(np.int32).astype(np.int64)).astype(np.int32))
    order = graph.add_tensor(Tensor(0, f"{tensor.name} (order)", "int32", tensor.shape))
    made.append(Operator(op.index, "FLOAT_ORDER", (index,), (order,), {"high": high}))
    return order


@pattern(*COMPARISONS)
def comparison_of_inputs(graph: Subject, op: Operator) -> Rewrite | None:
    """Compare inputs of the model by their keys; NaN compares as in float32."""
    given = [_is_given(graph, index) for index in op.inputs]
    for index, is_given in zip(op.inputs, given, strict=True):
        data = graph.tensors[index].data
        if not is_given and (data is None or data.dtype != np.float32 or np.isnan(data).any()):
            return None
    if not any(given):
        return None
    made: list[Operator] = []
    # NaN gets the key at the end where it makes LESS, or GREATER, false.
    less = not op.op.startswith("GREATER")
    inputs = tuple(_order(graph, op, index, made, high=less == (position == 0))
                   for position, index in enumerate(op.inputs))
    return Rewrite([op], [*made, Operator(op.index, op.op, inputs, op.outputs)])


def _stepped(graph: Subject, op: Operator, source: int, first: int, places: IntArray, changes: IntArray) -> Rewrite:
    made: list[Operator] = []
    order = _order(graph, op, source, made, high=True)
    inputs = (order, graph.add_constant(places.astype(np.int32)), graph.add_constant(changes.astype(np.int32)))
    return Rewrite([op], [*made, Operator(op.index, "STEPS", inputs, op.outputs, {"first": first})])


@pattern("BUCKETIZE")
def buckets_of_inputs(graph: Subject, op: Operator) -> Rewrite | None:
    """Count the boundaries that an input has reached as steps."""
    boundaries = np.array(op.options.get("boundaries", ()), np.float32)
    if not _is_given(graph, op.inputs[0]) or np.isnan(boundaries).any() or (np.diff(boundaries) < 0).any():
        return None
    places = ordered(boundaries.view(np.int32).astype(np.int64))
    return _stepped(graph, op, op.inputs[0], 0, places, np.ones_like(places))


def _chain(graph: Subject, index: int) -> list[Operator] | None:
    """Return the monotone and even functions from an input of the model to a tensor; None if others are among them."""
    found: list[Operator] = []
    while not _is_given(graph, index):
        maker = graph.maker(index)
        if maker is None or len(maker.outputs) != 1 or graph.output(maker).dtype != "float32":
            return None
        computed = [each for each in maker.inputs if graph.tensors[each].data is None]
        others = [graph.tensors[each].data for each in maker.inputs if each not in computed]
        if len(computed) != 1 or not all(data is not None and data.size == 1 and np.isfinite(data).all()
                                         for data in others):
            return None
        if maker.op not in ((*_MONOTONE, *_EVEN) if not others else _WITH_CONSTANT):
            return None
        found.insert(0, maker)
        index = computed[0]
    return found


def _function(graph: Subject, chain: list[Operator]) -> Function:
    """Return the function that a chain of operators computes, of keys."""
    def compute(order: IntArray) -> Float32:
        values: Float32 = ordered(order).astype(np.int32).view(np.float32)
        for op in chain:
            inputs = [graph.tensors[each].data for each in op.inputs]
            with np.errstate(all="ignore"):
                values = KERNELS[op.op](op, graph.subgraph, [
                    values if data is None else data.reshape(-1) for data in inputs])[0]
        return values
    return compute


def _places(function: Callable[[IntArray], IntArray], low: int, high: int) -> tuple[IntArray, IntArray]:
    """Return the keys in low + 1..high at which a monotone function changes by one, and the changes."""
    first, last = function(np.array([low, high])).tolist()
    sign = 1 if last >= first else -1
    targets = np.arange(1, abs(last - first) + 1)
    below, reached = np.full(targets.shape, low, np.int64), np.full(targets.shape, high, np.int64)
    while (reached - below > 1).any():
        middle = (below + reached) // 2
        is_there = (function(middle) - first) * sign >= targets
        below, reached = np.where(is_there, below, middle), np.where(is_there, middle, reached)
    return reached, np.full(targets.shape, sign, np.int64)


def _parts(graph: Subject, chain: list[Operator]) -> list[int]:
    """Return keys between which the result of a chain is monotone."""
    ends = {1 - INFINITY, INFINITY - 1}
    for position, op in enumerate(chain):
        if op.op in _EVEN:
            ends |= _turns(_function(graph, chain[:position]), sorted(ends))
    return sorted(ends)


def _turns(function: Function, ends: list[int]) -> set[int]:
    """Return the last key before, and the first after, each change of a function's sign."""
    def signs(order: IntArray) -> IntArray:
        return (function(order) < 0).astype(np.int64)

    found = set[int]()
    for low, high in pairwise(ends):
        for place in _places(signs, low, high)[0].tolist():
            found |= {place - 1, place}
    return found


@pattern("QUANTIZE")
def function_of_inputs(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace QUANTIZE of a function of an input by steps; also of the input itself if others read its bits."""
    target, chain = graph.output(op), _chain(graph, op.inputs[0])
    if chain is None or target.dtype not in _BYTES or (not chain and op.inputs[0] not in read_raw(graph.subgraph)):
        return None
    function, (lowest, highest) = _function(graph, chain), dtype_range(target.dtype)

    def codes(order: IntArray) -> IntArray:
        with np.errstate(over="ignore"):
            quotient = np.clip(function(order) / np.float32(target.scale), -_FAR, _FAR)
        return np.clip(round_half_away(quotient) + target.zero_point, lowest, highest).astype(np.int64)

    ends = _parts(graph, chain)
    if np.isnan(function(np.array(ends))).any():
        return None
    # A step of 0 at a key that no number has, in case the code never changes.
    parts = [*(_places(codes, low, high) for low, high in pairwise(ends)), (np.array([INT32_MAX]), np.array([0]))]
    places, changes = (np.concatenate(part) for part in zip(*parts, strict=True))
    source = chain[0].inputs[0] if chain and _is_given(graph, chain[0].inputs[0]) else (
        next(each for each in chain[0].inputs if _is_given(graph, each)) if chain else op.inputs[0])
    return _stepped(graph, op, source, int(codes(np.array(ends[:1]))[0]), places, changes)


#: Patterns in the order in which they are tried.
RAW = (comparison_of_inputs, buckets_of_inputs, function_of_inputs)
