"""16x8 operators in generated models of one operator: each profile gives the results of its engine."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from random_sixteen import OPERATORS

from tq_hw.cli.reference.engines import WIDE_SUFFIX
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

#: Operators without an int16 kernel in TFLite Micro.
LITERT_ONLY = ("REDUCE_MAX", "REDUCE_MIN", "RESIZE_BILINEAR", "NEG", "EXP", "LOG", "GELU", "SQRT", "LESS", "LESS_EQUAL",
               "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL", "DIV", "TOPK_V2")
#: LiteRT rejects the first one, and the second one reads its input as bytes; canon follows TFLite Micro.
TFLM_ONLY = ("SQUARED_DIFFERENCE", "SUM")


@pytest.fixture
def sweep(oracles: Callable[[str], Oracle], random_sets: Callable[..., Any],
          engine_counts: dict[str, Counter[str]]) -> Callable[[str, range], None]:
    """Compare models with these seeds; count them if canon gives equal results for all."""
    return partial(_sweep, oracles, random_sets, engine_counts)


def _sweep(oracles: Callable[[str], Oracle], random_sets: Callable[..., Any], counts: dict[str, Counter[str]], op: str,
           seeds: range) -> None:
    equal: Counter[str] = Counter()
    for seed in seeds:
        data = OPERATORS[op](np.random.default_rng([16, seed, *op.encode()]), op)
        model = parse_model(data, op)
        sets = random_sets(model, seed)
        # Canon is LiteRT's arithmetic, except for FULLY_CONNECTED.
        profiles = {"litert-ref": ["litert", "canon"], "tflm": ["tflm"]}
        if op in LITERT_ONLY:
            del profiles["tflm"]
        if op in TFLM_ONLY:
            profiles = {"tflm": ["tflm", "canon"]}
        if op == "FULLY_CONNECTED":
            profiles = {"litert-ref": ["litert"], "tflm": ["tflm", "canon"]}
        for engine, names in profiles.items():
            for inputs, expected in zip(sets, oracles(engine).run_sets(data, sets), strict=True):
                for name in names:
                    for ours, theirs in zip(run(model.under(name), inputs).outputs, expected, strict=True):
                        np.testing.assert_array_equal(ours, theirs.reshape(ours.shape), f"{op} {seed} {name}")
                        assert ours.dtype == theirs.dtype
                # Canon may give the results of an engine whose arithmetic it does not always follow.
                equal[engine] += all(np.array_equal(ours, theirs.reshape(ours.shape)) for ours, theirs in zip(
                    run(model, inputs).outputs, expected, strict=True))
    found = counts.setdefault(f"{model.main.operators[-1].op}{WIDE_SUFFIX}", Counter())
    for engine in profiles:
        if equal[engine] == len(seeds) * len(sets):
            found[engine] += len(seeds)
        else:
            found.pop(engine, None)


@pytest.mark.parametrize("op", OPERATORS)
def test_equals_the_engines(op: str, sweep: Callable[[str, range], None]) -> None:
    sweep(op, range(3))


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
def test_equals_the_engines_in_a_sweep(op: str, sweep: Callable[[str, range], None]) -> None:
    sweep(op, range(3, 60))
