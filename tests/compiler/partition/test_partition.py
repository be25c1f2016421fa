"""Which operators become a unit, which stay with the host, and which models are rejected as a whole."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.sim.mixed.networks import NETWORKS, conv, float_middle
from tq_hw.compiler.partition import partition
from tq_hw.compiler.partition.pieces import find_pieces
from tq_hw.isa.config import load_config
from tq_hw.model.cut import compact
from tq_hw.model.errors import ModelError, UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.typical import typical

TINY = load_config("tiny")


def pieces_of(model):
    return [[op.op for op in piece.operators] for piece in find_pieces(model.under("litert"), packs=False)]


def test_an_island_that_is_a_table_is_one_unit():
    b = ModelBuilder("island")
    image = b.input((1, 4), scale=0.1)
    real = b.add("EXP", [b.add("NEG", [b.add("DEQUANTIZE", [image])], dtype="float32")], dtype="float32")
    model = b.model(b.add("QUANTIZE", [real], scale=0.1))
    assert pieces_of(model) == [["DEQUANTIZE", "NEG", "EXP", "QUANTIZE"]]
    assert find_pieces(model.under("litert"), packs=False)[0].refusal == ""


def test_a_ranking_is_one_unit_with_the_float32_that_it_reads():
    b = ModelBuilder("ranking")
    real = b.add("ABS", [b.add("DEQUANTIZE", [b.input((1, 4), scale=0.1)])])
    model = b.model(b.add("ARG_MAX", [real, b.constant(1)]))
    assert pieces_of(model) == [["DEQUANTIZE", "ABS", "ARG_MAX"]]


def test_operators_of_an_island_that_is_none_are_units():
    assert pieces_of(float_middle())[:4] == [["CONV_2D"], ["DEQUANTIZE"], ["SOFTMAX"], ["QUANTIZE"]]


def test_what_the_accelerator_is_slow_at_is_a_unit_where_it_is_asked_for():
    found = find_pieces(float_middle().under("litert"), packs=True)
    assert [[op.op for op in piece.operators] for piece in found][:2] == [
        ["CONV_2D"], ["DEQUANTIZE", "SOFTMAX", "QUANTIZE"]]
    assert not any(piece.refusal for piece in found)


def test_what_shares_a_state_is_a_unit_with_what_lies_between():
    found = [piece for piece in pieces_of(NETWORKS["towers"]()) if "VAR_HANDLE" in piece]
    assert found == [["CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ADD", "ASSIGN_VARIABLE"]]


def test_conversions_alone_stay_with_the_host():
    b = ModelBuilder("trifle")
    image = b.input((1, 4, 4, 2), scale=0.1)
    real = b.add("SOFTMAX", [b.add("DEQUANTIZE", [image])], dtype="float32")
    model = b.model(conv(b, b.add("QUANTIZE", [real], scale=0.01), 2))
    made = partition(model, TINY)
    assert [(op.op, why) for op, why in made.refused if op.op != "SOFTMAX"] == [
        ("DEQUANTIZE", "it computes nothing by itself, next to operators of the host")]
    assert len(made.parts) == 1


def test_a_model_of_the_host_alone_is_refused():
    b = ModelBuilder("float")
    model = b.model(b.add("SOFTMAX", [b.input((1, 4), dtype="float32")], dtype="float32"))
    with pytest.raises(UnsupportedError) as caught:
        partition(model, TINY)
    assert str(caught.value) == (
        "float: the accelerator supports no operator of the model: operator 0 (SOFTMAX): it is in float32; "
        "quantize the model to int8")


DYNAMIC = ("weights are integers and activations are not (dynamic-range quantization): give the converter a "
           "representative dataset, and ")


def test_a_refused_model_is_not_offered_what_is_done():
    """Only weights are int8, with or without DEQUANTIZE before each operator; the reason is that of an operator."""
    for dequantized in (False, True):
        b = ModelBuilder("weights")
        x = b.input((1, 6, 6, 4), dtype="float32")
        weights = b.constant(np.ones((8, 1, 1, 4), np.int8), scale=[0.5] * 8)
        weights = b.add("DEQUANTIZE", [weights]) if dequantized else weights
        bias = b.constant(np.ones(8, np.float32))
        model = b.model(b.add("CONV_2D", [x, weights, bias], dtype="float32"))
        with pytest.raises(UnsupportedError) as caught:
            partition(model, TINY)
        assert str(caught.value) == (
            f"weights: the accelerator supports no operator of the model: operator {int(dequantized)} (CONV_2D): input "
            f"0, tensor 0 't0', has type float32, expected int8 or int16; {DYNAMIC}quantize the whole model to int8")


@pytest.mark.parametrize("op", ["TRANSPOSE_CONV", "ASSIGN_VARIABLE"])
def test_reasons_do_not_offer_what_is_done(op):
    """Operators left in float32 next to int8 give the reason only."""
    b = ModelBuilder("left")
    x = b.add("DEQUANTIZE", [conv(b, b.input((1, 4, 4, 4), scale=0.1), 4)])
    if op == "TRANSPOSE_CONV":
        weights = b.constant(np.ones((4, 2, 2, 4), np.float32))
        size = b.constant([1, 8, 8, 4])
        x = b.add(op, [size, weights, x], stride_w=2, stride_h=2, padding="SAME", shape=(1, 8, 8, 4))
    else:
        handle = b.add("VAR_HANDLE", [], shape=(), options={"container": "", "shared_name": "kept"})
        b.operator(op, [handle, b.add("SIN", [x])], [])
    reasons = [why for _, why in partition(b.model(x), TINY).refused]
    assert reasons
    assert not any("--partition" in why or "on the host" in why for why in reasons), reasons


def test_undefined_results_are_refused():
    model = typical("SVDF")
    tensors = [replace(t, dtype="int8") if t.is_variable else t for t in model.main.tensors]
    with pytest.raises(UnsupportedError) as caught:
        partition(replace(model, subgraphs=(replace(model.main, tensors=tuple(tensors)),)), TINY)
    assert str(caught.value) == (
        "operator 0 (SVDF): on the host, in LiteRT: Use an int16 state; found int8. LiteRT's result is undefined")


def in_sixteen(last, *, is_whole):
    """A convolution of int16, an operator for which LiteRT has no kernel, and one that no profile takes."""
    b = ModelBuilder("sixteen")
    x = b.input((1, 4, 4, 4), "int16", scale=2.0**-12)
    weights = b.constant(np.ones((4, 1, 1, 4), np.int8), scale=[0.01] * 4)
    y = b.add("CONV_2D", [x, weights, b.bias(x, weights, [0] * 4)], scale=0.001)
    y = b.add(last, [y, *((b.constant([1, 2]),) if last == "SUM" else (y,))], scale=0.001)
    return b.model(y if is_whole else b.add("CUSTOM:mine", [y], shape=(1, 4)))


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_litert_does_not_run_cannot_be_left_to_the_host(is_whole):
    """Another profile is no way out there; without a partition it is, if the accelerator then takes all."""
    for op, why in (("SUM", "Do not sum int16: the kernel reads bytes; found int16 for tensor 3, 't3'. LiteRT's result "
                            "is undefined"),
                    ("SQUARED_DIFFERENCE", "Do not use int16: the engine's kernel does not support it; found int16 for "
                                           "tensor 3, 't3'. LiteRT refuses it")):
        with pytest.raises(UnsupportedError) as caught:
            partition(in_sixteen(op, is_whole=is_whole), TINY)
        assert str(caught.value) == f"operator 1 ({op}): on the host, in LiteRT: {why}" + (
            "; without --partition, --profile canon runs the whole model" if is_whole else "")


def test_what_the_reference_kernels_lack_stays_with_the_host():
    """LiteRT's other kernels run it."""
    b = ModelBuilder("elu")
    made = partition(b.model(b.add("ELU", [conv(b, b.input((1, 4, 4, 2), scale=0.1), 2)])), TINY)
    assert [(op.op, why) for op, why in made.refused] == [
        ("ELU", "under --profile litert: Use an operator that the reference resolver has; found ELU. LiteRT's "
                "reference kernels lack it")]


def test_reasons_of_the_host_offer_no_other_profile():
    b = ModelBuilder("double")
    x = b.input((4, 4), "int16", scale=2.0**-12)
    y = b.add("ABS", [x])
    weights = b.constant(np.ones((3, 4), np.int8), scale=0.01)
    made = partition(b.model(b.add("FULLY_CONNECTED", [y, weights, b.bias(y, weights, [5] * 3)], scale=4e-6)), TINY)
    assert [(op.op, why) for op, why in made.refused] == [
        ("FULLY_CONNECTED", "LiteRT rescales sums of int16 in double, by 0.610352: factors of 1/2 and more are not "
                            "supported; use a larger output scale")]


def test_a_part_that_does_not_compile_goes_to_the_host(monkeypatch):
    """The compiler has limits that lowering does not know."""
    module = sys.modules[partition.__module__]
    plain = module.compile_model

    def compile_model(model, config, **more):
        if any(op.index == 4 for op in model.main.operators):
            raise UnsupportedError("operator 4 (CONV_2D): too large")
        return plain(model, config, **more)

    monkeypatch.setattr(module, "compile_model", compile_model)
    b = ModelBuilder("chain")
    image = b.input((1, 4, 4, 2), scale=0.1)
    for _ in range(5):
        image = conv(b, image, 2)
    made = partition(b.model(image), TINY)
    assert [(op.index, why) for op, why in made.refused] == [(4, "too large")]
    assert [len(part.program.layers) for part in made.parts] == [4]


def test_compact_leaves_out_what_nothing_names():
    made = partition(float_middle(), TINY)
    small = compact(made.model)
    assert len(small.main.tensors) < len(made.model.main.tensors)
    assert [small.main.tensors[index].name for index in small.main.inputs] == ["image"]


def test_a_broken_operator_of_int8_is_an_error():
    b = ModelBuilder("broken")
    image = conv(b, b.input((1, 4, 4, 2), scale=0.1), 2)
    b.operator("MAX_POOL_2D", [image, image], [b.tensor((1, 4, 4, 2), "int8", scale=0.1)],
               {"padding": "SAME", "stride_w": 1, "stride_h": 1, "filter_width": 1, "filter_height": 1})
    with pytest.raises(ModelError) as caught:
        partition(b.model(len(b.tensors) - 1), TINY)
    assert str(caught.value) == "broken: subgraph 0, operator 1 MAX_POOL_2D: has 2 inputs, expected 1"
