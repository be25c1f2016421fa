"""Write a `Model` as a `.tflite` file: the inverse of `reader.py`, for generated models and tests.

Nothing is verified, so that broken models can be written on purpose; only names that the schema does
not have are refused.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import flatbuffers  # type: ignore[import-untyped]  # the package ships no types
import numpy as np

from tq_hw.model.graph import Model, Operator, OptionValue, Signature, Subgraph, Tensor
from tq_hw.model.tflite.constants import pack_nibbles
from tq_hw.model.tflite.schema import (
    ENUMS,
    OPERATOR_OPTIONS,
    OPERATORS,
    OPTION_TABLES,
    OPTIONS,
    SECOND_TABLES,
    TENSOR_TYPES,
    OptionField,
)

__all__ = ["write_model"]

_ALIGNMENT_BYTES = 16
#: Types of the elements of options that are arrays.
_ARRAYS = {"int32s": "<i4", "int64s": "<i8", "float32s": "<f4", "uint8s": "u1"}


def write_model(model: Model) -> bytes:
    """Return the file contents of `model`.

    Constants that are the same array share a buffer; those of int4 tensors are packed. Raises `ValueError` for an
    operator, option, enumeration or dtype that the schema does not have.
    """
    return _Writer(model).write()


class _Writer:
    def __init__(self, model: Model):
        self.model = model
        self.builder = flatbuffers.Builder(1024)
        self.buffers: dict[tuple[int, bool], int] = {}
        self.contents: list[np.ndarray] = []
        self.codes: dict[tuple[str, int], int] = {}

    def write(self) -> bytes:
        subgraphs = [self._subgraph(subgraph) for subgraph in self.model.subgraphs]
        codes = [self._code(op, version) for op, version in self.codes]
        buffers = [self._table([]), *(self._buffer(data) for data in self.contents)]
        signatures = [self._offsets([self._signature(each) for each in self.model.signatures])
                      ] if self.model.signatures else []
        root = self._table([
            (0, "Uint32", 3), (1, None, self._offsets(codes)), (2, None, self._offsets(subgraphs)),
            (3, None, self.builder.CreateString(self.model.name)),
            (4, None, self._offsets(buffers)), *((7, None, signed) for signed in signatures),
        ])
        self.builder.Finish(root, file_identifier=b"TFL3")
        return bytes(self.builder.Output())

    def _table(self, fields: Sequence[tuple[int, str | None, int | float | bool]]) -> int:
        """Write a table of (slot, scalar type or None for an offset, value)."""
        count = max((slot for slot, _, _ in fields), default=-1) + 1
        self.builder.StartObject(count)
        for slot, kind, value in fields:
            prepend: Callable[[object], None] = getattr(
                self.builder, f"Prepend{kind or 'UOffsetTRelative'}")
            prepend(value)
            self.builder.Slot(slot)
        return int(self.builder.EndObject())

    def _offsets(self, offsets: Sequence[int]) -> int:
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def _array(self, values: Iterable[int | float], dtype: str) -> int:
        return int(self.builder.CreateNumpyVector(np.array(list(values), dtype)))

    def _buffer(self, data: np.ndarray) -> int:
        contents = np.ascontiguousarray(data).astype(data.dtype.newbyteorder("<")).tobytes()
        # TFLite maps weights straight from the file, hence the alignment.
        self.builder.Prep(_ALIGNMENT_BYTES, len(contents))
        return self._table([(0, None, self.builder.CreateByteVector(contents))])

    def _code(self, op: str, version: int) -> int:
        name, _, custom = op.partition(":")
        if name not in OPERATORS:
            raise ValueError(f"operator must be in the schema, not {op!r}")
        code = OPERATORS.index(name)
        fields: list[tuple[int, str | None, int]] = [
            (0, "Int8", min(code, 127)), (2, "Int32", version), (3, "Int32", code)]
        if custom:
            fields.append((1, None, self.builder.CreateString(custom)))
        return self._table(fields)

    def _subgraph(self, subgraph: Subgraph) -> int:
        tensors = self._offsets([self._tensor(tensor) for tensor in subgraph.tensors])
        operators = self._offsets([self._operator(each) for each in subgraph.operators])
        return self._table([
            (0, None, tensors), (1, None, self._array(subgraph.inputs, "<i4")),
            (2, None, self._array(subgraph.outputs, "<i4")), (3, None, operators),
            (4, None, self.builder.CreateString(subgraph.name)),
        ])

    def _signature(self, signature: Signature) -> int:
        def named(tensors: Mapping[str, int]) -> int:
            return self._offsets([self._table([(0, None, self.builder.CreateString(name)), (1, "Uint32", index)])
                                  for name, index in tensors.items()])

        inputs, outputs = named(signature.inputs), named(signature.outputs)
        return self._table([(0, None, inputs), (1, None, outputs), (2, None, self.builder.CreateString(signature.name)),
                            (4, "Uint32", signature.subgraph)])

    def _tensor(self, tensor: Tensor) -> int:
        if tensor.dtype not in TENSOR_TYPES:
            raise ValueError(f"dtype must be in the schema, not {tensor.dtype!r}")
        fields: list[tuple[int, str | None, int]] = [
            (0, None, self._array(tensor.shape, "<i4")),
            (1, "Int8", TENSOR_TYPES.index(tensor.dtype)), (2, "Uint32", self._index(tensor)),
            (3, None, self.builder.CreateString(tensor.name)), (5, "Bool", tensor.is_variable),
            (8, "Bool", True),
        ]
        if tensor.shape_signature:
            fields.append((7, None, self._array(tensor.shape_signature, "<i4")))
        if (quantization := tensor.quantization) is not None:
            fields.append((4, None, self._table([
                (2, None, self._array(quantization.scale, "<f4")),
                (3, None, self._array(quantization.zero_point, "<i8")),
                (6, "Int32", quantization.dimension)])))
        return self._table(fields)

    def _index(self, tensor: Tensor) -> int:
        if (data := tensor.data) is None:
            return 0
        key = id(data), tensor.dtype == "int4"
        if key not in self.buffers:
            self.contents.append(pack_nibbles(data) if tensor.dtype == "int4" else data)
            self.buffers[key] = len(self.contents)
        return self.buffers[key]

    def _operator(self, operator: Operator) -> int:
        code = self.codes.setdefault((operator.op, operator.version), len(self.codes))
        fields: list[tuple[int, str | None, int]] = [
            (0, "Uint32", code), (1, None, self._array(operator.inputs, "<i4")),
            (2, None, self._array(operator.outputs, "<i4"))]
        if operator.intermediates:
            fields.append((8, None, self._array(operator.intermediates, "<i4")))
        if operator.custom_options:
            self.builder.Prep(_ALIGNMENT_BYTES, len(operator.custom_options))
            fields.append((5, None, self.builder.CreateByteVector(operator.custom_options)))
        table = OPERATOR_OPTIONS.get(operator.op)
        if table is not None:
            fields.append((3, "Uint8", OPTION_TABLES.index(table)))
            fields.append((4, None, self._options(operator, table)))
        elif operator.op in SECOND_TABLES:
            table, number = SECOND_TABLES[operator.op]
            fields += [(11, "Uint8", number), (12, None, self._options(operator, table))]
        elif operator.options:
            raise ValueError(f"{operator.op} has no options, not {sorted(operator.options)}")
        return self._table(fields)

    def _options(self, operator: Operator, table: str) -> int:
        known = {field.name: field for field in OPTIONS.get(table, ())}
        fields = []
        for name, value in operator.options.items():
            if name not in known:
                raise ValueError(f"option of {operator.op} must be one of {sorted(known)}, "
                                 f"not {name!r}")
            fields.append(self._option(known[name], value))
        return self._table(fields)

    def _option(self, field: OptionField,
                value: OptionValue) -> tuple[int, str | None, int | float]:
        if field.kind in ENUMS:
            names = ENUMS[field.kind]
            if value not in names:
                raise ValueError(f"{field.name} must be one of {', '.join(names)}, not {value!r}")
            return field.slot, "Int8", names.index(str(value))
        if field.kind == "string":
            return field.slot, None, self.builder.CreateString(str(value))
        if field.kind in _ARRAYS and isinstance(value, tuple):
            return field.slot, None, self._array(value, _ARRAYS[field.kind])
        if isinstance(value, int | float):
            return field.slot, field.kind.capitalize(), value
        raise ValueError(f"{field.name} must be of kind {field.kind}, not {value!r}")
