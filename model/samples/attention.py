"""Attention as Keras and PyTorch export it in int8: heads, scores, a scale or a mask, SOFTMAX, heads again."""

import numpy as np

from tq_hw.model.samples.build import ModelBuilder

__all__ = ["attention"]


def attention(queries: int, keys: int, heads: int, width: int, *, between: str = "", apart: bool = False,
              shown: bool = False, dense: bool = False) -> bytes:
    """Return a model whose inputs [1, tokens, heads * width] are queries, keys and values; the output is like queries.

    `between` is what scores go through before SOFTMAX: nothing, a "scale", a "mask". `apart`: BATCH_MATMUL turns the
    keys, not TRANSPOSE. `shown`: scores are an output, too. `dense`: each input goes through a dense layer first.
    """
    b = ModelBuilder("attention")

    def split(tokens: int, point: int, order: tuple[int, ...]) -> int:
        x = b.input((1, tokens, heads * width), scale=0.03, zero_point=point)
        if dense:
            weights = np.random.default_rng(point + 7).integers(-127, 128, (heads * width,) * 2, np.int8)
            x = b.add("FULLY_CONNECTED", [x, b.constant(weights, scale=0.01)], keep_num_dims=True, scale=0.05,
                      zero_point=-point)
        parts = b.add("RESHAPE", [x, b.constant([1, tokens, heads, width])], shape=(1, tokens, heads, width))
        return b.add("TRANSPOSE", [parts, b.constant(list(order))])

    upright = (0, 2, 1, 3)
    q, k, v = split(queries, 5, upright), split(keys, -7, upright if apart else (0, 2, 3, 1)), split(keys, 11, upright)
    scores = b.add("BATCH_MATMUL", [q, k], adj_y=apart, scale=0.01 * float(np.sqrt(width)), zero_point=3)
    if between == "scale":
        scores = b.add("MUL", [scores, b.constant(np.array(77, np.int8), scale=0.004, zero_point=-3)], scale=0.012,
                       zero_point=-2)
    if between == "mask":
        mask = np.random.default_rng(queries).integers(-128, 128, (1, 1, queries, keys)).astype(np.int8)
        scores = b.add("ADD", [scores, b.constant(mask, scale=0.02, zero_point=7)], scale=0.05, zero_point=1)
    made = b.add("BATCH_MATMUL", [b.add("SOFTMAX", [scores]), v], scale=0.004, zero_point=-9)
    out = b.add("TRANSPOSE", [made, b.constant(list(upright))])
    return b.build(*([out, scores] if shown else [out]))
