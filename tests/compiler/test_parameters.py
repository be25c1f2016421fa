"""Axes, sizes, steps and the like that no kernel accepts: rejected in one message, or as in the golden model."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Model, Tensor
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.typical import TYPICAL, typical
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


def others(data: np.ndarray) -> Iterator[np.ndarray]:
    """Parameters that a converter never writes."""
    info = np.iinfo(data.dtype)
    yield np.zeros((0, *data.shape[1:]), data.dtype)
    yield data.reshape(-1)[:1].reshape(())
    yield data[None]
    yield data[..., None]
    yield -data
    yield data.astype(np.int64)
    yield np.full(data.shape, info.min, data.dtype)
    yield np.full(data.shape, info.max, data.dtype)
    if data.ndim:
        yield np.concatenate([data, data])


def parameters(model: Model) -> list[Tensor]:
    return [tensor for tensor in model.main.tensors if tensor.data is not None and tensor.data.dtype == np.int32
            and tensor.quantization is None and 0 < tensor.data.size <= 64]


def broken(model: Model, number: int, data: np.ndarray, computed: bool) -> bytes:
    tensors, inputs = list(model.main.tensors), model.main.inputs
    tensors[number] = replace(tensors[number], data=None if computed else data, shape=data.shape, dtype=data.dtype.name)
    inputs = (*inputs, number) if computed else inputs
    return write_model(replace(model, subgraphs=(replace(model.main, tensors=tuple(tensors), inputs=inputs),
                                                 *model.subgraphs[1:])))


def with_parameters() -> list[str]:
    return [op for op in TYPICAL if parameters(typical(op))]


@pytest.mark.parametrize("op", with_parameters())
def test_other_parameters(op: str) -> None:
    model, verdicts = typical(op), set()
    for tensor in parameters(model):
        assert tensor.data is not None
        for data in others(tensor.data):
            for computed in (False, True):
                try:
                    made = parse_model(broken(model, tensor.index, data, computed), op)
                    inputs = [data if index == tensor.index else np.ones(made.main.tensors[index].shape,
                                                                         made.main.tensors[index].dtype)
                              for index in made.main.inputs]
                    expected = run(made, inputs).outputs
                    program = compile_model(made, load_config("n16")).program
                except TqError as error:
                    verdicts.add(type(error).__name__)
                    continue
                for found, want in zip(execute(program, inputs).outputs, expected, strict=True):
                    np.testing.assert_array_equal(found, want, strict=True)
                verdicts.add("equal")
    assert verdicts & {"ModelError", "UnsupportedError"}


@pytest.mark.parametrize(("op", "parameters"), [
    ("PAD", [np.zeros((0, 2))]), ("MIRROR_PAD", [np.zeros((0, 2))]), ("TILE", [[]]), ("SLICE", [[], []]),
    ("STRIDED_SLICE", [[], [], []]), ("BROADCAST_TO", [[]]), ("RESHAPE", [[]]), ("SUM", [[]]), ("REDUCE_MAX", [[]])])
def test_of_a_scalar(op: str, parameters: list[object]) -> None:
    """It has no axes, so all of these leave it as it is."""
    b = ModelBuilder(op)
    constants = [b.constant(np.array(each, np.int32)) for each in parameters]
    model = parse_model(b.build(b.add(op, [b.input((), "int8", scale=0.1, zero_point=3), *constants])), op)
    program = compile_model(model, load_config("n16")).program
    for code in (-128, 3, 127):
        inputs = [np.array(code, np.int8)]
        assert run(model, inputs).outputs[0].tolist() == execute(program, inputs).outputs[0].tolist() == code
