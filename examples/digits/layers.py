"""The few trainable layers that the digits network needs, in numpy, NHWC, float32.

Each layer is called forwards and then asked for `backward(gradient)`, which returns the gradient of
its input and leaves those of its parameters in `gradients`, in the order of `parameters`.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

__all__ = ["Conv", "Dense", "DepthwiseConv", "Layer", "MaxPool", "Residual", "softmax"]

Array = np.ndarray


class Layer:
    """A layer without parameters that does nothing."""

    def __init__(self) -> None:
        self.parameters: list[Array] = []
        self.gradients: list[Array] = []

    def __call__(self, x: Array) -> Array:
        """Return the output for a batch `x`."""
        return x

    def backward(self, gradient: Array) -> Array:
        """Return the gradient of the input."""
        return gradient


def _same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the padding of TFLite's SAME before and after."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class _Windowed(Layer):
    """Convolution with SAME padding and an optional RELU after it."""

    def __init__(self, weights: Array, stride: int, relu: bool):
        super().__init__()
        self.weights, self.bias = weights.astype(np.float32), np.zeros(weights.shape[-1], np.float32)
        self.parameters = [self.weights, self.bias]
        self.stride, self.relu = stride, relu

    def __call__(self, x: Array) -> Array:
        kernel = self.weights.shape[0]
        pads = [_same_padding(n, kernel, self.stride) for n in x.shape[1:3]]
        padded = np.pad(x, [(0, 0), *pads, (0, 0)])
        # batch, row, col, channel, tap row, tap col
        windows = sliding_window_view(padded, (kernel, kernel), (1, 2))[:, ::self.stride, ::self.stride]
        self._padded_shape, self._pads, self._input_shape, self._windows = padded.shape, pads, x.shape, windows
        out: Array = np.einsum(self.forward_sum, windows, self.weights, optimize=True) + self.bias
        self._active = out > 0
        return out * self._active if self.relu else out

    def backward(self, gradient: Array) -> Array:
        if self.relu:
            gradient = gradient * self._active
        self.gradients = [np.einsum(self.weight_sum, self._windows, gradient, optimize=True), gradient.sum((0, 1, 2))]
        out = np.zeros(self._padded_shape, np.float32)
        rows, cols = (n * self.stride for n in gradient.shape[1:3])
        for row, col in np.ndindex(self.weights.shape[:2]):
            step = np.einsum(self.input_sum, gradient, self.weights[row, col], optimize=True)
            out[:, row:row + rows:self.stride, col:col + cols:self.stride] += step
        (top, _), (left, _) = self._pads
        return out[:, top:top + self._input_shape[1], left:left + self._input_shape[2]]

    forward_sum = weight_sum = input_sum = ""


class Conv(_Windowed):
    """CONV_2D; weights are (kernel, kernel, channels in, channels out)."""

    forward_sum, weight_sum, input_sum = "bijckl,klco->bijo", "bijckl,bijo->klco", "bijo,co->bijc"

    def __init__(self, rng: np.random.Generator, kernel: int, source: int, target: int, stride: int = 1,
                 relu: bool = True):
        spread = np.sqrt(2 / (kernel * kernel * source))
        super().__init__(rng.normal(0, spread, (kernel, kernel, source, target)), stride, relu)


class DepthwiseConv(_Windowed):
    """DEPTHWISE_CONV_2D with multiplier 1; weights are (kernel, kernel, channels)."""

    forward_sum, weight_sum, input_sum = "bijckl,klc->bijc", "bijckl,bijc->klc", "bijc,c->bijc"

    def __init__(self, rng: np.random.Generator, kernel: int, channels: int, relu: bool = True):
        super().__init__(rng.normal(0, np.sqrt(2) / kernel, (kernel, kernel, channels)), 1, relu)


class Residual(Layer):
    """ADD of the branch's output and its input, then RELU."""

    def __init__(self, *branch: Layer):
        super().__init__()
        self.branch = branch

    def __call__(self, x: Array) -> Array:
        """Return relu(x + branch(x))."""
        y = x
        for layer in self.branch:
            y = layer(y)
        total: Array = x + y
        self._active = total > 0
        out: Array = np.where(self._active, total, np.float32(0))
        return out

    def backward(self, gradient: Array) -> Array:
        """Add the gradients of both paths."""
        gradient = inner = gradient * self._active
        for layer in reversed(self.branch):
            inner = layer.backward(inner)
        out: Array = gradient + inner
        return out


class MaxPool(Layer):
    """MAX_POOL_2D, 2x2, stride 2, even sizes."""

    def __call__(self, x: Array) -> Array:
        """Return the maxima of the 2x2 blocks."""
        batch, rows, cols, channels = x.shape
        self._blocks = x.reshape(batch, rows // 2, 2, cols // 2, 2, channels)
        self._best: Array = self._blocks.max((2, 4), keepdims=True)
        out: Array = self._best[:, :, 0, :, 0]
        return out

    def backward(self, gradient: Array) -> Array:
        """Pass the gradient to the maxima, shared among equal ones."""
        hit = self._blocks == self._best
        spread = hit * gradient[:, :, None, :, None] / hit.sum((2, 4), keepdims=True)
        batch, rows, _, cols, _, channels = spread.shape
        out: Array = spread.reshape(batch, rows * 2, cols * 2, channels).astype(np.float32)
        return out


class Dense(Layer):
    """FULLY_CONNECTED over the flattened input; weights are (features, classes)."""

    def __init__(self, rng: np.random.Generator, source: int, target: int):
        super().__init__()
        self.weights = rng.normal(0, np.sqrt(1 / source), (source, target)).astype(np.float32)
        self.bias = np.zeros(target, np.float32)
        self.parameters = [self.weights, self.bias]

    def __call__(self, x: Array) -> Array:
        """Return the logits."""
        self._shape, self._flat = x.shape, x.reshape(len(x), -1)
        out: Array = self._flat @ self.weights + self.bias
        return out

    def backward(self, gradient: Array) -> Array:
        """Return the gradient in the input's shape."""
        self.gradients = [self._flat.T @ gradient, gradient.sum(0)]
        return (gradient @ self.weights.T).reshape(self._shape)


def softmax(logits: Array) -> Array:
    """Return the class probabilities of each row."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    probabilities: Array = powers / powers.sum(1, keepdims=True)
    return probabilities
