"""Errors have a reason and an offer: both are shown, and code that handles an error keeps them apart."""

import pickle

import pytest

from tq_hw.model import errors
from tq_hw.model.errors import TqError


def test_the_offer_is_shown_after_the_reason() -> None:
    error = TqError("it does not fit", "; `tq-hw x` cuts it")
    assert (str(error), error.reason) == ("it does not fit; `tq-hw x` cuts it", "it does not fit")
    assert str(TqError("alone")) == "alone"


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name.endswith("Error")])
def test_an_offer_goes_with_its_error(name: str) -> None:
    """When it is reworded, and when it is sent to another process."""
    error = getattr(errors, name)("it does not fit", "; `tq-hw x` cuts it")
    moved = pickle.loads(pickle.dumps(error.reworded(f"m.tflite: {error.reason}")))
    assert type(moved) is type(error)
    assert str(moved) == "m.tflite: it does not fit; `tq-hw x` cuts it"
