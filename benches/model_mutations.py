"""Broken models: random changes to scalars that the reader reads, or to records of the graph."""

import struct
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from findings import Rng

from tq_hw.model.errors import TqError
from tq_hw.model.graph import Model, Operator, OptionValue, Quantization, Subgraph, Tensor
from tq_hw.model.rules.node import Node
from tq_hw.model.rules.shapes import output_shapes
from tq_hw.model.tflite import flatbuffer
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.schema import ENUMS, OPERATORS, OPTIONS
from tq_hw.model.tflite.writer import write_model

__all__ = ["Sites", "mutate_bytes", "mutate_graph", "sites_of"]

#: (offset, struct format) of the scalars that the reader reads.
Sites = list[tuple[int, str]]

_FORMATS = {"bool": "B", "int8": "b", "uint8": "B", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
            "uint64": "Q", "float32": "f"}
_BOUNDARIES = (0, 1, 2, 3, 4, 7, 8, 127, 128, 255, 256, 32767, 65535, 65536, 2**20, 2**31 - 1, 2**31, 2**32 - 1, -1, -2,
               -128, -2**31, 2**63 - 1)
_FLOATS = (0.0, -1.0, 1.0, 1e-45, 1e-38, 1e38, float("inf"), float("nan"), 0.5, 2.0**-31, 2.0**31)
_DTYPES = ("int8", "int8", "uint8", "int16", "int32", "int64", "bool", "float32", "resource")
_SIZES = (0, 1, 1, 2, 3, 5, 16, 17, 255, 256, 257, 1000, 4097, 65536, 100000)


def sites_of(data: bytes) -> Sites:
    """Return every scalar that is read while a valid model is parsed."""
    found: dict[int, str] = {}
    read = flatbuffer.FlatBuffer.scalar

    def scalar(file: flatbuffer.FlatBuffer, kind: str, offset: int, place: str) -> int | float:
        found[offset] = _FORMATS[kind]
        if kind == "uint16":
            # A vtable. Only its size is read here; its entries are read without this method.
            size = struct.unpack_from("<H", data, offset)[0]
            found.update(dict.fromkeys(range(offset, min(offset + size, len(data) - 1), 2), "H"))
        return read(file, kind, offset, place)
    with mock.patch.object(flatbuffer.FlatBuffer, "scalar", scalar):
        parse_model(data, "seed")
    return sorted(found.items())


def _scalar(rng: Rng, form: str, old: Any) -> bytes:
    if form == "f":
        return struct.pack("<f", float(rng.choice(_FLOATS)) if rng.random() < 0.7 else float(old) * 2.0)
    bits = 8 * struct.calcsize(form)
    choice = rng.random()
    value = int(_BOUNDARIES[int(rng.integers(len(_BOUNDARIES)))]) if choice < 0.6 else (
        int(old) + int(rng.integers(-8, 9)) if choice < 0.9 else int(rng.integers(0, 2**min(bits, 62))))
    return (value & (1 << bits) - 1).to_bytes(bits // 8, "little")


def mutate_bytes(rng: Rng, data: bytes, sites: Sites) -> bytes:
    """Change one to four scalars that the reader reads; occasionally any bytes, or the length."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        offset, form = sites[int(rng.integers(len(sites)))]
        size = struct.calcsize(form)
        if rng.random() < 0.2:
            other = sites[int(rng.integers(len(sites)))][0]
            out[offset:offset + size] = data[other:other + size].ljust(size, b"\0")
        else:
            out[offset:offset + size] = _scalar(rng, form, struct.unpack_from("<" + form, data, offset)[0])
    if rng.random() < 0.1:
        at = int(rng.integers(len(out)))
        out[at:at + 4] = rng.integers(0, 256, 4, dtype=np.uint8).tobytes()
    if rng.random() < 0.05:
        del out[int(rng.integers(len(out))):]
    if rng.random() < 0.05:
        at = int(rng.integers(len(out) + 1))
        out[at:at] = rng.integers(0, 256, int(rng.integers(1, 9)), dtype=np.uint8).tobytes()
    return bytes(out)


def _shape(rng: Rng, shape: tuple[int, ...]) -> tuple[int, ...]:
    dims = list(shape)
    if dims and rng.random() < 0.7:
        dims[int(rng.integers(len(dims)))] = int(rng.choice(_SIZES))
    elif rng.random() < 0.5:
        dims.insert(int(rng.integers(len(dims) + 1)), int(rng.choice((1, 1, 2))))
    elif dims:
        del dims[int(rng.integers(len(dims)))]
    return tuple(dims)


def _quantization(rng: Rng, old: Quantization | None) -> Quantization | None:
    if rng.random() < 0.15:
        return None
    count = 1 if old is None or rng.random() < 0.1 else len(old.scale)
    scales = (0.1,) * count if old is None else old.scale[:count]
    factor = float(rng.choice((1.0, 0.5, 1e-6, 1e6, 1e-30, 1e30, 3.0)))
    points = (int(rng.choice((0, 0, -128, 127, 1, 300))),) * count
    with np.errstate(over="ignore"):
        scales = tuple(float(np.float32(scale * factor)) for scale in scales)
    return Quantization(scales, points, int(rng.choice((0, 0, 1, 3))))


def _contents(rng: Rng, data: np.ndarray) -> np.ndarray:
    out = data.copy().reshape(-1)
    if out.size and out.dtype.kind in "iu":
        for _ in range(int(rng.integers(1, 3))):
            low, high = max(np.iinfo(out.dtype).min, -2**31), min(np.iinfo(out.dtype).max, 2**31 - 1)
            value = int(rng.choice((-2, -1, 0, 1, 2, 3, 5, 255, 2**16, low, high)))
            out[int(rng.integers(out.size))] = min(max(value, low), high)
    return out.reshape(data.shape)


def _tensor(rng: Rng, tensor: Tensor) -> Tensor:
    choice = rng.random()
    if choice < 0.35:
        shape = _shape(rng, tensor.shape)
        data = tensor.data
        if data is not None and rng.random() < 0.8:
            data = np.resize(data, shape) if int(np.prod(shape)) <= 1 << 16 else None
        return replace(tensor, shape=shape, data=data)
    if choice < 0.5:
        return replace(tensor, dtype=str(rng.choice(_DTYPES)))
    if choice < 0.75:
        return replace(tensor, quantization=_quantization(rng, tensor.quantization))
    if choice < 0.95 and tensor.data is not None:
        return replace(tensor, data=_contents(rng, tensor.data))
    return replace(tensor, data=None if rng.random() < 0.7 else tensor.data, is_variable=bool(rng.random() < 0.3))


def _option(rng: Rng, name: str, value: OptionValue) -> OptionValue:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        names = next((names for names in ENUMS.values() if value in names), (value,))
        return str(rng.choice(list(names)))
    if isinstance(value, tuple):
        return tuple(int(size) for size in rng.integers(-3, 6, int(rng.integers(0, 5))))
    if isinstance(value, float):
        return float(np.float32(rng.choice((0.0, -1.0, 1e-30, 1e30, 0.5))))
    return int(rng.choice((0, 1, -1, 2, 3, 7, 255, 256, 2**15, 2**31 - 1)))


def _operator(rng: Rng, operator: Operator, tensors: int) -> Operator:
    choice = rng.random()
    if choice < 0.45 and operator.options:
        name = str(rng.choice(sorted(operator.options)))
        return replace(operator, options={**operator.options, name: _option(rng, name, operator.options[name])})
    if choice < 0.6:
        op = str(rng.choice([op for op in OPERATORS if not op.startswith(("PLACEHOLDER", "CUSTOM"))]))
        return replace(operator, op=op, options={} if rng.random() < 0.5 else operator.options)
    side = "inputs" if choice < 0.85 else "outputs"
    indices = list(getattr(operator, side))
    if indices and rng.random() < 0.6:
        indices[int(rng.integers(len(indices)))] = int(rng.integers(-1 if side == "inputs" else 0, tensors))
    elif indices and rng.random() < 0.5:
        del indices[int(rng.integers(len(indices)))]
    else:
        indices.append(int(rng.integers(0, tensors)))
    return replace(operator, **{side: tuple(indices)})  # type: ignore[arg-type]  # one of two tuples of int


def _settled(subgraph: Subgraph) -> Subgraph:
    """Set the output shapes of operators to those that follow from their inputs, as far as there are any."""
    tensors = list(subgraph.tensors)
    for operator in subgraph.operators:
        try:
            shapes = output_shapes(Node(operator, tensors, "fuzz")) or []
        except TqError:
            return subgraph
        for index, shape in zip(operator.outputs, shapes, strict=False):
            tensors[index] = replace(tensors[index], shape=shape)
    return replace(subgraph, tensors=tuple(tensors))


def mutate_graph(rng: Rng, model: Model) -> bytes:
    """Change one to three records of a model. In half of the cases later shapes are adapted.

    Returns b"" if the writer cannot represent the result.
    """
    subgraph = model.main
    for _ in range(int(rng.integers(1, 4))):
        tensors, operators = list(subgraph.tensors), list(subgraph.operators)
        if rng.random() < 0.6 or not operators:
            at = int(rng.integers(len(tensors)))
            tensors[at] = _tensor(rng, tensors[at])
        elif rng.random() < 0.9:
            at = int(rng.integers(len(operators)))
            operators[at] = _operator(rng, operators[at], len(tensors))
        else:
            operators.reverse()
        subgraph = replace(subgraph, tensors=tuple(tensors), operators=tuple(operators))
        if rng.random() < 0.1:
            subgraph = replace(subgraph, outputs=(int(rng.integers(len(tensors))),))
    try:
        if rng.random() < 0.5:
            subgraph = _settled(subgraph)
        known = {name for options in OPTIONS.values() for name in (field.name for field in options)}
        assert all(name in known for op in subgraph.operators for name in op.options)
        return write_model(Model(model.name, (subgraph, *model.subgraphs[1:])))
    except (ValueError, KeyError, struct.error, TypeError, OverflowError, IndexError):
        return b""
