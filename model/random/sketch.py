"""The base of the recipes of random graphs: a model under construction, its tensors, its seeded choices."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Tensor
from tq_hw.model.samples.build import ModelBuilder

__all__ = ["ACTIVATIONS", "Sketch", "Unfit"]

#: Fused activations as often as they are drawn.
ACTIVATIONS = ("NONE", "NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1")
#: Code units that a typical value is away from the zero point: of random int8, and of what fits int8 well.
_SPREAD, _WANTED = 74.0, 50.0


class Unfit(Exception):
    """A recipe has no use for the tensor that it was given; another one is drawn."""


class Sketch:
    """A model under construction.

    Parameters
    ----------
    name : name of the model
    rng : source of all choices
    sizes : rows and columns that images may have
    most_elements : largest tensor that is made

    Members
    -------
    live : activations of int8 that recipes may read, oldest first
    others : results of other types
    houses : quantizations that most tensors have, so that some can be joined
    """

    def __init__(self, name: str, rng: np.random.Generator, sizes: Sequence[int], most_elements: int):
        self.b, self.rng, self.sizes, self.most_elements = ModelBuilder(name), rng, tuple(sizes), most_elements
        self.live: list[int] = []
        self.others: list[int] = []
        self._weights: dict[tuple[object, ...], list[int]] = {}
        #: What each variable holds, its first contents, its name.
        self.variables: list[tuple[Tensor, np.ndarray, str]] = []
        self.houses = [(self.scale(), self.point()) for _ in range(self.between(1, 3))]

    # Choices

    def chance(self, probability: float) -> bool:
        """Return True as often as `probability` says."""
        return bool(self.rng.random() < probability)

    def between(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return int(self.rng.integers(low, max(low, high) + 1))

    def pick(self, *options: Any) -> Any:
        """Return one of the options."""
        return options[int(self.rng.integers(len(options)))]

    def scale(self) -> float:
        """Return a scale, a power of two now and then, so that exact halves occur."""
        value = 2.0 ** self.between(-8, -3) if self.chance(0.3) else float(self.rng.uniform(0.004, 0.12))
        return float(np.float32(value))

    def point(self) -> int:
        """Return a zero point, often one at an end."""
        return int(self.pick(-128, 127, 0, self.between(-128, 127), self.between(-20, 20)))

    def channels(self) -> int:
        """Return a number of channels from 1 to 40."""
        return int(self.pick(1, 2, 3, 4, 5, 7, 8, 8, 9, 12, 16, 16, 17, 24, 31, 32, 33, 40, self.between(1, 40)))

    # Tensors

    def shape(self, x: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.b.tensors[x].shape

    def quantization(self, x: int) -> tuple[float, int]:
        """Return scale and zero point of a tensor."""
        return self.b.tensors[x].scale, self.b.tensors[x].zero_point

    def like(self, x: int) -> dict[str, Any]:
        """Return the quantization of a tensor as arguments of `ModelBuilder.add`."""
        scale, zero_point = self.quantization(x)
        return {"scale": scale, "zero_point": zero_point}

    def out(self, natural: float | None = None) -> dict[str, Any]:
        """Return the quantization of a new tensor: mostly one that others have, else near a `natural` scale."""
        if self.chance(0.75) or natural is None:
            house = self.houses[0 if self.chance(0.6) else self.between(0, len(self.houses) - 1)]
            return {"scale": house[0], "zero_point": house[1]}
        # Comparisons want scales below 1; tiny scales overflow the fixed-point multipliers.
        wanted = natural * self.pick(0.02, 0.4, 0.9, 1.1, 2.5, 30.0)
        return {"scale": float(np.float32(min(max(wanted, 1e-4), 0.5))), "zero_point": self.point()}

    def input(self, shape: Sequence[int], **quantization: Any) -> int:
        """Add an input of the model and return it; float32 or uint8 with a QUANTIZE after it now and then."""
        quantization = quantization or self.out()
        if self.chance(0.05):
            x = self.b.add("QUANTIZE", [self.b.input(shape, "float32")], **quantization)
        elif self.chance(0.05):
            # Converters write uint8 inputs so; the accelerator reads the same bytes with bit 7 inverted.
            outer = self.b.input(shape, "uint8", scale=quantization["scale"],
                                 zero_point=quantization["zero_point"] + 128)
            x = self.b.add("QUANTIZE", [outer], **quantization)
        else:
            x = self.b.input(shape, **quantization)
        self.live.append(x)
        return x

    def image(self) -> int:
        """Add an input image."""
        size = self.pick(*self.sizes), self.pick(*self.sizes)
        shape: tuple[int, ...] = (self.pick(1, 1, 1, 1, 1, 2, 3), *size, self.channels())
        if self.chance(0.12):
            shape = shape[-self.between(1, 3):]
        return self.input(self.fitting(shape))

    def fitting(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape with its largest axes halved until it is small enough."""
        dims = list(shape)
        while math.prod(dims) > self.most_elements:
            at = dims.index(max(dims))
            dims[at] = -(-dims[at] // 2)
        return tuple(dims)

    def int8(self, *shape: int) -> np.ndarray:
        """Return random bytes, all of them extreme now and then."""
        if self.chance(0.03):
            return np.full(shape, self.pick(-128, 127), np.int8)
        return self.rng.integers(-128, 128, shape).astype(np.int8)

    def constant(self, shape: Sequence[int], **quantization: Any) -> int:
        """Add a constant of int8."""
        return self.b.constant(self.int8(*shape), **(quantization or self.out()))

    def indices(self, values: Any) -> int:
        """Add a constant of int32: axes, sizes, pads."""
        return self.b.constant(np.asarray(values, np.int32))

    def weights(self, shape: tuple[int, ...], axis: int, taps: int, source: float, target: float) -> int:
        """Add weights, or take some that are there, with which sums of `taps` products mostly fit the output.

        `source` and `target` are the scales of input and output; now and then multipliers are far above 1 or tiny.
        """
        known = self._weights.setdefault((shape, axis, source), [])
        if known and self.chance(0.3):
            return int(self.pick(*known))
        gain = _WANTED / (_SPREAD * _SPREAD * taps ** 0.5) * self.pick(0.3, 1, 1, 1, 1, 3)
        if self.chance(0.06):
            gain = self.pick(1e-9, 1e-6, 1e-3, 0.99, 1.0, 1.5, 40.0)
        scales = gain * target / source * self.rng.uniform(0.6, 1.4, shape[axis] if self.chance(0.7) else 1)
        data = self.rng.integers(-127, 128, shape).astype(np.int8)
        if self.chance(0.1):
            data[self.rng.random(shape) < 0.7] = 0
        known.append(self.b.constant(data, scale=scales.tolist(), dimension=axis if len(scales) > 1 else 0))
        return known[-1]

    def bias(self, source: int, weights: int, target: float, count: int) -> int:
        """Add biases of a few dozen output codes, or give -1: none."""
        quantization = self.b.tensors[weights].quantization
        assert quantization is not None
        unit = self.b.tensors[source].scale * np.array(quantization.scale)
        values = np.clip(self.rng.normal(0, 30 * target, count) / unit, -2.0**30, 2.0**30)
        return self.b.bias(source, weights, np.round(values).astype(np.int32))

    def activation(self) -> dict[str, str]:
        """Return a fused activation as an option."""
        return {"fused_activation_function": self.pick(*ACTIVATIONS)}

    # Searches

    def reshaped(self, x: int, shape: tuple[int, ...]) -> int:
        """Return `x` with other axes, itself where it has them."""
        if self.shape(x) == shape:
            return x
        return self.b.add("RESHAPE", [x, self.indices(shape)], shape=shape)

    def rank4(self, x: int) -> int:
        """Return `x` as an image: reshaped if it has other axes."""
        shape = (*(1,) * (4 - len(self.shape(x))), *self.shape(x))
        return self.reshaped(x, (math.prod(shape[:-3]), *shape[-3:]))

    def partners(self, x: int, fits: Callable[[tuple[int, ...]], bool]) -> list[int]:
        """Return other tensors of the type and quantization of `x` whose shape fits."""
        tensor = self.b.tensors[x]
        return [y for y in (*self.live, *self.others) if y != x and self.b.tensors[y].dtype == tensor.dtype
                and self.b.tensors[y].quantization == tensor.quantization and fits(self.shape(y))]

    def check(self, *made: int) -> None:
        """Raise Unfit when a tensor is empty or larger than wanted."""
        for x in made:
            if not 0 < math.prod(self.shape(x)) <= self.most_elements:
                raise Unfit

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Undo all that was added inside when it ends in Unfit or ModelError, which are not passed on."""
        b = self.b
        before = len(b.tensors), len(b.operators), len(b.inputs), list(self.live), list(self.others)
        variables = len(self.variables)
        try:
            yield
        except (Unfit, ModelError):
            tensors, operators, inputs, self.live, self.others = before
            for known in self._weights.values():
                known[:] = [index for index in known if index < tensors]
            del b.tensors[tensors:], b.operators[operators:], b.inputs[inputs:], self.variables[variables:]
