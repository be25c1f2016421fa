"""Read a `.tflite` file into a `Model`, verifying everything on the way.

Format rules are checked here (offsets, indices, sizes, quantization records), the order of operators
in `order.py`, the rules of single operators in `check.py`. All of them raise `ModelError` or
`UnsupportedError` before a later stage can trip over a bad file.
"""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from tq_hw.model.errors import ModelError, UnsupportedError
from tq_hw.model.graph import Model, Operator, Quantization, Subgraph, Tensor
from tq_hw.model.mixed import is_mixed
from tq_hw.model.rules.check import check_model
from tq_hw.model.rules.decided import decided
from tq_hw.model.rules.empty import without_empty_slices
from tq_hw.model.rules.fine_codes import without_fine_codes, without_infinite_codes
from tq_hw.model.rules.propagate import InputShapes, propagate_shapes
from tq_hw.model.rules.sizes import MAX_RANK, NUMPY_TYPES, too_large
from tq_hw.model.tflite.compiled_files import refuse_compiled
from tq_hw.model.tflite.constants import read_constant
from tq_hw.model.tflite.entry import enter, read_signatures
from tq_hw.model.tflite.flatbuffer import FlatBuffer, Table
from tq_hw.model.tflite.mistaken import guess_folder, guess_name
from tq_hw.model.tflite.options import read_options
from tq_hw.model.tflite.order import check_order
from tq_hw.model.tflite.schema import MAX_VERSIONS, OPERATORS, TENSOR_TYPES, operator_code
from tq_hw.model.tflite.weights import plain_weights
from tq_hw.model.tflite.zeros import MIN_SCALE, with_normal_scales

__all__ = ["parse_model", "read_model"]

_SCHEMA_VERSION = 3
_MAX_FILE_BYTES = 2**31 - 1

_INTEGER_RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767),
                   "uint16": (0, 65535), "int4": (-8, 7), "int32": (-2**31, 2**31 - 1)}


def read_model(path: str | os.PathLike[str], *, check: bool = True, rules: bool = True,
               shapes: InputShapes | None = None) -> Model:
    """Read and verify the file at `path`.

    Raises `ModelError` when the file cannot be read, breaks the format, or (unless `check` is false)
    breaks the rules of its operators; `UnsupportedError` for legal contents that nothing here can
    represent. `shapes` names the signature and the sizes of open dimensions of the inputs, by default subgraph 0 and
    those stored; `OptionError` when there is none or the inputs cannot have them. With `check`, all shapes follow from
    the inputs', and subgraphs that are not called are left out. Without `rules` operators need not keep theirs.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise ModelError(f"{path}: expected a .tflite file, found a directory{guess_folder(path)}")
        if path.exists() and not path.is_file():
            raise ModelError(f"{path}: expected a .tflite file, found a device or a pipe")
        if (size_bytes := path.stat().st_size) > _MAX_FILE_BYTES:
            raise UnsupportedError(f"{path}: the file has {size_bytes} bytes, at most "
                                   f"{_MAX_FILE_BYTES} can be read")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        reason += guess_name(path) if isinstance(error, FileNotFoundError) else ""
        raise ModelError(f"{path}: cannot read the file: {reason}") from error
    # A name that is no text in the user's locale is one in files all the same.
    return parse_model(data, os.fsencode(path.name).decode("utf-8", "backslashreplace"), check=check, rules=rules,
                       shapes=shapes)


def parse_model(data: bytes, name: str, *, check: bool = True, rules: bool = True,
                shapes: InputShapes | None = None) -> Model:
    """Read and verify a model in memory; `name` is the file name that messages use.

    Constant data are read-only views of `data`, and aligned where the file aligns them. Raises as `read_model` does.
    """
    root = FlatBuffer(data, name).root(b"TFL3", "model")
    version = root.integer(0, "version", "uint32")
    if version != _SCHEMA_VERSION:
        raise root.error(f"schema version is {version}, expected {_SCHEMA_VERSION}")
    codes = [_read_code(table) for table in root.tables(1, "operator codes", "operator code") or ()]
    buffers = [_read_buffer(table) for table in root.tables(4, "buffers", "buffer") or ()]
    tables = root.tables(2, "subgraphs", "subgraph")
    if not tables:
        raise root.error("has no subgraph")
    subgraphs = tuple(_read_subgraph(table, codes, buffers) for table in tables)
    model = Model(name.removesuffix(".tflite"), subgraphs, signatures=read_signatures(root, subgraphs))
    refuse_compiled(subgraphs, name)
    check_order(model, name)
    if check:
        model = without_infinite_codes(model)
    model = with_normal_scales(model, name)
    shapes = shapes or InputShapes()
    if check or shapes.signature:
        model = enter(model, shapes.signature, name)
    if check:
        # Subgraphs whose operators were copied are called no more.
        model = enter(decided(model), "", name)
        model = propagate_shapes(plain_weights(model), name, shapes, rules=rules)
        model = without_empty_slices(without_fine_codes(model))
        if rules and is_mixed(model):
            raise ModelError(f"{name}: has accelerated parts already; `tq-hw sim` runs it")
        if rules:
            check_model(model, name)
    return model


def _read_code(table: Table) -> tuple[str, int]:
    """Return operator name and version of an operator code."""
    code = operator_code(table.integer(0, "deprecated_builtin_code", "int8"),
                         table.integer(3, "builtin_code"))
    version = table.integer(2, "version", default=1)
    if not 0 <= code < len(OPERATORS) or OPERATORS[code].startswith("PLACEHOLDER"):
        raise table.error(f"unknown operator: builtin code {code}; the schema has codes 0 to "
                          f"{len(OPERATORS) - 1}")
    op = OPERATORS[code]
    if op == "CUSTOM":
        custom = table.string(1, "custom_code")
        if not custom:
            raise table.error("a custom operator needs a name in custom_code, it has none")
        # Messages and dumps are made of lines; a name must not add any.
        return f"CUSTOM:{custom if custom.isprintable() else repr(custom)[1:-1]}", version
    newest = MAX_VERSIONS.get(op)
    if version < 1 or (newest is not None and version > newest):
        known = f"versions 1 to {newest} are known" if newest else "versions start at 1"
        raise UnsupportedError(f"{table.file.name}: {table.place}: {op} has version {version}, "
                               f"{known}; convert the model with an older converter")
    return op, version


def _read_buffer(table: Table) -> np.ndarray | None:
    """Return the bytes of a buffer, or None when it holds nothing."""
    data = table.vector(0, "data", "uint8")
    # Files above 2 GiB keep contents after the FlatBuffer; 0 and 1 are placeholders there.
    offset = table.integer(1, "offset", "uint64")
    size_bytes = table.integer(2, "size", "uint64")
    if data is None and offset > 1:
        table.file.check(offset, size_bytes, f"{table.place}, offset")
        data = np.frombuffer(table.file.data, np.uint8, size_bytes, offset)
    return data


def _read_subgraph(table: Table, codes: list[tuple[str, int]],
                   buffers: list[np.ndarray | None]) -> Subgraph:
    tensor_tables = table.tables(0, "tensors", f"{table.place}, tensor") or ()
    operator_tables = table.tables(3, "operators", f"{table.place}, operator") or ()
    tensors = tuple(_read_tensor(entry, index, buffers)
                    for index, entry in enumerate(tensor_tables))
    count = len(tensors)
    operators = tuple(_read_operator(entry, index, codes, count)
                      for index, entry in enumerate(operator_tables))
    inputs = _read_indices(table, 1, "inputs", count)
    return Subgraph(table.string(4, "name"), _with_empty(tensors, operators, inputs), operators, inputs,
                    _read_indices(table, 2, "outputs", count))


def _with_empty(tensors: tuple[Tensor, ...], operators: tuple[Operator, ...], inputs: tuple[int, ...]
                ) -> tuple[Tensor, ...]:
    """Make constants of tensors of no elements that are read and that nothing provides: they need no buffer."""
    provided = {*inputs, *(index for operator in operators for index in operator.outputs)}
    read = {index for operator in operators for index in operator.inputs} - provided
    return tuple(replace(tensor, data=np.zeros(tensor.shape, tensor.dtype))
                 if tensor.index in read and tensor.data is None and not tensor.is_variable and 0 in tensor.shape
                 and tensor.dtype in NUMPY_TYPES else tensor for tensor in tensors)


def _read_indices(table: Table, slot: int, field: str, tensor_count: int,
                  lowest: int = 0) -> tuple[int, ...]:
    indices = table.integers(slot, field)
    for index in indices:
        if not lowest <= index < tensor_count:
            raise table.error(f"refers to tensor {index}; the subgraph has {tensor_count} tensors",
                              field)
    return indices


def _read_tensor(table: Table, index: int, buffers: list[np.ndarray | None]) -> Tensor:
    name = table.string(3, "name")
    table.place += f" {_shorten(name)!r}"
    code = table.integer(1, "type", "int8")
    if not 0 <= code < len(TENSOR_TYPES):
        raise table.error(f"tensor type {code} is unknown; the schema has types 0 to "
                          f"{len(TENSOR_TYPES) - 1}")
    dtype = TENSOR_TYPES[code]
    if table.integer(10, what := "contents in an external buffer", "uint32"):
        raise UnsupportedError(f"{table.file.name}: {table.place}: has {what}, which are not supported; convert the "
                               "model with embedded weights")
    shape = _read_shape(table, dtype)
    quantization = _read_quantization(table, dtype, shape)
    is_variable = table.boolean(5, "is_variable")
    data = read_constant(table, dtype, shape, buffers)
    if data is not None and is_variable:
        raise table.error("is a variable, but has constant contents")
    return Tensor(index, name, dtype, shape, quantization, data, is_variable, _read_signature(table, shape))


def _shorten(name: str) -> str:
    """Keep both ends of a long name."""
    return name if len(name) <= 60 else f"{name[:28]}...{name[-28:]}"


def _read_shape(table: Table, dtype: str) -> tuple[int, ...]:
    shape = table.integers(0, "shape")
    if len(shape) > MAX_RANK:
        raise table.error(f"rank is {len(shape)}, at most {MAX_RANK} dimensions are supported",
                          "shape")
    for axis, size in enumerate(shape):
        if size < 0:
            raise table.error(f"dimension {axis} is {size}, expected 0 or more; convert the model with fixed shapes",
                              "shape")
    if (found := too_large(shape, dtype)) is not None:
        raise table.error(found, "shape")
    return shape


def _read_signature(table: Table, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape with -1 at open dimensions, () when none is open."""
    signature = table.integers(7, "shape_signature")
    if -1 not in signature:
        return ()
    if len(signature) != len(shape):
        raise table.error(f"is {list(signature)} where the shape is {list(shape)}, expected as many dimensions",
                          "shape_signature")
    # Converters that merge operators leave old sizes here; those of the shape are right.
    return tuple(-1 if given == -1 else size for given, size in zip(signature, shape, strict=True))


def _read_quantization(table: Table, dtype: str, shape: tuple[int, ...]) -> Quantization | None:
    record = table.table(4, "quantization")
    if record is None:
        return None
    if details := record.integer(4, "details_type", "uint8"):
        kinds = ("none", "custom", "blockwise", "multi-axis")
        kind = kinds[details] if details < len(kinds) else f"unknown ({details})"
        raise UnsupportedError(f"{table.file.name}: {record.place}: {kind} quantization is not "
                               "supported; quantize per tensor or per axis")
    scale = record.floats(2, "scale")
    if not scale:
        return None
    zero_point = record.integers(3, "zero_point", "int64")
    dimension = record.integer(6, "quantized_dimension")
    if len(zero_point) != len(scale):
        raise record.error(f"{len(scale)} scales and {len(zero_point)} zero points, expected as "
                           f"many of both{_hint(table, scale)}")
    # A scale that is too small, or of a channel not finite, may be of zeros alone: `zeros.py` sees when all operators
    # are known.
    channels = len(scale) > 1
    least = 0.0 if dtype in ("int8", "int16") or (channels and dtype in ("int32", "int64")) else MIN_SCALE
    for value in scale:
        # `fine_codes.py` sees what is compared with a code of infinite scale.
        is_infinite = value == math.inf and dtype == "int8"
        if not (value >= least and (math.isfinite(value) or is_infinite)) and not (
                channels and least == 0 and not value < 0):
            raise record.error(f"scale is {value:g}, expected a finite normal float32 above 0")
    low, high = _INTEGER_RANGES.get(dtype, (-2**31, 2**31 - 1))
    for point in zero_point:
        if not low <= point <= high:
            raise record.error(f"zero point is {point}, expected {low} to {high} for {dtype}")
    if len(scale) == 1:
        is_axis = dimension == 0 or 0 < dimension < len(shape)
        return Quantization(scale, zero_point, stored_dimension=None if is_axis else dimension)
    if len(scale) in shape and math.prod(shape) == len(scale):
        # Converters copy the dimension of the weights to the bias, which has one axis of more than one element.
        stored, dimension = dimension, shape.index(len(scale))
        return Quantization(scale, zero_point, dimension, None if stored == dimension else stored)
    if not 0 <= dimension < len(shape):
        raise record.error(f"quantized_dimension is {dimension}, expected 0 to {len(shape) - 1} "
                           f"for shape {list(shape)}")
    if shape[dimension] != len(scale):
        raise record.error(f"{len(scale)} scales along quantized_dimension {dimension}, whose axis "
                           f"has {shape[dimension]} elements")
    return Quantization(scale, zero_point, dimension)


def _hint(table: Table, scale: tuple[float, ...]) -> str:
    many = len(scale) > 1
    return "; an activation has one scale, per-axis scales are for constant weights" if many else ""


def _read_operator(table: Table, index: int, codes: list[tuple[str, int]],
                   tensor_count: int) -> Operator:
    code = table.integer(0, "opcode_index", "uint32")
    if code >= len(codes):
        raise table.error(f"refers to operator code {code}; the file has {len(codes)}")
    op, version = codes[code]
    table.place += f" {_shorten(op)}"
    inputs = _read_indices(table, 1, "inputs", tensor_count, lowest=-1)
    outputs = _read_indices(table, 2, "outputs", tensor_count)
    intermediates = _read_indices(table, 8, "intermediates", tensor_count, lowest=-1)
    custom = table.vector(5, "custom_options", "uint8")
    if table.integer(9, what := "custom options after the FlatBuffer", "uint64") > 1:
        raise UnsupportedError(f"{table.file.name}: {table.place}: has {what}, which are not supported; make a smaller "
                               "model")
    return Operator(index, op, inputs, outputs, read_options(table, op), intermediates, version,
                    b"" if custom is None else custom.tobytes())
