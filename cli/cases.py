"""The cases of `verify`: a model, or every model of a folder, each with its stored inputs and expectations.

A case is `<name>.tflite` and, if there are expectations, `<name>.npz` with arrays `input_j` and `expected_j` whose
first axis is the input set. If the output of a public engine differs, it is in `tflm_j` or `ref_j` (LiteRT's reference
kernels).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.cli.shared.arrays import find_inputs, input_kinds
from tq_hw.cli.shared.files import read_npz
from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Model
from tq_hw.sim.engines import InputSet

__all__ = ["Case", "Stored", "find_cases", "read_stored"]

Array = npt.NDArray[Any]
_EXPECTED = "expected_"
#: Arrays that take precedence over those, by profile.
_OWN = {"tflm": "tflm_", "litert": "ref_"}


@dataclass(frozen=True)
class Case:
    """One model to verify; `stored` is the .npz next to it, or None."""

    name: str
    model: Path
    stored: Path | None


@dataclass(frozen=True)
class Stored:
    """Stored input sets and their expected outputs."""

    inputs: list[InputSet]
    expected: list[tuple[Array, ...]]


def find_cases(paths: Iterable[str]) -> list[Case]:
    """Return the cases of each path in order, those of a folder by name; OptionError for a path without a case."""
    cases = []
    for name in paths:
        path = Path(name)
        if path.is_dir():
            models = sorted(path.glob("*.tflite")) or sorted((path / "cases").glob("*.tflite"))
            if not models:
                raise OptionError(f"{name}: expected a folder of .tflite files, or one with a folder `cases` of them, "
                                  "found none")
            cases += [_case(model) for model in models]
        elif not path.exists():
            raise OptionError(f"{name}: expected a model or a folder of models, found no such file")
        elif path.suffix == ".npz":
            raise OptionError(f"{name}: expected a model or a folder; the .npz beside a model is found by itself")
        else:
            cases.append(_case(path))
    return cases


def _case(model: Path) -> Case:
    stored = model.with_suffix(".npz")
    return Case(model.stem, model, stored if stored.is_file() else None)


def read_stored(case: Case, model: Model) -> Stored | None:
    """Return a case's stored input sets, with the expectations of the model's profile; None if it has none.

    Raises OptionError when the archive does not fit the model.
    """
    if case.stored is None:
        return None
    arrays = read_npz(str(case.stored))
    count = len(model.main.outputs)
    own = _OWN.get(model.profile, _EXPECTED)
    names = [f"{own}{j}" if f"{own}{j}" in arrays else f"{_EXPECTED}{j}" for j in range(count)]
    expected = [arrays[name] for name in names if name in arrays]
    if not expected:
        return None
    if len(expected) < count:
        raise OptionError(f"{case.stored}: expected the arrays {_EXPECTED}0 to {_EXPECTED}{count - 1}, found "
                          f"{', '.join(arrays)}")
    inputs, _ = find_inputs(arrays, input_kinds(model), str(case.stored))
    if not model.main.inputs:
        inputs = [()] * len(expected[0])
    for name, index, array in zip(names, model.main.outputs, expected, strict=True):
        tensor = model.main.tensors[index]
        if array.dtype != np.dtype(tensor.dtype) or array.shape != (len(inputs), *tensor.shape):
            raise OptionError(f"{case.stored}: array '{name}' must be {tensor.dtype}"
                              f"{[len(inputs), *tensor.shape]}, found {array.dtype.name}{list(array.shape)}")
    return Stored(inputs, [tuple(array[number] for array in expected) for number in range(len(inputs))])
