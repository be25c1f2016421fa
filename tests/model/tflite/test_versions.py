"""Versions of operators in a file are lowered in place."""

from dataclasses import replace

import numpy as np
import pytest

from tq_hw.model.errors import ModelError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.versions import with_version
from tq_hw.model.tflite.writer import write_model


def tiles() -> bytes:
    """Two operators, of versions 3 and 2."""
    b = ModelBuilder("m")
    tile = b.add("TILE", [b.input((1, 3), scale=0.5), b.constant(np.array([2, 1], np.int32))], scale=0.5, shape=(2, 3))
    model = b.model(b.add("ADD", [tile, tile], scale=0.5))
    operators = [replace(op, version=version) for op, version in zip(model.main.operators, (3, 2), strict=True)]
    return write_model(replace(model, subgraphs=(replace(model.main, operators=tuple(operators)),)))


def versions(data: bytes) -> list[int]:
    return [op.version for op in parse_model(data, "m").main.operators]


def test_newer_ones_of_one_operator_are_lowered() -> None:
    data = tiles()
    assert versions(data) == [3, 2]
    changed = with_version(data, "TILE", 2)
    assert versions(changed) == [2, 2]
    assert sum(one != other for one, other in zip(data, changed, strict=True)) == 1
    assert with_version(changed, "TILE", 3) == changed


def test_a_file_that_is_no_model_is_rejected() -> None:
    with pytest.raises(ModelError, match=r"^TILE: the file has 4 bytes, too short for a FlatBuffer header"):
        with_version(b"TFL3", "TILE", 1)
