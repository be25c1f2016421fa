"""Random graphs with random operators on the host equal the whole graph in LiteRT, from memory and from a file."""

import random
import sys
from dataclasses import replace

import numpy as np
import pytest

from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.compiler.partition import partition
from tq_hw.isa.config import load_config
from tq_hw.isa.memory import Memory
from tq_hw.model.cut import compact
from tq_hw.model.errors import ToolError, UnsupportedError
from tq_hw.model.random.graphs import random_graph
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.mixed import MixedEngine
from tq_hw.sim.oracles import Oracle


def test_random_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[partition.__module__]
    plain, rng = module.find_pieces, random.Random(2)
    monkeypatch.setattr(module, "find_pieces", lambda *model, **options: [
        replace(piece, refusal="drawn") if rng.random() < 0.35 else piece for piece in plain(*model, **options)])
    checked = 0
    with Oracle("litert-ref") as oracle:
        for seed in range(24):
            data = write_model(random_graph(seed))
            model = parse_model(data, "m.tflite", rules=False)
            sets = draw_inputs(model, 1, seed)
            try:
                made, expected = partition(model, load_config("tiny")), oracle.run(data, sets[0])
            except (ToolError, UnsupportedError):  # LiteRT does not run the graph, or all of it is on the host
                continue
            read = parse_model(write_model(compact(made.model)), "tq.tflite", rules=False)
            for mixed in (made.model, read):
                found = MixedEngine(mixed, "executor", Memory()).infer(sets[0]).outputs
                for array, right in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(array, right, strict=True)
            checked += 1
    assert checked >= 12
