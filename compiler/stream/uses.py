"""Resources that a program of the vector unit reads and writes: streams, parameters, tables, registers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import OUTPUTS, VECTOR_REGISTERS, Destination, Multiply, ShiftSource, Source

__all__ = ["Uses", "body_of", "register_span", "uses"]

Uop = Mapping[str, int]


@dataclass(frozen=True)
class Uses:
    """Resources of one operation's micro-operations.

    Members
    -------
    streams : "a", "b", each with whether the repeated body reads it
    output, sums, reduces : whether it writes the output stream, reads accumulators, reduces
    parameters : which of bias, multiplier, shift it reads, by position
    tables : halves of the table
    found, left : registers that are read before they are written; registers that are written
    vectors : first registers of whole vectors among those found
    words : registers of which only one word is written
    """

    streams: Mapping[str, bool]
    output: bool
    sums: bool
    reduces: bool
    parameters: frozenset[int]
    tables: frozenset[int]
    found: frozenset[int]
    left: frozenset[int]
    vectors: frozenset[int]
    words: frozenset[int]


def uses(uops: Sequence[Uop], body: range, span: int) -> Uses:
    """Return the uses of `uops`; those numbered `body` are repeated. A vector fills `span` registers."""
    streams: dict[str, bool] = {}
    parameters: set[int] = set()
    tables: set[int] = set()
    found: set[int] = set()
    left: set[int] = set()
    vectors: set[int] = set()
    words: set[int] = set()
    output = sums = reduces = False
    for number, uop in enumerate(uops):
        once = uop.get("once", 0)
        for name in "ab":
            source = uop.get(f"{name}_source", 0)
            if source == Source.STREAM:
                streams[name] = streams.get(name, False) or number in body
            elif source == Source.REGISTER:
                first = uop.get(f"{name}_register", 0)
                single = once or uop.get(f"{name}_hold")
                found |= set(range(first, first + (1 if single else span))) - left
                if not single and first not in left:
                    vectors.add(first)
            elif source == Source.ACC_OR_BIAS and name == "a":
                sums = True
            elif source == Source.ACC_OR_BIAS:
                parameters.add(0)
            table = uop.get(f"{name}_table", 0)
            tables |= {0, 1} if table == 3 else {table - 1} if table else set()
        if uop.get("multiply", 0) == Multiply.HIGH_PARAM:
            parameters.add(1)
        if uop.get("shift_source", 0) == ShiftSource.PARAM:
            parameters.add(2)
        destination = uop.get("destination", 0)
        if destination in OUTPUTS:
            output = True
        else:
            first = uop.get("d_register", 0)
            single = once or destination == Destination.REDUCE
            left |= set(range(first, first + (1 if single else span)))
            words = words | {first} if single else words - {first}
            reduces = reduces or destination == Destination.REDUCE
    return Uses(streams, output, sums, reduces, frozenset(parameters), frozenset(tables),
                frozenset(register for register in found if register < VECTOR_REGISTERS),
                frozenset(register for register in left if register < VECTOR_REGISTERS), frozenset(vectors),
                frozenset(words))


def body_of(fields: Mapping[str, int]) -> range:
    """Numbers of the repeated micro-operations in the program of an operation."""
    return range(fields["body_first"] - fields["first"], fields["body_last"] - fields["first"] + 1)


def register_span(fields: Mapping[str, int], config: Config) -> int:
    """Return the number of registers that a vector of an operation fills."""
    beats = config.beats_per_acc_word if fields.get("use_acc") else config.beats_per_word
    slots = min(fields["chunk_slots"], fields["tile_slots"], fields["slots"])
    return max(1, ceil_div(slots * beats, config.vector_register_words))
