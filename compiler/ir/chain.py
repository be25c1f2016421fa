"""Merged successive elementwise layers, with intermediate results in vector registers."""

from collections.abc import Mapping
from dataclasses import dataclass

from tq_hw.compiler.ir.layers import Layer
from tq_hw.compiler.ir.value import IntArray

__all__ = ["Chain", "ChainPart"]


@dataclass(frozen=True)
class ChainPart:
    """Micro-operations of one operation of the vector unit.

    Members
    -------
    a, b : inputs of the layer that are streams A and B, None for no stream
    uops : micro-operations; the last one of a layer's last part writes the output
    """

    a: int | None
    b: int | None
    uops: tuple[Mapping[str, int], ...]


@dataclass(frozen=True, eq=False)
class Chain(Layer):
    """Micro-operations over inputs of the output's shape, whose words fit in a vector register.

    Members
    -------
    parts : parts in order; each reads registers that the parts before it wrote
    tables : contents of tables 1 and 2, or None
    """

    parts: tuple[ChainPart, ...]
    tables: tuple[IntArray | None, IntArray | None] = (None, None)
