"""Models with one change, and the messages with which the rules of operators reject them."""

import dataclasses
from typing import Any

import pytest

from tq_hw.model.errors import ModelError, TqError
from tq_hw.model.graph import Model
from tq_hw.model.rules.check import check_model


def message_of(model: Model, error: type[TqError] = ModelError) -> str:
    with pytest.raises(TqError) as caught:
        check_model(model, "m.tflite")
    assert type(caught.value) is error
    prefix = f"m.tflite: subgraph 0, operator 0 {model.main.operators[0].op}: "
    assert str(caught.value).startswith(prefix)
    return str(caught.value)[len(prefix):]


def edit_tensor(model: Model, index: int, **changes: Any) -> Model:
    tensors = list(model.main.tensors)
    tensors[index] = dataclasses.replace(tensors[index], **changes)
    return Model(model.name, (dataclasses.replace(model.main, tensors=tuple(tensors)),))


def edit_operator(model: Model, **changes: Any) -> Model:
    operator = dataclasses.replace(model.main.operators[0], **changes)
    return Model(model.name, (dataclasses.replace(model.main, operators=(operator,)),))


def options(model: Model, **changes: Any) -> Model:
    return edit_operator(model, options=dict(model.main.operators[0].options) | changes)
