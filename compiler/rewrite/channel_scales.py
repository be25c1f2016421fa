"""Float32 islands of one int8 tensor and constants per channel, such as an unfused batch normalization.

A channel that is linear in the code, clamped or not, is `weight * code + bias`, multiplied and rounded once: a
depthwise convolution with a kernel of one pixel. A larger weight gives the bias a finer unit. Weights up to 127 are
tried until all 256 codes of each channel give the float32 result. A few channels without such a weight get tables.
"""

import numpy as np

from tq_hw.compiler.rewrite.island import Island, label, varying
from tq_hw.compiler.rewrite.rewrite import Subject, changed
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.arith import INT8_CODES, IntArray, quantize_multiplier
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.pair import scaled_channel
from tq_hw.sim.golden.registry import Array

__all__ = ["scaled_channels"]

#: Signed codes by unsigned ones.
_CODES = INT8_CODES.astype(np.int64)
#: Least of the weights that are tried first.
_LARGE = 112
#: Offsets of the tried biases from the nearest one, and the number of candidates that are tried.
_BIASES = (0, 1, -1)
_TRIED = 8
#: Most channels without a fitting weight and bias, about one in a thousand: each needs a table.
_MOST_LEFT = 8
#: Weight, bias, multiplier and right shift.
_Found = tuple[int, int, int, int]
_NOTHING: _Found = (0, 0, 1 << 30, 1)


def scaled_channels(graph: Subject, op: Operator) -> list[Operator]:
    """Return operators that compute the output of the QUANTIZE `op`; raise `UnsupportedError` if there are none."""
    target = graph.output(op)
    source, values, places = _of_channels(graph, op, target)
    codes = KERNELS["QUANTIZE"](op, graph.subgraph, [values])[0]
    expected = codes.astype(np.int64)
    low, high = int(expected.min()), int(expected.max())
    found: list[_Found] = []
    left = set()
    for at in range(values.shape[1]):
        scaled = _channel(target, values[:, at].astype(np.float64), expected[:, at], (low, high))
        left |= set() if scaled else set(np.flatnonzero(places == at).tolist())
        found.append(scaled or _NOTHING)
    if len(left) > min(_MOST_LEFT, len(places) // 4):
        raise UnsupportedError(f"{len(left)} channels of {label(target)} do not rise or fall in even steps")
    numbers = [np.array(each)[places] for each in zip(*found, strict=True)]
    constants = [graph.add_constant(each.astype(dtype)) for each, dtype in zip(
        numbers, (np.int8, np.int32, np.int32, np.int32), strict=True)]
    made = Operator(op.index, "CHANNEL_SCALE", (source.index, *constants), op.outputs,
                    {"zero_point": target.zero_point, "act_min": low, "act_max": high})
    return _with_tables(graph, made, {at: codes[:, places[at]] for at in sorted(left)}) if left else [made]


def _with_tables(graph: Subject, scale: Operator, tables: dict[int, Array]) -> list[Operator]:
    """Return operators that compute a few channels by tables and the others by `scale`."""
    source, target = graph.input(scale), graph.output(scale)
    whole, parts = graph.add_tensor(target), list[int]()
    made = [changed(scale, outputs=(whole,))]

    def cut(tensor: int, first: int, last: int) -> int:
        shape = (*target.shape[:-1], last - first)
        begin, size = (graph.add_constant(np.array(each, np.int32)) for each in (
            (*(0,) * (len(shape) - 1), first), shape))
        part = graph.add_tensor(graph.tensors[tensor], shape)
        made.append(Operator(scale.index, "SLICE", (tensor, begin, size), (part,)))
        return part
    done = 0
    for at, table in tables.items():
        parts += [cut(whole, done, at)] if at > done else []
        looked = graph.add_tensor(target, (*target.shape[:-1], 1))
        channel = cut(source.index, at, at + 1)
        made.append(Operator(scale.index, "TABLE", (channel, graph.add_constant(table)), (looked,)))
        parts.append(looked)
        done = at + 1
    parts += [cut(whole, done, target.shape[-1])] if done < target.shape[-1] else []
    return [*made, Operator(scale.index, "CONCATENATION", tuple(parts), scale.outputs,
                            {"axis": len(target.shape) - 1, "fused_activation_function": "NONE"})]


def _of_channels(graph: Subject, op: Operator, target: Tensor) -> tuple[Tensor, Array, IntArray]:
    """Return the tensor, values [codes, distinct channels], and for each channel its index among these."""
    island = Island(graph, target.shape, most=2, numbered=varying(graph, op.inputs[0]))
    values = island.values(op.inputs[0])
    sources = island.sources
    if len(sources) != 2 or len([each for each in sources if each.data is not None]) != 1:
        raise UnsupportedError(f"{label(target)} is not a function of one tensor and constants")
    if sources[0].data is not None:
        sources, values = sources[::-1], values.T
    source, places = sources[0], np.asarray(sources[1].data)
    if ((source.dtype, target.dtype) != ("int8", "int8") or source.shape != target.shape or not target.shape
            or places.size != target.shape[-1] or places.shape[-1] != places.size or not np.isfinite(values).all()):
        raise UnsupportedError(f"{label(target)} is not a function of an int8 tensor and per-channel constants")
    return source, np.broadcast_to(values, (256, values.shape[1])), places.reshape(-1)


def _channel(target: Tensor, values: Array, expected: IntArray, clamp: tuple[int, int]) -> _Found | None:
    """Return the constants that give `expected` for all codes of a channel, None if there are none."""
    if (expected == expected[0]).all():
        return 0, (int(expected[0]) - target.zero_point) << 2, 1 << 30, 1
    inside = np.flatnonzero((values > values.min()) & (values < values.max()))
    if len(inside) < 2:
        return None
    first, last = (inside[choose(_CODES[inside])] for choose in (np.argmin, np.argmax))
    step = (values[last] - values[first]) / (_CODES[last] - _CODES[first])
    return _searched(target, 1 if step > 0 else -1, values[first] / step - _CODES[first], expected,
                     clamp) if step else None


def _searched(target: Tensor, sign: int, offset: float, expected: IntArray,
              clamp: tuple[int, int]) -> _Found | None:
    """Try weights, with biases near `offset` codes: first some large ones, of which one usually fits, then all."""
    for first, more in ((_LARGE, (0,)), (1, _BIASES)):
        weights, beside = (each.reshape(-1) for each in np.meshgrid(sign * np.arange(first, 128), more))
        found = _fitting(target, weights, np.round(weights * offset).astype(np.int64) + beside, expected, clamp)
        if found is not None:
            return found
    return None


def _fitting(target: Tensor, weights: IntArray, biases: IntArray, expected: IntArray,
             clamp: tuple[int, int]) -> _Found | None:
    """Return a weight and bias for which some range of scales gives all codes, None if there are none."""
    sums = weights[:, None] * _CODES + biases[:, None]
    wanted = expected - target.zero_point
    # A code is the interval between these two halves; a clamped code is open on one side.
    low = np.where(expected == clamp[0], -np.inf, wanted - 0.5)
    high = np.where(expected == clamp[1], np.inf, wanted + 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = low / sums, high / sums
    least = np.where(sums > 0, ends[0], np.where(sums < 0, ends[1], 0)).max(axis=1)
    most = np.where(sums > 0, ends[1], np.where(sums < 0, ends[0], np.inf)).min(axis=1)
    rooms = np.where((least > 0) & np.isfinite(most), most / np.maximum(least, 1e-30), 0)
    for at in np.argsort(-rooms)[:_TRIED]:
        if rooms[at] > 1 and abs(biases[at]) < 1 << 30:
            multiplier, shift = quantize_multiplier((least[at] + most[at]) / 2)
            if -31 < shift < 0 and np.array_equal(expected, np.clip(scaled_channel(
                    sums[at], np.array(multiplier), np.array(-shift)) + target.zero_point, *clamp)):
                return int(weights[at]), int(biases[at]), multiplier, -shift
    return None
