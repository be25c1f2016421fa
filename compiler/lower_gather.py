"""GATHER and EMBEDDING_LOOKUP."""

import itertools
from typing import Any

import numpy as np

from tq_hw.compiler.ir.strided import affine_segments, copy_between
from tq_hw.compiler.legalize import Legalizer, lowers
from tq_hw.compiler.lower_move import add_move, input_blank, output_blank
from tq_hw.compiler.lower_wide import embedding_by_index, gather_by_index
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.registry import int_option, normalize_axis

__all__: list[str] = []


@lowers("GATHER")
def lower_gather(state: Legalizer, op: Operator) -> None:
    """Constant indices: one copy per stretch of even steps; others by a product."""
    x = state.tensor(op, 0)
    if state.tensor(op, 1).data is None:
        gather_by_index(state, op, x)
        return
    indices = state.constant(op, 1)
    axis = normalize_axis(int_option(op, "axis"), len(x.shape))
    batch_dims = int_option(op, "batch_dims")
    batch_dims += indices.ndim if batch_dims < 0 else 0
    base, target = input_blank(state, op), output_blank(state, op)
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < x.shape[axis]:
        raise UnsupportedError(f"indices must be in 0..{x.shape[axis] - 1}")
    batch = x.shape[:batch_dims]
    lead = x.shape[batch_dims:axis]
    flat = target.reshape(*batch, *lead, -1, *base.shape[axis + 1:])
    copies = []
    for item in itertools.product(*map(range, batch)):
        for out, picked in affine_segments(indices[item].reshape(-1).tolist()):
            where: tuple[Any, ...] = (*item, *[slice(None)] * len(lead))
            to = flat[(*where, out)]
            copies.append(copy_between(0, np.broadcast_to(base[(*where, picked)], to.shape), base, to, target))
    add_move(state, op, [state.input(op, 0)], copies)


@lowers("EMBEDDING_LOOKUP")
def lower_embedding_lookup(state: Legalizer, op: Operator) -> None:
    """Rows of a table: at constant indices by copies, at others by a product."""
    table = state.tensor(op, 1)
    if state.tensor(op, 0).data is None:
        embedding_by_index(state, op, table)
        return
    indices = state.constant(op, 0)
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < table.shape[0]:
        raise UnsupportedError(f"indices must be in 0..{table.shape[0] - 1}")
    base, target = input_blank(state, op, 1), output_blank(state, op)
    flat = target.reshape(-1, *base.shape[1:])
    copies = [copy_between(0, np.broadcast_to(base[picked], flat[out].shape), base, flat[out], target)
              for out, picked in affine_segments(indices.reshape(-1).tolist())]
    add_move(state, op, [state.input(op, 1)], copies)
