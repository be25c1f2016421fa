"""16x8 operators in generated models of one operator, under every profile against the engine whose arithmetic it is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_sixteen import OPERATORS

from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

#: TFLite Micro has no kernel of int16 for them.
LITERT_ONLY = ("REDUCE_MAX", "REDUCE_MIN", "RESIZE_BILINEAR", "NEG", "EXP", "LOG", "GELU", "SQRT")


def sweep(op: str, seeds: range, oracles: Callable[[str], Oracle], random_sets: Callable[..., Any]) -> None:
    for seed in seeds:
        data = OPERATORS[op](np.random.default_rng([16, seed, *op.encode()]), op)
        model = parse_model(data, op)
        sets = random_sets(model, seed)
        # Canon is LiteRT's, but for FULLY_CONNECTED.
        profiles = {"litert-ref": ["litert", "canon"], "tflm": ["tflm"]}
        if op in LITERT_ONLY:
            del profiles["tflm"]
        if op == "FULLY_CONNECTED":
            profiles = {"litert-ref": ["litert"], "tflm": ["tflm", "canon"]}
        for engine, names in profiles.items():
            for inputs, expected in zip(sets, oracles(engine).run_sets(data, sets), strict=True):
                for name in names:
                    for ours, theirs in zip(run(model.under(name), inputs).outputs, expected, strict=True):
                        np.testing.assert_array_equal(ours, theirs.reshape(ours.shape), f"{op} {seed} {name}")
                        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("op", OPERATORS)
def test_equals_the_engines(op: str, oracles: Callable[[str], Oracle], random_sets: Callable[..., Any]) -> None:
    sweep(op, range(3), oracles, random_sets)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
def test_equals_the_engines_in_a_sweep(op: str, oracles: Callable[[str], Oracle],
                                       random_sets: Callable[..., Any]) -> None:
    sweep(op, range(3, 60), oracles, random_sets)
