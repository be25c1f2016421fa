"""Random scales, zero points, shapes and weights for generated models of one operator."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tq_hw.model.samples.build import ModelBuilder

Rng = np.random.Generator
Generator = Callable[[Rng, str], bytes]
ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def scale(rng: Rng) -> float:
    """Random float32 scale; sometimes a power of two, so that exact halves occur."""
    if rng.random() < 0.35:
        return float(2.0 ** rng.integers(-10, -2))
    return float(np.float32(10.0 ** rng.uniform(-3, -0.6)))


def point(rng: Rng) -> int:
    return int(rng.choice([-128, 127, 0, int(rng.integers(-128, 128))]))


def int8(rng: Rng, *shape: int, low: int = -127) -> np.ndarray:
    return rng.integers(low, 128, shape).astype(np.int8)


def pick(rng: Rng, *options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def shape(rng: Rng, rank: int | None = None, most: int = 6) -> tuple[int, ...]:
    return tuple(int(size) for size in rng.integers(1, most + 1, rank or int(rng.integers(1, 5))))


def output_scale(rng: Rng, product: float, depth: int) -> float:
    """Scale at which accumulators of `depth` random products mostly fit int8."""
    spread = product * depth ** 0.5 * 5000 / 50
    return float(np.float32(spread * pick(rng, 0.02, 0.3, 1.0, 1.0, 3.0)))


def weights(rng: Rng, b: ModelBuilder, dims: tuple[int, ...], axis: int) -> tuple[int, float]:
    """Add weights quantized per tensor or per axis; return their index and largest scale."""
    count = dims[axis] if rng.random() < 0.6 else 1
    scales = [scale(rng) for _ in range(count)]
    return b.constant(int8(rng, *dims), scale=scales, dimension=axis if count > 1 else 0), max(scales)
