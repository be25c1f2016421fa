"""`partition`: compile the largest parts of a model that the accelerator can run, and leave the rest to the host.

- The mixed model computes every integer and every float of the whole model in LiteRT's arithmetic (profile `litert`).
- A part is a connected convex set of pieces (`pieces.py`), so it runs as one step. Two parts with a tensor between them
  cannot be merged.
- The program of a part is the result of `compile_model` for a model of its operators only.
- Operators of the host keep options, versions and contents.
- Operators that share a state are on the same side.
"""

import re
from dataclasses import dataclass, replace

from tq_hw.compiler.compile import Compiled, compile_model
from tq_hw.compiler.lower.legalize import legalize
from tq_hw.compiler.partition.clusters import clusters, schedule
from tq_hw.compiler.partition.macs import macs_of
from tq_hw.compiler.partition.pieces import CONSTANTS_ALONE, Piece, find_pieces, order_of, used_outputs
from tq_hw.compiler.rewrite.fold_constants import fold_constants
from tq_hw.isa.config import Config
from tq_hw.isa.memory import Memory
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.cut import cut
from tq_hw.model.errors import TqError, UnsupportedError
from tq_hw.model.graph import Model, Operator
from tq_hw.model.mixed import ACCELERATED
from tq_hw.model.rules.check import check_model
from tq_hw.sim.golden.profiles import check_host

__all__ = ["Partition", "partition"]

#: Views of the same bytes and conversions of single elements: a part of only these is not worth the transfers.
_TRIFLES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "QUANTIZE", "DEQUANTIZE", "CAST")
_NO_WORK = "it computes nothing by itself, next to operators of the host"


@dataclass(frozen=True)
class Partition:
    """A model in parts.

    Members
    -------
    model : the mixed model; tensors and operators have their index in the file, an accelerated part that of its first
        operator
    parts : the compiled programs of the accelerated parts, in the order of the mixed model
    pieces : all pieces of the model, with the reason why the host keeps one
    """

    model: Model
    parts: tuple[Compiled, ...]
    pieces: tuple[Piece, ...]

    @property
    def refused(self) -> list[tuple[Operator, str]]:
        """Operators of the host, and the reason why the accelerator does not run them."""
        return [(op, piece.refusal) for piece in self.pieces if piece.refusal for op in piece.operators]

    @property
    def macs(self) -> tuple[int, int]:
        """Multiplications on the accelerator, and all of them."""
        tensors = self.model.main.tensors
        counts = [(not piece.refusal, macs_of(op, tensors)) for piece in self.pieces for op in piece.operators]
        return sum(count for taken, count in counts if taken), sum(count for _, count in counts)


def partition(model: Model, config: Config, memory: Memory | None = None) -> Partition:
    """Split `model` (read without rules) and compile the accelerated parts for `config` and `memory`.

    Raises `UnsupportedError` if the accelerator can run no operator, or if LiteRT refuses one of the rest or has no
    defined result for it; `ModelError` for an int8 operator that violates its rules.
    """
    model = model.under("litert")
    model = replace(model, subgraphs=(fold_constants(model, integers=True), *model.subgraphs[1:]))
    pieces = _settle(model, find_pieces(model, packs=False))
    _check_rest(model, pieces)
    done: dict[tuple[int, ...], Compiled] = {}
    while True:
        after = order_of(model.main, [piece.operators for piece in pieces])
        sets = clusters(after, [not piece.refusal for piece in pieces])
        if not sets:
            raise UnsupportedError(f"{model.name}: the accelerator supports no operator of the model: {_first(pieces)}")
        worse = _compile(model, config, memory, pieces, sets, done)
        if worse is None:
            steps = schedule(after, sets)
            return _assemble(model, pieces, [tuple(nodes) for nodes in sets], steps, done)
        pieces = _settle(model, worse)


def _check_rest(model: Model, pieces: list[Piece]) -> None:
    """Raise UnsupportedError for an operator that the host has to run and cannot; offer what runs the model.

    Where LiteRT has no defined result, an engine may give any result, or crash.
    """
    try:
        check_host(model, {op.index for piece in pieces if piece.refusal for op in piece.operators})
    except UnsupportedError as error:
        offer = "; without --partition, --profile canon runs the whole model" if _is_canon(model) else ""
        raise UnsupportedError(error.reason, offer) from error


def _is_canon(model: Model) -> bool:
    """Whether the accelerator takes all of a model under `canon`."""
    try:
        check_model(model)
        legalize(model.under("canon"))
    except TqError:
        return False
    return True


def _settle(model: Model, pieces: list[Piece]) -> list[Piece]:
    """Leave sets of only trifles to the host."""
    after = order_of(model.main, [piece.operators for piece in pieces])
    sets = clusters(after, [not piece.refusal for piece in pieces])
    left = {node for nodes in sets for node in nodes
            if all(op.op in _TRIFLES for each in nodes for op in pieces[each].operators)}
    return [replace(piece, refusal=_NO_WORK) if number in left else piece for number, piece in enumerate(pieces)]


def _first(pieces: list[Piece]) -> str:
    if not pieces:
        return "it has none"
    piece = next((each for each in pieces if each.refusal not in (_NO_WORK, CONSTANTS_ALONE)), pieces[0])
    op = piece.operators[0]
    return f"operator {op.index} ({op.op}): {piece.refusal}"


def _compile(model: Model, config: Config, memory: Memory | None, pieces: list[Piece], sets: list[list[int]],
             done: dict[tuple[int, ...], Compiled]) -> list[Piece] | None:
    """Compile the sets that are not in `done`, by their operators; return new pieces if a set is refused."""
    for nodes in sets:
        operators = _operators(pieces, nodes)
        key = tuple(op.index for op in operators)
        if key in done:
            continue
        part = cut(model, operators, used_outputs(model.main, operators))
        try:
            done[key] = compile_model(part, config, memory=memory)
        except UnsupportedError as error:
            named = re.match(r"operator (\d+) \([\w:]+\): ", error.reason)
            refused = {number for number in nodes for op in pieces[number].operators
                       if named is None or op.index == int(named[1])}
            why = error.reason.removeprefix(named[0]) if named else error.reason
            return [replace(piece, refusal=why) if number in (refused or nodes) else piece
                    for number, piece in enumerate(pieces)]
    return None


def _operators(pieces: list[Piece], nodes: "list[int] | tuple[int, ...]") -> list[Operator]:
    """Return the operators of some pieces in the order of the pieces, in which they can run."""
    return [op for number in sorted(nodes) for op in pieces[number].operators]


def _assemble(model: Model, pieces: list[Piece], sets: list[tuple[int, ...]], steps: list[list[int]],
              done: dict[tuple[int, ...], Compiled]) -> Partition:
    operators: list[Operator] = []
    parts = []
    for nodes in steps:
        inner = _operators(pieces, nodes)
        if tuple(nodes) not in sets:
            operators += inner
            continue
        compiled = done[tuple(op.index for op in inner)]
        part = cut(model, inner, used_outputs(model.main, inner)).main
        parts.append(compiled)
        operators.append(Operator(inner[0].index, ACCELERATED, part.inputs, part.outputs,
                                  custom_options=to_bytes(compiled.program)))
    main = replace(model.main, operators=tuple(operators))
    read = {index for op in operators for index in op.inputs} | set(main.outputs)
    tensors = tuple(tensor if tensor.data is None or tensor.index in read else replace(tensor, data=None)
                    for tensor in main.tensors)
    kept = replace(main, tensors=tensors)
    return Partition(replace(model, subgraphs=(kept, *model.subgraphs[1:])), tuple(parts), tuple(pieces))
