"""An operator with its tensors, as shape inference and rules see it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tq_hw.model.errors import ModelError, UnsupportedError
from tq_hw.model.graph import Operator, Tensor

__all__ = ["Node"]


@dataclass(frozen=True, eq=False)
class Node:
    """An operator, the tensors of its subgraph, and what messages call it.

    Members
    -------
    place : file, subgraph, index and name of the operator
    """

    operator: Operator
    tensors: Sequence[Tensor]
    place: str

    def error(self, rule: str, offer: str = "") -> ModelError:
        """Return the error for a rule that the operator breaks; the caller raises it."""
        return ModelError(f"{self.place}: {rule}", offer)

    def unsupported(self, rule: str, offer: str = "") -> UnsupportedError:
        """Return the error for something legal that is not supported; the caller raises it."""
        return UnsupportedError(f"{self.place}: {rule}", offer=offer)

    def optional(self, position: int) -> Tensor | None:
        """Return an input, or None when it is absent."""
        inputs = self.operator.inputs
        if position >= len(inputs) or inputs[position] < 0:
            return None
        return self.tensors[inputs[position]]

    def input(self, position: int) -> Tensor:
        """Return an input; raise `ModelError` when it is absent."""
        tensor = self.optional(position)
        if tensor is None:
            raise self.error(f"input {position} is missing")
        return tensor

    def output(self, position: int = 0) -> Tensor:
        """Return an output; raise `ModelError` when it is absent."""
        if position >= len(self.operator.outputs):
            raise self.error(f"output {position} is missing")
        return self.tensors[self.operator.outputs[position]]

    def inputs(self) -> list[Tensor]:
        """Return the inputs that are present."""
        return [self.tensors[index] for index in self.operator.inputs if index >= 0]

    def outputs(self) -> list[Tensor]:
        """Return the outputs."""
        return [self.tensors[index] for index in self.operator.outputs]

    def shape(self, position: int, rank: int | None = None, what: str = "input") -> tuple[int, ...]:
        """Return the shape of an input; raise `ModelError` when its rank is not `rank`."""
        shape = self.input(position).shape
        if rank is not None and len(shape) != rank:
            raise self.error(f"{what} has shape {list(shape)} of rank {len(shape)}, expected "
                             f"rank {rank}")
        return shape

    def integers(self, position: int, what: str, count: int | None = None, any_rank: bool = False) -> list[int] | None:
        """Return the elements of a constant integer input in order, None when it is no constant.

        Raises `ModelError` when there are not `count` of them, or more than 64 with no count given, and, unless
        `any_rank` is set, when it is no vector; one axis may be a scalar.
        """
        tensor = self.input(position)
        if not tensor.dtype.startswith("int"):
            raise self.error(f"{what} is {tensor.dtype}, expected an integer type")
        if len(tensor.shape) != 1 and not any_rank and (tensor.shape or what != "axis"):
            raise self.error(f"{what} has shape {list(tensor.shape)}, expected a vector")
        size = math.prod(tensor.shape)
        if size != count if count is not None else size > 64:
            expected = "at most 64" if count is None else str(count)
            raise self.error(f"{what} has {size} elements, expected {expected}")
        return None if tensor.data is None else [int(value) for value in tensor.data.ravel()]

    def option(self, name: str) -> int:
        """Return an integer or boolean option."""
        return int(self.operator.options.get(name, 0))  # type: ignore[arg-type]

    def text(self, name: str) -> str:
        """Return an option that is a string or the name of an enumeration."""
        return str(self.operator.options.get(name, "NONE"))

    def axis(self, value: int, rank: int, what: str = "axis") -> int:
        """Return an axis counted from 0; negative ones count from the end."""
        if not -rank <= value < rank:
            raise self.error(f"{what} is {value}, expected {-rank} to {rank - 1}")
        return value % rank
