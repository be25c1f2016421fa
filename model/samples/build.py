"""Build small models: `ModelBuilder` adds tensors and operators and infers output shapes.

>>> builder = ModelBuilder("conv")
>>> image = builder.input((1, 8, 8, 3), scale=0.5, zero_point=-3)
>>> weights = builder.constant(np.ones((2, 3, 3, 3), np.int8), scale=[0.1, 0.2])
>>> bias = builder.bias(image, weights, [5, -7])
>>> result = builder.add("CONV_2D", [image, weights, bias], scale=0.25, zero_point=4,
...                      padding="SAME", stride_h=2, stride_w=2)
>>> data = builder.build(result)
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tq_hw.model.graph import Model, Operator, OptionValue, Quantization, Subgraph, Tensor
from tq_hw.model.rules.node import Node
from tq_hw.model.rules.shapes import output_shapes
from tq_hw.model.tflite.schema import OPERATOR_OPTIONS, OPTIONS
from tq_hw.model.tflite.writer import write_model

__all__ = ["ModelBuilder", "build_model"]

_STRIDED = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "AVERAGE_POOL_2D", "MAX_POOL_2D")
_COMPARISONS = ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")
#: Operators whose first version is not 1.
_FIRST_VERSIONS = {"BROADCAST_TO": 2}
#: (scale, zero point) that the int8 specification fixes for an operator's output.
_FIXED = {"LOGISTIC": (1 / 256, -128), "SOFTMAX": (1 / 256, -128), "TANH": (1 / 128, 0),
          "L2_NORMALIZATION": (1 / 128, 0), "LOG_SOFTMAX": (16 / 256, 127)}


def build_model(tensors: Sequence[Tensor], operators: Sequence[Operator], inputs: Sequence[int],
                outputs: Sequence[int], name: str = "built") -> bytes:
    """Return the file contents of a model of one subgraph, unverified."""
    subgraph = Subgraph("main", tuple(tensors), tuple(operators), tuple(inputs), tuple(outputs))
    return write_model(Model(name, (subgraph,)))


class ModelBuilder:
    """Collect the tensors and operators of one subgraph.

    Methods that add a tensor return its index, which is what operators take.

    Parameters
    ----------
    name : name of the model
    """

    def __init__(self, name: str = "built"):
        self.name = name
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.inputs: list[int] = []

    def tensor(self, shape: Sequence[int], dtype: str = "int8", *,
               scale: float | Sequence[float] | None = None,
               zero_point: int | Sequence[int] = 0, dimension: int = 0, name: str | None = None,
               data: np.ndarray | None = None, is_variable: bool = False) -> int:
        """Add any tensor; one zero point serves all scales."""
        index = len(self.tensors)
        quantization = None
        if scale is not None:
            scales = tuple(np.atleast_1d(scale).astype(np.float32).tolist())
            points = tuple(int(value) for value in np.atleast_1d(zero_point))
            points *= len(scales) if len(points) == 1 else 1
            quantization = Quantization(scales, points, dimension)
        self.tensors.append(Tensor(index, name or f"t{index}", dtype, tuple(map(int, shape)),
                                   quantization, data, is_variable))
        return index

    def input(self, shape: Sequence[int], dtype: str = "int8", *, scale: float | None = None,
              zero_point: int = 0, name: str | None = None) -> int:
        """Add an input of the model."""
        index = self.tensor(shape, dtype, scale=scale, zero_point=zero_point, name=name)
        self.inputs.append(index)
        return index

    def constant(self, data: np.ndarray | Sequence[int] | Sequence[Sequence[int]] | int, *,
                 scale: float | Sequence[float] | None = None,
                 zero_point: int | Sequence[int] = 0, dimension: int = 0,
                 name: str | None = None) -> int:
        """Add a constant; plain lists become int32."""
        array = data if isinstance(data, np.ndarray) else np.array(data, np.int32)
        return self.tensor(array.shape, array.dtype.name, scale=scale, zero_point=zero_point,
                           dimension=dimension, name=name, data=array)

    def bias(self, source: int, weights: int, data: np.ndarray | Sequence[int],
             name: str | None = None) -> int:
        """Add a bias, int64 for an int16 input, whose scales are the input's times those of the weights."""
        quantization = self.tensors[weights].quantization
        if quantization is None:
            raise ValueError(f"tensor {weights} must have scales to give a bias")
        scales = np.float32(self.tensors[source].scale) * np.array(quantization.scale, np.float32)
        kind = np.int64 if self.tensors[source].dtype == "int16" else np.int32
        return self.constant(np.asarray(data, kind), scale=scales.tolist(), name=name)

    def operator(self, op: str, inputs: Sequence[int], outputs: Sequence[int],
                 options: dict[str, OptionValue] | None = None, *, version: int = 1,
                 intermediates: Sequence[int] = ()) -> None:
        """Add an operator exactly as given."""
        self.operators.append(Operator(len(self.operators), op, tuple(inputs), tuple(outputs),
                                       dict(options or {}), tuple(intermediates), version))

    def add(self, op: str, inputs: Sequence[int], *, scale: float | None = None,
            zero_point: int | None = None, dtype: str | None = None,
            shape: Sequence[int] | None = None, options: Mapping[str, OptionValue] | None = None,
            **named: OptionValue) -> int:
        """Add an operator of one output and return that output.

        Shape, dtype and quantization are inferred where they are not given: from the shape rules,
        from the first data input (int8 for QUANTIZE), and from the values that the specification
        fixes, else from the first data input. Strides, and a pool's filter, are 1 and SOFTMAX's
        beta is 1 unless given. `-1` is an absent input. Options come by name, in `options`, or both.
        Raises `ModelError` when shapes disagree.
        """
        return self.add_many(op, inputs, 1, scale=scale, zero_point=zero_point, dtype=dtype,
                             shapes=None if shape is None else [shape], options={**(options or {}), **named})[0]

    def add_many(self, op: str, inputs: Sequence[int], output_count: int, *,
                 scale: float | None = None, zero_point: int | None = None,
                 dtype: str | None = None, shapes: Sequence[Sequence[int]] | None = None,
                 options: Mapping[str, OptionValue] | None = None) -> list[int]:
        """Add an operator of `output_count` outputs (SPLIT, SPLIT_V, UNPACK, TOPK_V2) and return them."""
        complete = self._defaults(op, inputs, output_count) | dict(options or {})
        source = self.tensors[inputs[_data_position(op)]] if inputs else None
        first = len(self.tensors)
        operator = Operator(len(self.operators), op, tuple(inputs),
                            tuple(range(first, first + output_count)), complete, version=_FIRST_VERSIONS.get(op, 1))
        if shapes is None:
            node = Node(operator, self.tensors, f"{self.name}, operator {operator.index} {op}")
            shapes = output_shapes(node)
        if shapes is None:
            raise ValueError(f"the output shape of {op} must be given, it cannot be inferred")
        dtype = dtype or _output_dtype(op, source.dtype if source else "resource", complete)
        quantization = None
        if dtype in ("int8", "uint8", "int16"):
            quantization = self._quantization(op, source, scale, zero_point)
        for number, each in enumerate(shapes):
            # The places that TOPK_V2 gives have no scale.
            codes = not number or op != "TOPK_V2"
            self.tensor(each, dtype if codes else "int32", scale=quantization[0] if quantization and codes else None,
                        zero_point=quantization[1] if quantization and codes else 0)
        self.operators.append(operator)
        return list(operator.outputs)

    def _defaults(self, op: str, inputs: Sequence[int],
                  output_count: int) -> dict[str, OptionValue]:
        known = OPTIONS.get(OPERATOR_OPTIONS.get(op, ""), ())
        options: dict[str, OptionValue] = {field.name: field.default for field in known}
        if op in _STRIDED:
            options |= {name: 1 for name in options
                        if name.startswith(("stride_", "filter_", "depth_multiplier"))}
        if op == "DEPTHWISE_CONV_2D":
            source, weights = (self.tensors[index].shape for index in inputs[:2])
            options["depth_multiplier"] = max(weights[-1] // max(source[-1], 1), 1)
        given: dict[str, OptionValue] = {"beta": 1.0, "values_count": len(inputs),
                                         "num_splits": output_count, "num": output_count}
        return {name: given.get(name, value) for name, value in options.items()}

    def _quantization(self, op: str, source: Tensor | None, scale: float | None,
                      zero_point: int | None) -> tuple[float, int] | None:
        if scale is not None:
            return scale, zero_point or 0
        if op in _FIXED:
            sixteen = source is not None and source.dtype == "int16"
            return (2.0**-15, 0) if sixteen else _FIXED[op]
        return (source.scale, source.zero_point) if source and source.quantization is not None else None

    def model(self, *outputs: int) -> Model:
        """Return the model with these outputs, unverified."""
        subgraph = Subgraph("main", tuple(self.tensors), tuple(self.operators), tuple(self.inputs),
                            outputs)
        return Model(self.name, (subgraph,))

    def build(self, *outputs: int) -> bytes:
        """Return the file contents of the model with these outputs, unverified."""
        return write_model(self.model(*outputs))


def _data_position(op: str) -> int:
    """Return the position of the input that gives dtype and quantization."""
    if op in ("SPLIT", "EMBEDDING_LOOKUP", "SELECT", "SELECT_V2", "SCATTER_ND", "FILL"):
        return 1
    return 2 if op in ("TRANSPOSE_CONV", "ONE_HOT", "SPARSE_TO_DENSE") else 0


def _output_dtype(op: str, source: str, options: dict[str, OptionValue]) -> str:
    if op in _COMPARISONS:
        return "bool"
    if op in ("ARG_MAX", "ARG_MIN", "SHAPE"):
        dtype = str(options["out_type" if op == "SHAPE" else "output_type"])
        # The schema's default is float32, which neither operator gives.
        options["out_type" if op == "SHAPE" else "output_type"] = dtype = (
            "int32" if dtype == "float32" else dtype)
        return dtype
    if op == "CAST":
        return str(options["out_data_type"])
    return {"QUANTIZE": "int8", "DEQUANTIZE": "float32"}.get(op, source)
