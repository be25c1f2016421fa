"""Computations that an operator applies to two numbers of float32 at a time, as subgraphs."""

from tq_hw.model.graph import Subgraph
from tq_hw.model.samples.build import ModelBuilder


def body(*operators: str, carries: int = 0) -> Subgraph:
    """Return a subgraph of operators in a row, each of two numbers.

    The result of each takes the place of input `carries` for the next one.
    """
    b = ModelBuilder("body")
    numbers = [b.input((), "float32"), b.input((), "float32")]
    for op in operators:
        numbers[carries] = b.add(op, numbers, shape=(), dtype="float32")
    return b.model(numbers[carries]).main
