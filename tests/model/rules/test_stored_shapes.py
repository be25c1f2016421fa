"""Shapes that a converter stored and kernels do not give: those of the kernels hold, as in LiteRT."""

from dataclasses import replace

import numpy as np
import pytest

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.engines import golden_engine
from tq_hw.sim.oracles import Oracle, available


def with_output_shape(op: str, shape: tuple[int, ...], stored: tuple[int, ...]) -> bytes:
    """Write a model of one ARG_MAX or ARG_MIN over the last axis that has another shape in the file."""
    b = ModelBuilder("m")
    model = b.model(b.add(op, [b.input(shape, scale=0.5), b.constant([-1])]))
    main, index = model.main, model.main.outputs[0]
    tensors = [replace(tensor, shape=stored) if tensor.index == index else tensor for tensor in main.tensors]
    return write_model(Model("m", (replace(main, tensors=tuple(tensors)),)))


@pytest.mark.parametrize("op", ["ARG_MAX", "ARG_MIN"])
@pytest.mark.parametrize("shape", [(1, 3, 5, 2), (2, 7)])
def test_an_argument_has_the_kernels_shape(op: str, shape: tuple[int, ...]) -> None:
    data = with_output_shape(op, shape, shape)
    model = parse_model(data, "m.tflite")
    assert model.main.tensors[model.main.outputs[0]].shape == shape[:-1]
    assert model.is_propagated
    x = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    found = golden_engine(model).infer((x,)).outputs
    np.testing.assert_array_equal(found[0], getattr(x, op.replace("_", "").lower())(axis=-1))
    if available("litert-ref"):
        with Oracle("litert-ref") as oracle:
            np.testing.assert_array_equal(found[0], oracle.run_sets(data, [(x,)])[0][0])


def test_any_other_shape_is_an_error() -> None:
    with pytest.raises(ModelError) as caught:
        parse_model(with_output_shape("ARG_MAX", (1, 3, 5, 2), (1, 3, 5, 1)), "m.tflite")
    assert str(caught.value) == ("m.tflite: subgraph 0, operator 0 ARG_MAX: output 0 has shape [1, 3, 5, 1], expected "
                                 "[1, 3, 5]")
