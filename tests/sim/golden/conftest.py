"""Fixtures for the golden model's tests: the comparison with the public engines, and the record of comparisons."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tq_hw.cli.reference.engines import renew
from tq_hw.model.graph import Model
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

sys.path.insert(0, str(Path(__file__).parent))

Sets = Sequence[Sequence[np.ndarray]]


def random_inputs(model: Model, rng: np.random.Generator) -> list[np.ndarray]:
    """One array per input: all lowest, all highest, all zero point, or random."""
    arrays = []
    for index in model.main.inputs:
        tensor = model.main.tensors[index]
        if tensor.dtype == "float32":
            arrays.append(rng.normal(0, 2, tensor.shape).astype(np.float32))
            continue
        if tensor.dtype == "bool":
            arrays.append(rng.random(tensor.shape) < 0.5)
            continue
        info = np.iinfo(tensor.dtype)
        point = tensor.zero_point if tensor.quantization is not None else 0
        kind = rng.integers(8)
        fill = (info.min, info.max, point)[kind] if kind < 3 else 0
        array = (np.full(tensor.shape, fill) if kind < 3
                 else rng.integers(info.min, info.max + 1, tensor.shape))
        arrays.append(array.astype(tensor.dtype))
    return arrays


@pytest.fixture
def random_sets() -> Callable[..., list[list[np.ndarray]]]:
    """Give seeded input sets for a model: `random_sets(model, seed, count)`."""
    def sets(model: Model, seed: int, count: int = 4) -> list[list[np.ndarray]]:
        rng = np.random.default_rng(seed)
        return [random_inputs(model, rng) for _ in range(count)]
    return sets


@pytest.fixture(scope="session")
def engine_counts(request: pytest.FixtureRequest) -> Iterator[dict[str, Counter[str]]]:
    """Count models that agreed, by engine and by the operator that makes the output; `--record-engines` stores this."""
    counts: dict[str, Counter[str]] = {}
    yield counts
    if request.config.getoption("--record-engines"):
        renew(counts)


@pytest.fixture
def agree(oracles: Callable[[str], Oracle], engine_counts: dict[str, Counter[str]]) -> Callable[..., None]:
    """Assert that golden model and engine give equal outputs: `agree(engine, data, sets)`."""
    def check(engine: str, data: bytes, sets: Sets, reset: bool = True) -> None:
        # Without checks: the golden model also supports forms that the rules of the specification reject.
        model = parse_model(data, "generated", check=False)
        expected = oracles(engine).run_sets(data, sets, reset)
        state = None
        for inputs, outputs in zip(sets, expected, strict=True):
            result = run(model, inputs, None if reset else state)
            state = result.state
            for ours, theirs in zip(result.outputs, outputs, strict=True):
                assert ours.dtype == theirs.dtype
                # TFLite Micro gives a scalar the shape (1,).
                np.testing.assert_array_equal(ours, theirs.reshape(ours.shape))
        names = {op.op for op in model.main.operators if {*op.outputs} & {*model.main.outputs}}
        if len(names) == 1:
            engine_counts.setdefault(names.pop(), Counter())[engine] += 1
    return check
