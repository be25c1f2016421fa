"""`import tq_hw` as a notebook uses it."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import tq_hw
from tq_hw.cli.commands.build import DEMO_MODEL
from tq_hw.model.errors import MismatchError, OptionError
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim import golden


@pytest.fixture(scope="module")
def network() -> tq_hw.Network:
    return tq_hw.load(DEMO_MODEL)


@pytest.fixture(scope="module")
def compiled(network: tq_hw.Network) -> tq_hw.CompiledNetwork:
    return network.compile("tiny")


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)


def test_short_texts(network: tq_hw.Network, compiled: tq_hw.CompiledNetwork) -> None:
    assert repr(network) == "<Network digits: 9 operators, int8[1, 8, 8, 1] to int8[1, 10]>"
    assert repr(compiled) == (f"<CompiledNetwork digits on tiny: {len(compiled.program.layers)} layers, "
                              f"{compiled.cycles:,} cycles (estimated)>")
    result = compiled.simulate(image(), engine="executor")
    assert repr(result) == "<Result of digits on executor: int8[1, 10], equal to the golden model>"
    assert repr(compiled.simulate(image(), engine="golden")) == "<Result of digits on golden: int8[1, 10]>"


def test_outputs_are_the_golden_model_s(compiled: tq_hw.CompiledNetwork) -> None:
    want = golden.run(read_model(DEMO_MODEL), [image()]).outputs[0]
    for given in (image(), [image()], {"input_0": image()}, {compiled.model.main.tensors[0].name: image()}):
        result = compiled.simulate(given, engine="executor")
        assert np.array_equal(result.output, want) and result.exact is True and result.cycles is None
    both = compiled.simulate(np.stack([image(1), image()]), engine="executor").output
    assert both.shape == (2, 1, 10) and np.array_equal(both[1], want)
    assert compiled.simulate(image(), engine="executor", check=False).exact is None


def test_layers_are_records(compiled: tq_hw.CompiledNetwork) -> None:
    keys = {"index", "op", "name", "unit", "cycles", "macs", "utilization", "bytes", "bound"}
    assert all(keys <= set(layer) for layer in compiled.layers)
    assert [layer["index"] for layer in compiled.layers] == list(range(9))
    assert sum(layer["cycles"] for layer in compiled.layers) == compiled.cycles
    assert set(compiled.layers[0]["op"]) <= set("CONV_2D")


def test_real_numbers(network: tq_hw.Network) -> None:
    into, out = network.inputs[0], network.outputs[0]
    assert into.scale is not None and into.zero_point is not None
    reals = (np.arange(-128, 128) - into.zero_point) * into.scale
    assert np.array_equal(into.quantize(reals), np.arange(-128, 128).astype(np.int8))
    assert into.quantize([1e9, -1e9]).tolist() == [127, -128]
    assert out.zero_point is not None and out.dequantize([out.zero_point]) == [0.0]
    with pytest.raises(OptionError, match="^'y' is float32 without a single scale: it cannot be quantized$"):
        tq_hw.TensorInfo("y", "float32", (1,)).quantize([0.5])


def test_for_a_board_and_for_a_memory(network: tq_hw.Network, tmp_path: Path) -> None:
    assert network.compile(board="ulx3s_85f").config.name == "ulx3s_85f"
    slow = network.compile("tiny", memory=tq_hw.Memory(bytes_per_cycle=0.5))
    assert slow.cycles > network.compile("tiny").cycles
    slow.save(tmp_path / "digits.tqm")
    assert (tmp_path / "digits.tqm").read_bytes().startswith(b"TQHM")
    with pytest.raises(OptionError, match=r"digits\.tqm: expected a \.tflite model, found a compiled file"):
        tq_hw.load(tmp_path / "digits.tqm")


@pytest.mark.parametrize(("call", "message"), [
    (lambda net, _: net.compile("n8", board="icesugar_pro"),
     "compile takes config or board, not both: a board has its own configuration"),
    (lambda _, com: com.simulate(image(), engine="rt1"), "the engine must be one of golden, executor, rtl, not 'rt1'"),
    (lambda _, com: com.report("x.html", engine="golden"),
     "the engine of a report must be one of executor, rtl, not 'golden'"),
    (lambda _, com: com.simulate(np.zeros((1, 8, 8, 1), np.uint8)),
     "digits: array 'input_0' must be int8[1, 8, 8, 1], alone or with one more axis in front for several sets, found "
     "uint8[1, 8, 8, 1]"),
])
def test_what_is_refused(network: tq_hw.Network, compiled: tq_hw.CompiledNetwork, call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(tq_hw.TqError) as caught:
        call(network, compiled)
    assert str(caught.value) == message


def test_a_difference_is_an_error(compiled: tq_hw.CompiledNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tq_hw.compiled.check_against_golden", lambda *_: "output 0 differs")
    with pytest.raises(MismatchError, match="^output 0 differs$"):
        compiled.simulate(image(), engine="executor")


def test_everything_public_says_what_it_is() -> None:
    for name in set(tq_hw.__all__) - {"__version__"}:
        thing = getattr(tq_hw, name)
        assert inspect.getdoc(thing)
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            if not member.startswith("_") and callable(value):
                assert inspect.getdoc(value), f"{name}.{member}"
