"""Convolutions in groups become several of whole words: the same integers, from fewer weights of zero."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.groups import parts_of_groups
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))
from agreement import random_config


@dataclass(frozen=True)
class Case:
    """A convolution in groups; `pad`: with a PAD before it."""

    groups: int
    inputs: int
    outputs: int
    depthwise: bool = False
    dtype: str = "int8"
    kernel: int = 3
    stride: int = 1
    pad: bool = False
    per_channel: bool = True
    has_bias: bool = True
    activation: str = "NONE"

    def build(self, seed: int = 0) -> bytes:
        rng, b = np.random.default_rng([36, seed]), ModelBuilder("groups")
        channels, outputs = self.groups * self.inputs, self.groups * self.outputs
        point = 5 if self.dtype == "int8" else 0
        x = b.input((1, 6, 5, channels), self.dtype, scale=0.04, zero_point=point)
        if self.pad:
            x = b.add("PAD", [x, b.constant(np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32))])
        side = (self.kernel, self.kernel)
        shape = (1, *side, outputs) if self.depthwise else (outputs, *side, self.inputs)
        scales = rng.uniform(0.001, 0.01, outputs).tolist()
        weights = b.constant(rng.integers(-127, 128, shape).astype(np.int8), dimension=3 if self.depthwise else 0,
                             scale=scales if self.per_channel else 0.004)
        bias = [b.bias(x, weights, rng.integers(-500, 500, outputs))] if self.has_bias else []
        return b.build(b.add("DEPTHWISE_CONV_2D" if self.depthwise else "CONV_2D", [x, weights, *bias],
                             scale=0.05, zero_point=-2 if point else 0, padding="VALID" if self.pad else "SAME",
                             stride_h=self.stride, stride_w=self.stride, fused_activation_function=self.activation))


CASES = {
    "two parts": Case(4, 8, 8),
    "a smaller last part": Case(5, 8, 16, stride=2),
    "a group in each part": Case(3, 16, 32, kernel=1, activation="RELU6"),
    "other outputs": Case(8, 4, 12, per_channel=False),
    "one input channel": Case(48, 1, 3),
    "after a PAD": Case(4, 8, 8, stride=2, pad=True),
    "a depth multiplier": Case(40, 1, 2, depthwise=True),
    "sixteen bits": Case(8, 8, 8, dtype="int16"),
    "sixteen bits, single pixels": Case(16, 16, 16, kernel=1, dtype="int16"),
    "sixteen bits with a depth multiplier": Case(64, 1, 3, depthwise=True, dtype="int16", pad=True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_parts_are_equal_to_the_whole(case: Case, litert: Oracle) -> None:
    data = case.build()
    model = parse_model(data, "groups").under("litert")
    found = [op.op for op in rewrite(model.main, (parts_of_groups(16), *LIBRARY)).operators]
    each = max(16 // np.gcd(16, case.inputs), 16 // np.gcd(16, case.outputs))
    parts = -(-case.groups // each)
    step = ["SLICE", *["PAD"] * case.pad, "DEPTHWISE_CONV_2D" if case.depthwise else "CONV_2D"]
    assert parts > 1
    assert found == [*step * parts, "CONCATENATION"]
    check(model, ("n16", "n8", "tiny", "serial"))
    for ours, theirs in zip(run(model, random_inputs(model)).outputs, litert.run(data, list(random_inputs(model))),
                            strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


def check(model: Model, configs: tuple[str, ...]) -> None:
    inputs = random_inputs(model)
    expected = run(model, inputs).outputs
    for config in configs:
        found = execute(compile_model(model, load_config(config)).program, inputs).outputs
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.parametrize("case", [Case(3, 5, 5), Case(1, 32, 32), Case(32, 1, 1), Case(2, 8, 8),
                                  Case(1, 1, 32, depthwise=True), Case(4, 8, 8, kernel=1, dtype="int16"),
                                  Case(8, 16, 16, kernel=1, dtype="int16")])
def test_what_stays_whole(case: Case) -> None:
    model = parse_model(case.build(), "groups")
    assert [op.op for op in rewrite(model.main, (parts_of_groups(16), *LIBRARY)).operators] == [
        "DEPTHWISE_CONV_2D" if case.depthwise else "CONV_2D"]


def test_a_pad_with_another_reader_stays() -> None:
    b = ModelBuilder("groups")
    x = b.input((1, 4, 4, 32), scale=0.04)
    x = b.add("PAD", [x, b.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))])
    weights = b.constant(np.ones((32, 3, 3, 16), np.int8), scale=0.01)
    y = b.add("CONV_2D", [x, weights, b.bias(x, weights, np.zeros(32, np.int32))], scale=0.1, padding="VALID")
    model = parse_model(b.build(y, b.add("RELU", [x])), "groups")
    assert [op.op for op in rewrite(model.main, (parts_of_groups(16),)).operators] == [
        "PAD", *["SLICE", "PAD", "CONV_2D"] * 2, "CONCATENATION", "RELU"]
    check(model, ("n16", "tiny"))


def test_channels_that_a_pad_adds_are_sliced_after_it() -> None:
    b = ModelBuilder("groups")
    x = b.input((1, 4, 4, 24), scale=0.04, zero_point=7)
    x = b.add("PAD", [x, b.constant(np.array([[0, 0], [0, 0], [0, 0], [3, 5]], np.int32))])
    weights = b.constant(np.ones((32, 3, 3, 16), np.int8), scale=0.01)
    model = parse_model(b.build(b.add("CONV_2D", [x, weights], scale=0.1, padding="SAME")), "groups")
    assert [op.op for op in rewrite(model.main, (parts_of_groups(16),)).operators] == [
        "PAD", *["SLICE", "CONV_2D"] * 2, "CONCATENATION"]
    check(model, ("n16", "tiny"))


@pytest.mark.parametrize("seed", range(12))
def test_random_groups(seed: int) -> None:
    rng = np.random.default_rng([37, seed])
    depthwise = bool(rng.integers(2))
    case = Case(int(rng.integers(2, 20)), 1 if depthwise else int(rng.choice((1, 2, 4, 8, 12, 16, 24))),
                int(rng.choice((1, 2, 3, 4, 8, 16))), depthwise, str(rng.choice(("int8", "int16"))),
                int(rng.integers(1, 4)), int(rng.integers(1, 3)), bool(rng.integers(2)), bool(rng.integers(2)),
                bool(rng.integers(2)), str(rng.choice(("NONE", "RELU", "RELU6"))))
    model = parse_model(case.build(seed), "groups")
    inputs = random_inputs(model)
    found = execute(compile_model(model, random_config(seed)).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)
