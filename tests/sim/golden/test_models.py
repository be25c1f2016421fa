"""Real models give the results of the public engines, also in consecutive inferences."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

#: Layers that canon takes from TFLite Micro, and files that LiteRT rejects or crashes on.
NOT_LITERT = {"mlperf_tiny_ad01": "FULLY_CONNECTED in double", "tflm_person_detect": "bias dimension 3",
              "tflm_keyword_scrambled_8bit_svdf": "SVDF with an int8 state"}
STATEFUL = ("mlperf_tiny_sww_streaming", "mww_okay_nabu_v2_streaming", "tflm_keyword_scrambled_8bit_svdf",
            "tflm_trained_lstm_int8")
LARGE = ("coral_tf2_mobilenet_v2_224_ptq", "cfu_hps_2022_01_05_74ops", "emza_ssd_slim_120x160",
         "cfu_mobilenetv2_160_035")
SMALL = ("armzoo_har_cnn", "mlperf_tiny_ad01", "mlperf_tiny_ic_resnet8", "mlperf_tiny_kws_dscnn",
         "mlperf_tiny_sww_streaming", "mlperf_tiny_vww_96", "mltk_image_example1", "mltk_rock_paper_scissors",
         "mww_okay_nabu_v2_streaming", "tflm_hello_world_int8", "tflm_keyword_scrambled_8bit_svdf",
         "tflm_micro_speech", "tflm_person_detect", "tflm_trained_lstm_int8", "tinymaix_cifar10_q",
         "tinymaix_mbnet128_025_q", "tinymaix_mnist_valid_q")


def check(shared: Path, name: str, engine: str, agree: Callable[..., None],
          random_sets: Callable[..., list[list[np.ndarray]]]) -> None:
    data = (shared / "models" / f"{name}.tflite").read_bytes()
    sets = random_sets(parse_model(data, name), 7, 3)
    agree(engine, data, sets, reset=name not in STATEFUL)


def test_every_model_is_listed(shared: Path) -> None:
    assert sorted(path.stem for path in (shared / "models").glob("*.tflite")) == sorted(SMALL + LARGE)


@pytest.mark.parametrize("name", SMALL)
def test_equals_tflite_micro(shared: Path, name: str, agree: Callable[..., None],
                             random_sets: Callable[..., list[list[np.ndarray]]]) -> None:
    check(shared, name, "tflm", agree, random_sets)


@pytest.mark.parametrize("name", [name for name in SMALL if name not in NOT_LITERT])
def test_equals_litert(shared: Path, name: str, agree: Callable[..., None],
                       random_sets: Callable[..., list[list[np.ndarray]]]) -> None:
    check(shared, name, "litert-ref", agree, random_sets)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["litert-ref", "tflm"])
@pytest.mark.parametrize("name", LARGE)
def test_large_models(shared: Path, name: str, engine: str, agree: Callable[..., None],
                      random_sets: Callable[..., list[list[np.ndarray]]]) -> None:
    check(shared, name, engine, agree, random_sets)


def chain(rng: np.random.Generator) -> bytes:
    """Build a network of a few operators: convolutions, a residual sum, pooling, softmax."""
    b = ModelBuilder("chain")
    x = b.input((1, 9, 11, 3), scale=0.02, zero_point=-3)
    for stride in (1, 2):
        channels = b.tensors[x].shape[3]
        w = b.constant(rng.integers(-127, 128, (8, 3, 3, channels)).astype(np.int8),
                       scale=rng.uniform(0.001, 0.01, 8).tolist())
        x = b.add("CONV_2D", [x, w, b.bias(x, w, rng.integers(-500, 500, 8))], scale=0.05, zero_point=-100,
                  padding="SAME", stride_h=stride, stride_w=stride, fused_activation_function="RELU6")
    w = b.constant(rng.integers(-127, 128, (1, 3, 3, 8)).astype(np.int8), scale=rng.uniform(0.001, 0.01, 8).tolist(),
                   dimension=3)
    y = b.add("DEPTHWISE_CONV_2D", [x, w, b.bias(x, w, [0] * 8)], scale=0.04, zero_point=5, padding="SAME")
    x = b.add("ADD", [x, y], scale=0.06, zero_point=-7, fused_activation_function="NONE")
    x = b.add("AVERAGE_POOL_2D", [x], padding="VALID", filter_height=5, filter_width=6)
    x = b.add("RESHAPE", [x, b.constant([1, -1])])
    return b.build(b.add("SOFTMAX", [b.add("LOG_SOFTMAX", [x])]))


@pytest.mark.parametrize("engine", ["litert-ref", "tflm"])
def test_generated_networks(engine: str, agree: Callable[..., None],
                            random_sets: Callable[..., list[list[np.ndarray]]]) -> None:
    for seed in range(5):
        data = chain(np.random.default_rng(seed))
        agree(engine, data, random_sets(parse_model(data, "chain"), seed))


def test_consecutive_inferences_share_the_state(shared: Path, oracles: Callable[[str], Oracle],
                                                random_sets: Callable[..., list[list[np.ndarray]]]) -> None:
    """With the state, the second inference differs from a first one, and equals the engine's."""
    data = (shared / "models" / "mww_okay_nabu_v2_streaming.tflite").read_bytes()
    model = parse_model(data, "nabu")
    image = random_sets(model, 3, 1)[0]
    expected = oracles("tflm").run_sets(data, [image] * 8, reset=False)
    state, found = None, []
    for _ in range(8):
        result = run(model, image, state)
        state = result.state
        found.append(result.outputs[0].item())
    assert found == [outputs[0].item() for outputs in expected]
