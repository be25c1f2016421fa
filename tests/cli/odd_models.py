"""Small unusual models by name: without tensors, outputs, layers or effect, or with several subgraphs."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tq_hw.model.graph import Model, Operator, Subgraph, Tensor
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.writer import write_model

__all__ = ["ODD_MODELS"]


def _image(b: ModelBuilder, name: str = "image") -> int:
    return b.input((1, 4, 5, 3), scale=0.5, zero_point=-3, name=name)


def _conv(b: ModelBuilder, x: int) -> int:
    weights = b.constant(np.arange(-6, 6).reshape(4, 1, 1, 3).astype(np.int8), scale=0.02)
    return b.add("CONV_2D", [x, weights, b.bias(x, weights, [1, 2, 3, 4])], scale=0.1, padding="SAME")


def _variable(b: ModelBuilder, reads: bool) -> list[int]:
    """CALL_ONCE without tensors, and ASSIGN_VARIABLE without outputs."""
    x = _image(b)
    handle = b.tensor((), "resource")
    b.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    b.operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": "best"})
    result = x
    if reads:
        best, result = (b.tensor((1, 4, 5, 3), scale=0.5, zero_point=-3) for _ in range(2))
        b.operator("READ_VARIABLE", [handle], [best])
        b.operator("MAXIMUM", [best, x], [result])
    b.operator("ASSIGN_VARIABLE", [handle, result], [])
    return [result]


def _with_initializer(b: ModelBuilder, outputs: list[int]) -> bytes:
    main = b.model(*outputs).main
    contents = np.full((1, 4, 5, 3), -5, np.int8)
    tensors = (Tensor(0, "handle", "resource", ()),
               Tensor(1, "first", "int8", (1, 4, 5, 3), main.tensors[0].quantization, contents))
    once = Subgraph("once", tensors, (
        Operator(0, "VAR_HANDLE", (), (0,), {"container": "", "shared_name": "best"}),
        Operator(1, "ASSIGN_VARIABLE", (0, 1), ())), (), ())
    return write_model(Model(b.name, (main, once)))


def _call_once() -> bytes:
    b = ModelBuilder("call_once")
    return _with_initializer(b, _variable(b, reads=True))


def _only_assigns() -> bytes:
    b = ModelBuilder("only_assigns")
    return _with_initializer(b, _variable(b, reads=False))


def _initializer_alone() -> bytes:
    b = ModelBuilder("initializer_alone")
    x = _image(b)
    b.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    return _with_initializer(b, [_conv(b, x)])


def _unused_subgraph() -> bytes:
    b = ModelBuilder("unused_subgraph")
    main = b.model(_conv(b, _image(b))).main
    return write_model(Model(b.name, (main, main)))


def _dead_operators() -> bytes:
    b = ModelBuilder("dead_operators")
    x = _image(b)
    _conv(b, x)
    b.add("RESHAPE", [x, b.constant([20, 3])], shape=(20, 3))
    result = _conv(b, x)
    b.add("LOGISTIC", [result])
    return b.build(result)


def _input_is_output() -> bytes:
    b = ModelBuilder("input_is_output")
    return b.build(_image(b))


def _swapped() -> bytes:
    b = ModelBuilder("swapped")
    first, second = _image(b), _image(b, "other")
    return b.build(second, first, second)


def _view() -> bytes:
    b = ModelBuilder("view")
    return b.build(b.add("RESHAPE", [_image(b), b.constant([60])], shape=(60,)))


def _float_through() -> bytes:
    b = ModelBuilder("float_through")
    x = b.add("QUANTIZE", [b.input((2, 3), "float32", name="x")], scale=0.1, zero_point=3)
    return b.build(b.add("DEQUANTIZE", [x]))


def _no_input() -> bytes:
    b = ModelBuilder("no_input")
    x = b.constant(np.arange(60).reshape(1, 4, 5, 3).astype(np.int8), scale=0.5)
    return b.build(_conv(b, x))


def _constant_output() -> bytes:
    b = ModelBuilder("constant_output")
    x = _image(b)
    return b.build(b.constant(np.arange(7).astype(np.int8), scale=0.5), _conv(b, x))


def _shape_alone() -> bytes:
    b = ModelBuilder("shape_alone")
    return b.build(b.add("SHAPE", [_image(b)], out_type="int32"))


def _unread_input() -> bytes:
    b = ModelBuilder("unread_input")
    x = _image(b)
    _image(b, "unread")
    return b.build(_conv(b, x))


def _unread_floats() -> bytes:
    """Float inputs that are not read, such as an unused mask; of one only the shape is used."""
    b = ModelBuilder("unread_floats")
    b.input((2, 7), "float32", name="mask")
    b.input((), "float32", name="temperature")
    shape = b.add("SHAPE", [b.input((3, 1, 2), "float32", name="like")], out_type="int32")
    return b.build(_conv(b, _image(b)), shape)


def _one_output_twice() -> bytes:
    b = ModelBuilder("one_output_twice")
    result = _conv(b, _image(b))
    return b.build(result, result)


def _absent_input() -> bytes:
    b = ModelBuilder("absent_input")
    x = b.input((2, 6), scale=0.1)
    weights = b.constant(np.ones((3, 6), np.int8), scale=0.1)
    return b.build(b.add("FULLY_CONNECTED", [x, weights, -1], scale=0.1))


def _names() -> bytes:
    b = ModelBuilder("names")
    x = _image(b, "größe/图像 \U0001f600")
    first, second = b.add("LOGISTIC", [x]), _conv(b, x)
    for index, name in ((first, "a\nb\x1b[31m"), (second, "größe/图像 \U0001f600")):
        b.tensors[index] = replace(b.tensors[index], name=name)
    return b.build(first, second)


def _scalar() -> bytes:
    b = ModelBuilder("scalar")
    x = b.input((), scale=0.1)
    return b.build(b.add("ADD", [x, b.constant(np.array(3, np.int8), scale=0.1)], scale=0.2))


_MAKERS: tuple[Callable[[], bytes], ...] = (
    _call_once, _only_assigns, _initializer_alone, _unused_subgraph, _dead_operators, _input_is_output, _swapped, _view,
    _float_through, _no_input, _constant_output, _shape_alone, _unread_input, _unread_floats, _one_output_twice,
    _absent_input, _names, _scalar)
ODD_MODELS: dict[str, Callable[[], bytes]] = {make.__name__[1:]: make for make in _MAKERS}
