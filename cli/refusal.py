"""Additions to the message about a refused model: all unsupported operators, and what `--partition` achieves."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tq_hw.compiler.lower.legalize import rewritten
from tq_hw.compiler.partition import Piece
from tq_hw.compiler.partition.macs import macs_of
from tq_hw.compiler.partition.pieces import CONSTANTS_ALONE, find_pieces
from tq_hw.compiler.rewrite.fold_constants import fold_constants
from tq_hw.compiler.rewrite.reasons import PART_OF_FLOAT, alone, why_in_float
from tq_hw.model.errors import ModelError, TqError, UnsupportedError
from tq_hw.model.graph import Model, Operator, Subgraph
from tq_hw.model.mixed import is_mixed
from tq_hw.model.rules.check import check_model
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.profiles import check_host

__all__ = ["explained"]


@contextmanager
def explained(path: str, shapes: InputShapes | None, profile: str | None) -> Iterator[None]:
    """Append an explanation to the refusal of the model at `path`. The error of a broken file stays as it is."""
    try:
        yield
    except (ModelError, UnsupportedError) as error:
        more = _explanation(path, shapes, profile or "canon")
        if not more:
            raise
        raise type(error)("\n".join([str(error), *more])) from error


def _explanation(path: str, shapes: InputShapes | None, profile: str) -> list[str]:
    """Return lines about the unsupported operators, [] if a partition would not help."""
    try:
        model = read_model(path, rules=False, shapes=shapes)
        if is_mixed(model):
            return []
        model = replace(model, subgraphs=(fold_constants(model, integers=True), *model.subgraphs[1:]))
        pieces = find_pieces(model.under(profile), packs=True)
    except TqError:
        return []
    left = _rewritten(model.under(profile))
    refused = [(op, piece.refusal) for piece in pieces if piece.refusal for op in piece.operators
               if not _is_taken(op, piece.refusal, model, left)]
    count = len(model.main.operators)
    if not 0 < len(refused) < count:
        return []
    model = model.under("litert")
    gain = _gain(model, find_pieces(model, packs=False))
    return [f"{len(refused)} of {count} operators are not supported; `tq-hw ops` lists those that "
            "are:", *_lines(refused, left),
            gain] if gain else []


def _rewritten(model: Model) -> Subgraph | None:
    """Return the main subgraph after all patterns, None where it breaks a rule."""
    try:
        check_model(model)
        return rewritten(model)[0]
    except TqError:
        return None


def _is_taken(op: Operator, refusal: str, model: Model, left: Subgraph | None) -> bool:
    """Whether a refused piece is taken with the operators around it: a constant, or computed in float32."""
    if refusal == CONSTANTS_ALONE:
        return op.op in KERNELS
    return left is not None and bool(alone(model.main, op)) and not any(
        each.index == op.index and each.op == op.op for each in left.operators)


def _lines(refused: Sequence[tuple[Operator, str]], left: Subgraph | None) -> Iterator[str]:
    """Yield a line for each reason: the kinds of operators, how many, where. The first of a kind gives its reason.

    What hinders the float32 that an operator is part of shows only in the whole graph, `left`.
    """
    kinds: dict[str, list[tuple[Operator, str]]] = {}
    for op, why in refused:
        kinds.setdefault(op.op, []).append((op, why))
    lines: dict[str, list[str]] = {}
    for name, found in kinds.items():
        first, why = found[0]
        if why.startswith(PART_OF_FLOAT) and left is not None:
            more = why_in_float(left, next(op for op in left.operators if op.index == first.index))
            why = f"{PART_OF_FLOAT}: {more}" if more else why
        where = (f"operator {first.index}" if len(found) == 1 else
                 f"{len(found)}, the first is operator {first.index}")
        lines.setdefault(why, []).append(f"{name} ({where})")
    for why, names in lines.items():
        yield f"  {', '.join(names)}: {why}"


def _gain(model: Model, pieces: Sequence[Piece]) -> str:
    """Return a sentence about the share that a partition would accelerate, "" if that includes none of the MACs.

    If the host cannot run the rest, it says so.
    """
    counts = [(not piece.refusal, macs_of(op, model.main.tensors)) for piece in pieces for op in piece.operators]
    taken, total = sum(count for is_taken, count in counts if is_taken), sum(count for _, count in counts)
    if total and not taken:
        return ""
    try:
        check_host(model, {op.index for piece in pieces if piece.refusal for op in piece.operators})
    except UnsupportedError as error:
        return f"with --partition it is refused, too: {error.reason}"
    if total:
        gain = f"{taken:,} of {total:,} MACs ({taken / total:.1%})"
    else:
        gain = f"{sum(is_taken for is_taken, _ in counts)} of {len(counts)} operators, none of which multiplies,"
    return f"with --partition {gain} would be on the accelerator, the rest in LiteRT"
