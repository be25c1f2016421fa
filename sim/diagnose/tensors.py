"""Intermediate tensors of any engine: recompile a model with the wanted tensors among its outputs."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Model

__all__ = ["find_tensor", "with_outputs"]


def find_tensor(model: Model, wanted: str) -> int:
    """Return the index of an activation tensor of the main subgraph, given by name or index."""
    made = {index: op for op in model.main.operators for index in op.outputs}
    names = {model.main.tensors[index].name: index for index in made}
    if wanted in names:
        return names[wanted]
    # Python reads integers of at most 4300 digits.
    if wanted.isdecimal() and len(wanted) < 20 and int(wanted) in made:
        return int(wanted)
    there = list(names.items())[:4]
    near = get_close_matches(wanted, names, 1)
    raise OptionError(f"--dump {wanted}: no operator of {model.name} computes a tensor of that name or index; "
                      f"available are, by index, {', '.join(f'{index} ({_short(name)})' for name, index in there)}"
                      f"{', ...' if len(names) > len(there) else ''}"
                      + (f"; did you mean {names[near[0]]} ({_short(near[0])})?" if near else ""))


def _short(name: str) -> str:
    """The first part of a fused name."""
    first, *more = name.split(";")
    return f"{first};..." if more else first


def with_outputs(model: Model, tensors: Sequence[int]) -> Model:
    """Return the model with additional tensors as outputs."""
    main = replace(model.main, outputs=(*model.main.outputs, *tensors))
    return replace(model, subgraphs=(main, *model.subgraphs[1:]))
