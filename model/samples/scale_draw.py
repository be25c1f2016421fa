"""Random scales, zero points and shapes for the models of `scales.py`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tq_hw.model.samples.build import ModelBuilder

__all__ = ["ScaleDraw"]

_LOW, _HIGH = 1e-30, 1e30
_ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


@dataclass
class ScaleDraw:
    """Draws the numbers of one model."""

    rng: np.random.Generator
    kind: str
    b: ModelBuilder

    def scale(self) -> float:
        """Any scale."""
        if self.kind == "ties":
            return int(self.rng.integers(1, 30)) * 2.0 ** -int(self.rng.integers(3, 12))
        return self.float32(10.0 ** self.rng.uniform(-30, 30))

    def near(self, real: float) -> float:
        """A scale that has something to do with `real`."""
        if self.kind == "ties":
            exponent = round(float(np.log2(real))) - 5 + int(self.rng.integers(-3, 4))
            return int(self.rng.integers(1, 30)) * 2.0**exponent
        return self.float32(real * 10.0 ** self.rng.uniform(*self.pick((-1, 2), (-8, 12), (-60, 60))))

    def float32(self, real: float) -> float:
        """Nearest float32 between the limits."""
        return float(np.float32(min(max(real, _LOW), _HIGH)))

    def point(self) -> int:
        """Zero point, often an end."""
        return int(self.rng.choice((-128, 127, 0, int(self.rng.integers(-128, 128)))))

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return options[int(self.rng.integers(len(options)))]

    def activation(self) -> str:
        """Fused activation."""
        return str(self.pick(*_ACTIVATIONS))

    def int8(self, *shape: int) -> np.ndarray:
        """Constant bytes without -128."""
        return self.rng.integers(-127, 128, shape).astype(np.int8)

    def input(self, *shape: int, scale: float | None = None) -> int:
        """Add an input of the model."""
        return self.b.input(shape, scale=self.scale() if scale is None else scale, zero_point=self.point())

    def biases(self, source: int, weights: int, out: float, count: int) -> int:
        """Add a bias whose elements are sums that are near a half of the output's scale."""
        scales = np.array(self.b.tensors[weights].quantization.scale)  # type: ignore[union-attr]  # weights have it
        products = np.resize(self.b.tensors[source].scale * scales, count)
        halves = (self.rng.integers(-140, 140, count) + 0.5) * (out / products) + self.rng.integers(-1, 2, count)
        sums = np.clip(halves, -1e9, 1e9).astype(np.int32)
        expected = [min(max(float(each), 2e-38), 3e38) for each in products[:len(scales)]]
        return self.b.constant(sums, scale=expected)
