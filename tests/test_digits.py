"""The demo's network: accurate enough to be worth showing, and the same in every engine."""

from pathlib import Path

import numpy as np
import pytest

from tq_hw.model.tflite.reader import read_model
from tq_hw.sim.golden import run
from tq_hw.sim.oracles import Oracle

FOLDER = Path(__file__).parents[1] / "examples" / "digits"
MODEL = FOLDER / "digits.tflite"


@pytest.fixture(scope="module")
def held_out() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, labels and the golden model's probabilities."""
    with np.load(FOLDER / "digits_test.npz") as archive:
        images, labels = archive["input_0"], archive["labels"]
    model = read_model(MODEL)
    return images, labels, np.stack([run(model, [image]).outputs[0] for image in images])


def test_network_has_every_kind_of_layer() -> None:
    assert [op.op for op in read_model(MODEL).main.operators] == [
        "CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D", "ADD", "CONV_2D", "MAX_POOL_2D", "RESHAPE", "FULLY_CONNECTED",
        "SOFTMAX"]


def test_accuracy_on_held_out_images(held_out: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    _, labels, golden = held_out
    assert len(labels) == 360
    assert np.sum(golden[:, 0].argmax(1) == labels) == 356


@pytest.mark.parametrize("engine", ["litert-ref", "tflm"])
def test_golden_model_equals_the_public_engines(engine: str,
                                                held_out: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    images, _, golden = held_out
    chosen = slice(0, 40)
    with Oracle(engine) as oracle:
        outputs = oracle.run_sets(MODEL, [[image] for image in images[chosen]])
    assert np.array_equal(np.stack([o[0] for o in outputs]), golden[chosen])
