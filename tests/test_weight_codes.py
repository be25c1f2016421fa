"""The bench of weight codes: bits of blocks whose codes can be counted by hand."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_hw.model.samples.layers import sample

sys.path.insert(0, str(Path(__file__).parents[1] / "benches"))
bench: Any = importlib.import_module("weight_codes")


@pytest.mark.parametrize(("block", "bits"), [
    ([0] * 8, {"raw": 64, "zero mask": 8, "palette": 8, "narrow": 8, "fields": 8, "Rice": 8, "mask + Rice": 8}),
    ([0, 0, 0, 0, 0, 0, 0, 100],
     {"raw": 64, "zero mask": 16, "palette": 24, "narrow": 64, "fields": 16, "Rice": 52, "mask + Rice": 18}),
    # 0, 1, 2, 3, 4, 5 in fields of 3 bits; -128 is 255, beyond them.
    ([0, -1, 1, -2, 2, -3, 0, -128],
     {"raw": 64, "zero mask": 56, "palette": 80, "narrow": 72, "fields": 32, "Rice": 55, "mask + Rice": 51}),
])
def test_bits_of_a_block(block: list[int], bits: dict[str, int]) -> None:
    data = np.array(block, np.int8)
    assert {name: code(data) for name, code in bench.CODES.items()} == bits


def test_blocks_are_whole_words_with_a_header() -> None:
    zeros = np.zeros(256, np.int8)
    assert bench.block_bits(zeros, ["raw"]) == 2048 + 32
    assert bench.block_bits(zeros, ["raw", "zero mask"]) == 256 + 32
    assert bench.block_bits(np.arange(256, dtype=np.uint8).view(np.int8), list(bench.CODES)) == 2048 + 32


def test_entropy() -> None:
    assert bench.entropy_bits(np.arange(16, dtype=np.int8)) == 64
    assert bench.entropy_bits(np.zeros(16, np.int8)) == 0


def test_weights_are_read_by_columns() -> None:
    model = sample("conv", 1)
    weights = next(model.main.tensors[op.inputs[1]].data for op in model.main.operators if op.op == "CONV_2D")
    assert weights is not None
    stream, = bench.weight_streams(model, 2)
    assert stream.size == weights.size
    assert stream[:2].tolist() == [weights[0].ravel()[0], weights[1].ravel()[0]]
    found = bench.figures(model, 256, 2)
    assert found.weight_bytes == weights.size and found.ratios["best"] >= max(
        ratio for name, ratio in found.ratios.items() if name != "best")
