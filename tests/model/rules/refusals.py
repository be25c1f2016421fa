"""What the rules of operators say of a model that they refuse."""

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
