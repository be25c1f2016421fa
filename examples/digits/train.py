"""Train the digits network, quantize it to int8 and write `digits.tflite` and `digits_test.npz` next to this file.

The data are scikit-learn's 1797 images of handwritten digits, 8x8 pixels of 0..16 (UCI "Optical
recognition of handwritten digits"); a fifth is held out. Needs the extra: `pip install -e '.[train]'`.
Everything is seeded: one machine gives the same file each time; another one's BLAS may round a sum
differently, which moves single weights by one.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from layers import Conv, Dense, DepthwiseConv, Layer, MaxPool, Residual, softmax
from quantize import quantize
from sklearn.datasets import load_digits

from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.golden import run

HERE = Path(__file__).parent
HELD_OUT = 360
EPOCHS = 60
BATCH = 32


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training images and labels, then held-out ones; images are (n, 8, 8, 1), 0..1."""
    digits = load_digits()
    images = (digits.images[..., None] / 16).astype(np.float32)
    order = np.random.default_rng(1).permutation(len(images))
    held, kept = order[:HELD_OUT], order[HELD_OUT:]
    return images[kept], digits.target[kept], images[held], digits.target[held]


def network() -> list[Layer]:
    """Return the untrained layers."""
    rng = np.random.default_rng(2)
    return [
        Conv(rng, 3, 1, 16),
        Residual(DepthwiseConv(rng, 3, 16), Conv(rng, 1, 16, 16, relu=False)),
        Conv(rng, 3, 16, 32, stride=2),
        MaxPool(),
        Dense(rng, 2 * 2 * 32, 10),
    ]


def _flatten(layers: list[Layer]) -> Iterator[Layer]:
    for layer in layers:
        yield from layer.branch if isinstance(layer, Residual) else (layer,)


def _shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the images, each moved by -1, 0 or 1 pixels both ways."""
    padded = np.pad(images, [(0, 0), (1, 1), (1, 1), (0, 0)])
    return np.stack([image[y:y + 8, x:x + 8] for image, (y, x) in zip(padded, rng.integers(0, 3, (len(images), 2)),
                                                                   strict=True)])


def train(layers: list[Layer], images: np.ndarray, labels: np.ndarray) -> None:
    """Fit the layers in place: Adam on the cross entropy, learning rate falling linearly."""
    rng = np.random.default_rng(3)
    parameters = [p for layer in _flatten(layers) for p in layer.parameters]
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
    step, steps = 0, EPOCHS * (len(images) // BATCH)
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        loss = 0.0
        for first in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[first:first + BATCH]
            x = _shifted(images[chosen], rng)
            for layer in layers:
                x = layer(x)
            probabilities = softmax(x)
            loss -= float(np.log(probabilities[np.arange(BATCH), labels[chosen]]).mean())
            gradient = probabilities
            gradient[np.arange(BATCH), labels[chosen]] -= 1
            gradient = gradient / np.float32(BATCH)
            for layer in reversed(layers):
                gradient = layer.backward(gradient)
            step += 1
            rate = 3e-3 * (1 - step / (steps + 1))
            gradients = [g for layer in _flatten(layers) for g in layer.gradients]
            for p, g, (mean, square) in zip(parameters, gradients, moments, strict=True):
                mean += 0.1 * (g - mean)
                square += 0.001 * (g * g - square)
                p -= rate * (mean / (1 - 0.9 ** step)) / (np.sqrt(square / (1 - 0.999 ** step)) + 1e-8)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: mean loss {loss / (len(order) // BATCH):.4f}")


def main() -> int:
    """Train, quantize, write both files, print the accuracies."""
    images, labels, test_images, test_labels = load()
    layers = network()
    train(layers, images, labels)
    x = test_images
    for layer in layers:
        x = layer(x)
    print(f"float accuracy {np.mean(x.argmax(1) == test_labels):.4f} on {len(test_labels)} held-out images")

    data, inputs = quantize(layers, images, test_images)
    (HERE / "digits.tflite").write_bytes(data)
    np.savez_compressed(HERE / "digits_test.npz", input_0=inputs, labels=test_labels.astype(np.uint8))
    model = parse_model(data, "digits.tflite")
    guesses = [int(run(model, [image]).outputs[0].argmax()) for image in inputs]
    print(f"int8 accuracy {np.mean(guesses == test_labels):.4f}; {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
