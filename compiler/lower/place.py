"""REVERSE_SEQUENCE, MATRIX_DIAG, MATRIX_SET_DIAG, DILATE, SPARSE_TO_DENSE, FILL: copies over a background."""

from collections.abc import Sequence

import numpy as np

from tq_hw.compiler.ir.staged import Copy
from tq_hw.compiler.ir.strided import ByteView, copy_between, fill_view
from tq_hw.compiler.lower.legalize import Legalizer, lowers
from tq_hw.compiler.lower.moves import add_move, input_blank, output_blank
from tq_hw.compiler.lower.segments import affine_segments
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.place import dense_places
from tq_hw.sim.golden.registry import int_option

__all__: list[str] = []


@lowers("REVERSE_SEQUENCE")
def lower_reverse_sequence(state: Legalizer, op: Operator) -> None:
    """A copy of the input, then of the reversed first elements of each row."""
    axes = int_option(op, "batch_dim"), int_option(op, "seq_dim")
    base, target = input_blank(state, op), output_blank(state, op)
    rows, targets = np.moveaxis(base, axes, (0, 1)), np.moveaxis(target, axes, (0, 1))
    copies = [copy_between(0, base, base, target, target)]
    for row, to, length in zip(rows, targets, state.constant(op, 1).tolist(), strict=True):
        if length > 1:
            copies.append(copy_between(0, row[:length][::-1], base, to[:length], target))
    add_move(state, op, [state.input(op, 0)], copies)


def _diagonal(matrices: ByteView, size: int) -> ByteView:
    """Diagonals of [..., rows, columns, bytes]: [..., size, bytes]."""
    view: ByteView = np.einsum("...iib->...ib", matrices[..., :size, :size, :])
    return view


@lowers("MATRIX_DIAG")
def lower_matrix_diag(state: Legalizer, op: Operator) -> None:
    """Zeros, then the diagonals."""
    base, target = input_blank(state, op), output_blank(state, op)
    add_move(state, op, [state.input(op, 0)], [
        fill_view(0, target, target), copy_between(0, base, base, _diagonal(target, base.shape[-2]), target)])


@lowers("MATRIX_SET_DIAG")
def lower_matrix_set_diag(state: Legalizer, op: Operator) -> None:
    """A copy of the input, then the diagonals over it."""
    base, diagonal, target = input_blank(state, op), input_blank(state, op, 1), output_blank(state, op)
    add_move(state, op, [state.input(op, 0), state.input(op, 1)], [
        copy_between(0, base, base, target, target),
        copy_between(1, diagonal, diagonal, _diagonal(target, diagonal.shape[-2]), target)])


def _among(state: Legalizer, op: Operator, positions: tuple[int, int], copies: Sequence[Copy]) -> None:
    """Fill the output with the one element of the second input, then copy from the first input over it."""
    target, data = output_blank(state, op), state.tensor(op, positions[1]).data
    inputs = [state.input(op, positions[0])]
    if data is not None:
        around = [fill_view(byte, target[..., at], target) for at, byte in enumerate(data.tobytes())]
    else:
        inputs.append(state.input(op, positions[1]))
        base = input_blank(state, op, positions[1])
        around = [copy_between(1, np.broadcast_to(base.reshape(-1), target.shape), base, target, target)]
    add_move(state, op, inputs, [*around, *copies])


@lowers("DILATE")
def lower_dilate(state: Legalizer, op: Operator) -> None:
    """The padding element everywhere, then the elements."""
    base, target = input_blank(state, op), output_blank(state, op)
    steps = tuple(slice(None, None, int(step)) for step in state.constant(op, 1))
    _among(state, op, (0, 2), [copy_between(0, base, base, target[steps], target)])


@lowers("SPARSE_TO_DENSE")
def lower_sparse_to_dense(state: Legalizer, op: Operator) -> None:
    """The default everywhere, then a copy for each stretch of values with a constant step."""
    base, target = input_blank(state, op, 2), output_blank(state, op)
    places = dense_places(state.constant(op, 0), target.shape[:-1]).tolist()
    values, flat = np.broadcast_to(base, (len(places), base.shape[-1])), target.reshape(-1, base.shape[-1])
    if len(set(places)) == len(places):
        parts = affine_segments(places)
    else:
        # Of several values with one index the last remains.
        parts = [(slice(number, number + 1), slice(place, place + 1)) for place, number in dict(
            zip(places, range(len(places)), strict=True)).items()]
    _among(state, op, (2, 3), [copy_between(0, values[picked], base, flat[out], target) for picked, out in parts])


@lowers("FILL")
def lower_fill(state: Legalizer, op: Operator) -> None:
    """A computed element, everywhere."""
    base, target = input_blank(state, op, 1), output_blank(state, op)
    everywhere = np.broadcast_to(base, target.shape)
    add_move(state, op, [state.input(op, 1)], [copy_between(0, everywhere, base, target, target)])
