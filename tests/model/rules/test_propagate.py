"""Models with open dimensions: shapes follow from the inputs, and arithmetic on shapes becomes constants."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.memory import Memory
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.errors import ModelError, OptionError, TqError, UnsupportedError
from tq_hw.model.graph import Model, Signature
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.rules.shape_values import ELEMENT_LIMIT
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.open_shapes import left_open, open_network
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.engines import golden_engine, make_engine
from tq_hw.sim.oracles import Oracle, available

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))
from fuzz_models import check_one
from model_mutations import mutate_bytes, mutate_graph, sites_of

#: Operators with which converters compute shapes; none of them is left.
_ARITHMETIC = {"SHAPE", "STRIDED_SLICE", "PACK", "GATHER", "CONCATENATION", "REDUCE_PROD", "FLOOR_DIV", "EXPAND_DIMS",
               "FILL"}


def drawn(model: Model, seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    shapes = [model.main.tensors[index].shape for index in model.main.inputs]
    return tuple(rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes)


def propagated(model: Model, batch: int | None = None, **named: tuple[int, ...]) -> Model:
    return parse_model(write_model(model), "m.tflite", shapes=InputShapes(batch, named))


@pytest.mark.parametrize("seed", range(8))
def test_random_networks_have_the_shapes_of_their_batch(seed: int) -> None:
    """The networks differ in their reshapes; for a given batch they equal those built for it."""
    batch = 1 + seed % 4
    model = propagated(left_open(lambda size: open_network(seed, size)), batch)
    built = open_network(seed, batch).main
    assert [tensor.shape for tensor in model.main.tensors] == [tensor.shape for tensor in built.tensors]
    assert not _ARITHMETIC & {op.op for op in model.main.operators}
    assert all(op.op == built.operators[op.index].op for op in model.main.operators)
    assert model.is_propagated and not any(tensor.shape_signature for tensor in model.main.tensors)
    # When written again, it is a model without open dimensions, and the same one.
    again = parse_model(write_model(model), "open.tflite")
    assert not again.is_propagated
    inputs = drawn(model, seed)
    for found, wanted in zip(golden_engine(model).infer(inputs).outputs, golden_engine(again).infer(inputs).outputs,
                             strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", range(3))
def test_random_networks_run(seed: int) -> None:
    model = propagated(left_open(lambda size: open_network(seed, size)), 3)
    inputs = drawn(model, seed)
    compiled = compile_model(model, load_config("n8"))
    found = make_engine("executor", model, compiled.program, Memory()).infer(inputs).outputs
    for one, other in zip(found, golden_engine(model).infer(inputs).outputs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("engine", ["litert-ref", "tflm"])
def test_random_networks_equal_the_public_engines(engine: str) -> None:
    if not available(engine):
        pytest.skip("the engine is not installed")
    with Oracle(engine) as oracle:
        for seed in range(4):
            opened = left_open(lambda size, seed=seed: open_network(seed, size))
            model = propagated(opened, 3).under("tflm" if engine == "tflm" else "litert")
            inputs = drawn(model, seed)
            # LiteRT propagates shapes from the inputs itself; TFLite Micro uses those of the file.
            found = oracle.run(write_model(model if engine == "tflm" else opened), list(inputs))
            for one, other in zip(found, golden_engine(model).infer(inputs).outputs, strict=True):
                np.testing.assert_array_equal(one, other)


def test_stored_shapes_that_hold_give_the_same_program() -> None:
    """An open model at batch 1 gives the same bytes as the model that was exported with batch 1."""
    def pooled(batch: int) -> Model:
        b = ModelBuilder("m")
        x = b.input((batch, 6, 6, 4), scale=0.5)
        weights = b.constant(np.ones((3, 3, 3, 4), np.int8), scale=[0.1] * 3)
        x = b.add("CONV_2D", [x, weights, b.bias(x, weights, [1, 2, 3])], scale=0.7)
        return b.model(b.add("MAX_POOL_2D", [x], filter_height=2, filter_width=2))

    config = load_config("n8")
    fixed = replace(parse_model(write_model(pooled(1)), "m"), name="m")
    programs = [to_bytes(compile_model(model, config).program) for model in (fixed, propagated(left_open(pooled)))]
    assert programs[0] == programs[1]


def dilated(*, twin: tuple[int, ...]) -> Model:
    """The moves of a dilated convolution, with an open batch, and a QUANTIZE with stored output shape `twin`."""
    def build(batch: int) -> Model:
        b = ModelBuilder("m")
        x = b.input((batch, 6, 6, 4), scale=0.5)
        blocks, pads = b.constant([2, 2]), b.constant(np.zeros((2, 2), np.int32))
        x = b.add("SPACE_TO_BATCH_ND", [x, blocks, pads], shape=(4 * batch, 3, 3, 4))
        x = b.add("QUANTIZE", [x], scale=0.7, shape=(4 * batch, 3, 3, 4))
        return b.model(b.add("BATCH_TO_SPACE_ND", [x, blocks, pads], shape=(batch, 6, 6, 4)))

    opened = left_open(build)
    tensors = [replace(tensor, shape=twin, shape_signature=()) if index == 4 else tensor
               for index, tensor in enumerate(opened.main.tensors)]
    return replace(opened, subgraphs=(replace(opened.main, tensors=tuple(tensors)),))


@pytest.mark.parametrize("batch", [1, 2])
def test_stored_shapes_without_a_signature_are_hints(batch: int) -> None:
    """As ai-edge-quantizer stores them: open sizes are 1."""
    model = propagated(dilated(twin=(1, 3, 3, 4)), batch)
    assert [tensor.shape for tensor in model.main.tensors[3:]] == [(4 * batch, 3, 3, 4)] * 2 + [(batch, 6, 6, 4)]


def test_stored_shapes_without_a_signature_contradict() -> None:
    with pytest.raises(ModelError) as error:
        propagated(dilated(twin=(1, 3, 2, 4)))
    assert str(error.value) == ("m.tflite: subgraph 0, operator 1 QUANTIZE: output tensor 4 't4' has shape "
                                "[1, 3, 2, 4], where -1 is open, expected [4, 3, 3, 4]")


def batched(op: str = "SOFTMAX") -> Model:
    """A model with an open batch of rows; the second input is fixed."""
    def build(batch: int) -> Model:
        b = ModelBuilder("m")
        x, y = b.input((batch, 4), scale=0.5, name="x"), b.input((1, 4), scale=0.5, name="y")
        return b.model(b.add(op, [x], shape=(batch, 4)), b.add("ADD", [x, y]))
    return left_open(build)


@pytest.mark.parametrize("shapes, message", [
    (InputShapes(named={"z": (1, 4)}),
     "m.tflite: --shape z: there is no such input; inputs are 'x' [-1, 4], 'y' [1, 4]"),
    (InputShapes(named={"x": (2, 5)}), "m.tflite: --shape x=2,5 does not fit the input's [-1, 4]; -1 is open"),
    (InputShapes(named={"x": (2,)}), "m.tflite: --shape x=2 does not fit the input's [-1, 4]; -1 is open"),
    (InputShapes(named={"x": (-2, 4)}), "m.tflite: --shape x=-2,4 does not fit the input's [-1, 4]; -1 is open"),
    (InputShapes(named={"y": (2, 4)}), "m.tflite: --shape y=2,4 does not fit the input's [1, 4]; -1 is open"),
    (InputShapes(3, {"x": (5, 4)}), "m.tflite: --batch 3 and --shape x=5,4 contradict each other in the first "
     "dimension; leave one of them out, or give both the same size"),
    (InputShapes(2**31 - 1), "m.tflite: input 'x': [2147483647, 4] of int8 is too large: its size is 8589934588 bytes, "
     "at most 2147483647 fit"),
])
def test_requested_shapes_that_inputs_cannot_have(shapes: InputShapes, message: str) -> None:
    with pytest.raises(OptionError) as error:
        parse_model(write_model(batched()), "m.tflite", shapes=shapes)
    assert str(error.value) == message


def test_a_named_shape_agrees_with_the_batch() -> None:
    """That of an input with a fixed first dimension is no part of it."""
    for named in ({"x": (5, 4)}, {"x": (5, 4), "y": (1, 4)}):
        model = propagated(batched(), 5, **named)
        assert [tensor.shape for tensor in model.main.tensors] == [(5, 4), (1, 4), (5, 4), (5, 4)]


def signed(**named: int) -> Model:
    """The model of `batched`, whose signatures each give one input the name `keras_tensor`."""
    return replace(batched(), signatures=tuple(Signature(name, 0, {"keras_tensor": index}, {})
                                               for name, index in named.items()))


def test_inputs_have_the_names_of_the_signature_too() -> None:
    for name in ("x", "keras_tensor"):
        assert propagated(signed(first=0, second=1), **{name: (5, 4)}).main.tensors[0].shape == (5, 4)


def test_of_two_signatures_the_wanted_one_names_the_inputs() -> None:
    data = write_model(signed(first=0, second=1))
    found = parse_model(data, "m.tflite", shapes=InputShapes(None, {"keras_tensor": (5, 4)}, "first"))
    assert found.main.tensors[0].shape == (5, 4)
    with pytest.raises(OptionError) as error:
        parse_model(data, "m.tflite", shapes=InputShapes(None, {"keras_tensor": (5, 4)}, "second"))
    assert str(error.value) == "m.tflite: --shape y=5,4 does not fit the input's [1, 4]; -1 is open"


def test_an_input_that_is_named_in_two_ways() -> None:
    with pytest.raises(OptionError) as error:
        propagated(signed(first=0), x=(5, 4), keras_tensor=(5, 4))
    assert str(error.value) == "m.tflite: --shape keras_tensor: 'x' is the same input, which is named twice"


def test_a_model_without_open_dimensions_has_its_shapes() -> None:
    fixed = open_network(0, 1)
    assert not parse_model(write_model(batched()), "m").main.tensors[0].shape_signature
    for wish, option in ((InputShapes(2), "--batch 2"), (InputShapes(named={"image": (1, 2)}), "--shape image")):
        with pytest.raises(OptionError) as error:
            parse_model(write_model(fixed), "m.tflite", shapes=wish)
        shape = list(fixed.main.tensors[0].shape)
        assert str(error.value) == (f"m.tflite: {option} sizes open dimensions, but all dimensions of the inputs are "
                                    f"fixed: 'image' {shape}; export the model with an open batch")


def test_no_input_with_an_open_batch() -> None:
    def build(width: int) -> Model:
        b = ModelBuilder("m")
        return b.model(b.add("SOFTMAX", [b.input((1, width), scale=0.5, name="x")]))

    with pytest.raises(OptionError) as error:
        propagated(left_open(build), 2)
    assert str(error.value) == ("m.tflite: --batch 2: the first dimension of no input is open; inputs are "
                                "'x' [1, -1]")
    assert propagated(left_open(build), x=(1, 9)).main.tensors[1].shape == (1, 9)


def broken(*, rows: int = 4, op: str = "RESHAPE", computed: bool = False) -> Model:
    """An open model in which one operator contradicts the others."""
    def build(batch: int) -> Model:
        b = ModelBuilder("m")
        x = b.input((batch, 4), scale=0.5, name="x")
        target = b.input((2,), "int32", name="target") if computed else b.constant([-1, rows])
        return b.model(b.add(op, [x, target], shape=(batch, 4)))
    return left_open(build)


@pytest.mark.parametrize("model, kind, message", [
    (broken(rows=3), ModelError, "m.tflite: subgraph 0, operator 0 RESHAPE: cannot reshape 8 elements [2, 4] into "
     "[-1, 3]"),
    (broken(rows=2), ModelError, "m.tflite: subgraph 0, operator 0 RESHAPE: output tensor 2 't2' has shape [-1, 4], "
     "where -1 is open, expected [4, 2]"),
    (broken(computed=True), UnsupportedError, "m.tflite: subgraph 0, operator 0 RESHAPE: output tensor 2 't2' has an "
     "open shape [-1, 4] that does not follow from the inputs' shapes; export the model with fixed shapes"),
    (batched("WHERE"), UnsupportedError, "m.tflite: subgraph 0, operator 0 WHERE: output tensor 2 't2' has an open "
     "shape [-1, 4] that does not follow from the inputs' shapes; export the model with fixed shapes"),
])
def test_contradictions_name_the_operator(model: Model, kind: type[TqError], message: str) -> None:
    with pytest.raises(kind) as error:
        propagated(model, 2)
    assert str(error.value) == message


def test_signature_of_another_rank() -> None:
    model = batched()
    tensors = (replace(model.main.tensors[0], shape_signature=(-1,)), *model.main.tensors[1:])
    with pytest.raises(ModelError) as error:
        propagated(replace(model, subgraphs=(replace(model.main, tensors=tensors),)))
    assert str(error.value) == ("m.tflite: subgraph 0, tensor 0 'x', shape_signature: is [-1] where the shape is "
                                "[1, 4], expected as many dimensions")


def test_shape_of_float32() -> None:
    """SHAPE needs no values of its input, which is the model's float32 output here."""
    def build(batch: int) -> Model:
        b = ModelBuilder("m")
        x = b.input((batch, 2, 2), scale=0.5)
        real = b.add("DEQUANTIZE", [x], dtype="float32")
        return b.model(real, b.add("SHAPE", [real], out_type="int32"))

    for model in (parse_model(write_model(build(3)), "m"), propagated(left_open(build), 3)):
        inputs = drawn(model, 1)
        compiled = compile_model(model, load_config("n8"))
        for engine in (golden_engine(model), make_engine("executor", model, compiled.program, Memory())):
            assert engine.infer(inputs).outputs[1].tolist() == [3, 2, 2]


def test_large_arithmetic_is_left_to_the_compiler() -> None:
    """Small files must not take long: beyond a total of elements read and written, operators stay in the graph."""
    def build(batch: int) -> Model:
        b = ModelBuilder("m")
        x = b.input((batch, 4), scale=0.5)
        many, one = b.constant(np.zeros(ELEMENT_LIMIT, np.int32)), b.constant(1)
        for _ in range(300):
            b.add("ADD", [many, one])
        return b.model(b.add("SOFTMAX", [x]))

    folded = 301 - len(propagated(left_open(build), 2).main.operators)
    assert folded == -(-256 * ELEMENT_LIMIT // (2 * ELEMENT_LIMIT + 1))


@pytest.mark.parametrize("seed", range(2))
def test_broken_files_are_rejected_in_one_line(seed: int) -> None:
    data = write_model(left_open(lambda batch: open_network(seed, batch)))
    sites, raw = sites_of(data), parse_model(data, "open", check=False)
    verdicts = set()
    for number in range(40):
        rng = np.random.default_rng(1000 * seed + number)
        if broken := mutate_bytes(rng, data, sites) if number % 2 else mutate_graph(rng, raw):
            verdicts.add(check_one(broken, load_config("n8"), 20.0))
    assert "ModelError" in verdicts and verdicts <= {"compiled", "ModelError", "UnsupportedError"}
