"""Rewrites of operators before they become layers: the same integers from fewer or cheaper operators.

A pattern is a function of a `Subject` and the last operator of a group. It returns a `Rewrite`, the removed and the new
operators, or None. The patterns are in `library.py` and in users' files (`own.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.model.errors import OptionError, TqError
from tq_hw.model.graph import Model, Operator, OptionValue, Quantization, Subgraph, Tensor
from tq_hw.sim.golden.registry import Array
from tq_hw.sim.golden.run import run

__all__ = ["ADDED_WEIGHTS", "Pattern", "Rewrite", "Subject", "changed", "check_rewrite", "pattern", "rewrite"]

#: Most passes over all operators; patterns that need more undo each other.
_PASSES = 64
#: Option of a CONV_2D that a pattern made: the number of its weights that are not in the model, for reports of work.
ADDED_WEIGHTS = "added_weights"


@dataclass(frozen=True)
class Rewrite:
    """The result of a pattern: the removed operators, and those that replace them in order of execution.

    The new operators write every output of the old ones that is still needed. `same` maps the index of an old output to
    another tensor that already has the same bytes.
    """

    old: Sequence[Operator]
    new: Sequence[Operator]
    same: tuple[int, int] | None = None


class Subject:
    """The operators of a subgraph, as the interface of patterns.

    Members
    -------
    tensors : records by index; patterns add to them with `add_tensor` and `add_constant`
    """

    def __init__(self, subgraph: Subgraph):
        self._subgraph = subgraph
        self.tensors = list(subgraph.tensors)
        self._reindex(subgraph.operators)

    def _reindex(self, operators: Sequence[Operator]) -> None:
        self._operators = list(operators)
        self._producers = {index: op for op in operators for index in op.outputs}
        self._uses: dict[int, int] = dict.fromkeys(self._subgraph.outputs, 1)
        for op in operators:
            for index in op.inputs:
                self._uses[index] = self._uses.get(index, 0) + 1

    @property
    def subgraph(self) -> Subgraph:
        """The current subgraph."""
        return replace(self._subgraph, tensors=tuple(self.tensors), operators=tuple(self._operators))

    def input(self, op: Operator, position: int = 0) -> Tensor:
        """Return the record of an input, which must be present."""
        return self.tensors[op.inputs[position]]

    def output(self, op: Operator) -> Tensor:
        """Return the record of the first output."""
        return self.tensors[op.outputs[0]]

    def constant(self, op: Operator, position: int) -> Array | None:
        """Return the contents of an input, None if it is absent or computed."""
        if position >= len(op.inputs) or op.inputs[position] < 0:
            return None
        return self.input(op, position).data

    def producer(self, op: Operator, position: int = 0) -> Operator | None:
        """Return the operator that computes an input; None if there is none or others need the tensor, too."""
        if position >= len(op.inputs) or self._uses.get(op.inputs[position]) != 1:
            return None
        found = self._producers.get(op.inputs[position])
        return found if found is not None and len(found.outputs) == 1 else None

    def maker(self, tensor: int) -> Operator | None:
        """Return the operator that computes a tensor; None for an input or a constant."""
        return self._producers.get(tensor)

    def uses(self, tensor: int) -> int:
        """Return how often operators and the caller read a tensor."""
        return self._uses.get(tensor, 0)

    def is_used(self, tensor: int) -> bool:
        """Whether an operator or the caller needs a tensor."""
        return self._uses.get(tensor, 0) > 0

    def is_output(self, tensor: int) -> bool:
        """Whether a tensor is an output of the model."""
        return tensor in self._subgraph.outputs

    def add_tensor(self, like: Tensor, shape: Sequence[int] | None = None) -> int:
        """Add a tensor with the type and quantization of `like`; return its index."""
        index = len(self.tensors)
        self.tensors.append(replace(like, index=index, name=f"{like.name} ({index})", data=None,
                                    shape=like.shape if shape is None else tuple(int(size) for size in shape)))
        return index

    def add_constant(self, data: Array, quantization: Quantization | None = None) -> int:
        """Add a constant; return its index."""
        index = len(self.tensors)
        self.tensors.append(Tensor(index, f"constant {index}", data.dtype.name, data.shape, quantization, data))
        return index

    def _count(self, found: Rewrite) -> None:
        """Update the reader counts after a rewrite: other patterns use them in the same pass."""
        for sign, operators in ((-1, found.old), (1, found.new)):
            for op in operators:
                for index in op.inputs:
                    self._uses[index] = self._uses.get(index, 0) + sign
        if found.same is not None:
            old, other = found.same
            self._uses[other] = self._uses.get(other, 0) + self._uses.get(old, 0)

    def apply(self, patterns: Sequence["Pattern"]) -> set[str]:
        """Visit the operators once, from last to first; return the names of the patterns that matched."""
        by_name: dict[str, list[Pattern]] = {}
        for each in patterns:
            for name in each.ends_with:
                by_name.setdefault(name, []).append(each)
        new: dict[int, Sequence[Operator]] = {}
        gone: set[int] = set()
        fitted: set[str] = set()
        same: dict[int, int] = {}
        for op in reversed(self._operators):
            for each in by_name.get(op.op, ()):
                found = None if id(op) in gone else each.function(self, op)
                if found is not None and not gone & {id(old) for old in found.old}:
                    gone |= {id(old) for old in found.old}
                    new[id(op)] = [replace(each, index=op.index) for each in found.new]
                    if found.same is not None:
                        same[found.same[0]] = found.same[1]
                    self._count(found)
                    fitted.add(each.name)
                    break
        operators = [made for op in self._operators
                     for made in (new.get(id(op), ()) if id(op) in gone else (op,))]
        while any(index in same for op in operators for index in op.inputs):
            operators = [replace(op, inputs=tuple(same.get(index, index) for index in op.inputs)) for op in operators]
        self._reindex(operators)
        return fitted


@dataclass(frozen=True)
class Pattern:
    """A pattern and the names of the operators that it can end with."""

    ends_with: tuple[str, ...]
    function: Callable[[Subject, Operator], Rewrite | None]

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.__name__


def pattern(*ends_with: str) -> Callable[[Callable[[Subject, Operator], Rewrite | None]], Pattern]:
    """Turn the decorated function into a pattern; it is called with each operator of one of the names."""
    def make(function: Callable[[Subject, Operator], Rewrite | None]) -> Pattern:
        return Pattern(ends_with, function)
    return make


def changed(op: Operator, *, inputs: Sequence[int] | None = None, outputs: Sequence[int] | None = None,
            options: Mapping[str, OptionValue] | None = None, **named: OptionValue) -> Operator:
    """Return an operator with other tensors or options; options are keywords, in `options`, or both."""
    return replace(op, inputs=tuple(op.inputs if inputs is None else inputs),
                   outputs=tuple(op.outputs if outputs is None else outputs),
                   options={**op.options, **(options or {}), **named})


def rewrite(subgraph: Subgraph, patterns: Sequence[Pattern]) -> Subgraph:
    """Apply patterns until none matches.

    Raises OptionError if they do not terminate.
    """
    subject, late = Subject(subgraph), set[str]()
    for number in range(_PASSES):
        if not (fitted := subject.apply(patterns)):
            return subject.subgraph
        late |= fitted if number >= _PASSES // 2 else set()
    names = ", ".join(each.name for each in patterns if each.name in late)
    what = f"the patterns {names} undo each other" if len(late) > 1 else f"pattern {names} matches its own result"
    raise OptionError(f"{what}: after {_PASSES} passes there is still something to rewrite")


def check_rewrite(model: Model, subgraph: Subgraph, sets: int = 2) -> None:
    """Compare a rewritten main subgraph with the model on random inputs, in the golden model.

    Raises OptionError with the name of an output that differs, or with the golden model's error about an operator.
    """
    other = Model(model.name, (subgraph, *model.subgraphs[1:]))
    for seed in range(sets):
        inputs = [_random(model.main.tensors[index], np.random.default_rng([seed, index]))
                  for index in model.main.inputs]
        expected = run(model, inputs).outputs
        try:
            found = run(other, inputs).outputs
        except TqError as error:
            raise OptionError(f"the model does not run after the patterns: {error}") from error
        for position, (want, got) in enumerate(zip(expected, found, strict=True)):
            if not np.array_equal(want, got):
                raise OptionError(f"the patterns change output {position} at "
                                  f"{int((want != got).sum())} of {want.size} elements (random inputs, seed {seed})")


def _random(tensor: Tensor, rng: np.random.Generator) -> Array:
    dtype = np.dtype(tensor.dtype)
    if dtype.kind == "f":
        return rng.normal(0, 4, tensor.shape).astype(dtype)
    # int32 and int64 inputs are usually indices: 0 and 1 exist in most tables.
    low, high = (0, 1) if dtype.itemsize > 2 or dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return rng.integers(low, high, tensor.shape, endpoint=True).astype(dtype)
