"""`SignatureRunner`: LiteRT's interface to run a model by tensor names, on the accelerator."""

from typing import Any

import numpy as np

from tq_hw.model.graph import Signature
from tq_hw.session import Session
from tq_hw.sim.engines import Array

__all__ = ["SignatureRunner"]


class SignatureRunner:
    """Runs one signature. A call takes an array per input, by the signature's names, and returns a dict of the outputs.

    A new input shape recompiles the model if the model leaves that shape open; otherwise it is a ValueError. Variables
    persist between calls.
    """

    def __init__(self, session: Session, signature: Signature):
        self._session, self._signature = session, signature

    def __call__(self, **inputs: Array) -> dict[str, Array]:
        """Run one inference."""
        names = self._signature.inputs
        if len(inputs) != len(names):
            raise ValueError("Invalid number of inputs provided for running a SignatureDef, expected "
                             f"{len(names)} vs provided {len(inputs)}")
        for name, value in inputs.items():
            if name not in names:
                raise ValueError(f"Invalid Input name ({name}) for SignatureDef")
            if np.shape(value) != self._session.source.main.tensors[names[name]].shape:
                self._session.resize(names[name], np.shape(value))
        if not self._session.is_allocated:
            self._session.allocate()
        for name, value in inputs.items():
            self._session.set(names[name], value)
        self._session.invoke()
        return {name: self._session.held(index).copy() for name, index in self._signature.outputs.items()}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """Return a record per input, by the signature's names."""
        return self._details(self._signature.inputs)

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """Return a record per output, by the signature's names."""
        return self._details(self._signature.outputs)

    def _details(self, named: Any) -> dict[str, dict[str, Any]]:
        return dict(zip(named, self._session.details(named.values()), strict=True))
