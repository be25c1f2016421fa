"""Networks of common kinds give the results of LiteRT's reference kernels."""

from collections.abc import Callable
from typing import Any

import pytest

from tq_hw.model.samples.networks import NETWORKS, network
from tq_hw.model.tflite.writer import write_model


def _check(kind: str, seeds: range, agree: Callable[..., None], random_sets: Callable[..., Any]) -> None:
    for seed in seeds:
        model = network(kind, seed)
        agree("litert-ref", write_model(model), random_sets(model, seed))


# FULLY_CONNECTED follows TFLite Micro, whose results sometimes differ from LiteRT's, as in lstm 0 and attention 0.
@pytest.mark.parametrize("kind", NETWORKS)
def test_equals_litert(kind: str, agree: Callable[..., None], random_sets: Callable[..., Any]) -> None:
    _check(kind, range(1, 4), agree, random_sets)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in NETWORKS if kind not in ("lstm", "attention")])
def test_equals_litert_in_a_sweep(kind: str, agree: Callable[..., None], random_sets: Callable[..., Any]) -> None:
    _check(kind, range(4, 40), agree, random_sets)
