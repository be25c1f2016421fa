"""Write the page of operators: `python -m tq_hw.cli.reference.operators > docs/reference/operators.md`.

All of it comes from the tools' own data: signatures, rules, limits, profiles, lowerings, compiled layers, and the
record of `benches/operators.py`.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from tq_hw.cli.reference.engines import engines_of
from tq_hw.cli.reference.programs import UNITS
from tq_hw.compiler.lower.constraints import limits_of
from tq_hw.compiler.lower.legalize import replaced_operators, supported_operators
from tq_hw.model.graph import PROFILES
from tq_hw.model.rules.check import rules_of
from tq_hw.model.rules.signatures import FLOAT_COMPUTED, FLOAT_MOVES, FLOAT_OPERATORS, KINDS, SEGMENTS, SIGNATURES, Slot
from tq_hw.sim.golden.pointwise import INTEGER, POINTWISE, WIDE
from tq_hw.sim.golden.profiles import profile_rules

__all__ = ["RECORD", "OperatorRow", "as_records", "page", "rows", "types_of"]

#: Written by benches/operators.py.
RECORD = Path(__file__).parent / "operators.json"

_HEAD = """# Operators

Generated from `model/rules/`, `compiler/lower/constraints.py`, compiled layers and the record
`cli/reference/operators.json` by `python -m tq_hw.cli.reference.operators`; `tq-hw ops` prints the same,
`tq-hw ops --json -` gives it to programs.

* Types are those of the inputs and outputs in order; `?` may be absent, `+` may repeat. A rule comes from the
  specification, a limit from this compiler.
* Constant weights of CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED may be int4, and any int8 constant may be sparse,
  with or without a DENSIFY after it: int4 is unpacked, and sparse constants are made dense, when the model is read.
* Elementwise float32 operators may stand between a DEQUANTIZE and a QUANTIZE if together they are a function of one
  int8 or int16 tensor, or of two int8 tensors, one of which may be constants of up to 256 places: they become tables.
  With per-channel constants, however many, a function that rises or falls in even steps is a depthwise convolution. A
  function of two tensors is a sum, difference, product, maximum or minimum of a function of each if all 65,536 pairs
  come out as in float32, else a table of the pairs. Tables of int16 and of pairs take a pass over all elements for each
  1,024 nonzero entries. Sums and differences of more tensors, also with constants of up to 256 places and with RELU,
  are added in float32, with some 40 micro-operations each; so are the addends of a MEAN or SUM before the QUANTIZE, and
  the four products of an int8 RESIZE_BILINEAR whose rows and columns have at most 160 different fractions. These
  operators are:
{floats}.
* What is neither such a table nor such a sum, as in LayerNorm, GroupNorm, attention and pyramids of PyTorch, is
  computed in float32, each operator with 29 to 58 micro-operations, POW with 77, SIGN with 170, LOG with 246,
  SOFTMAX with 430, LOGISTIC with 1,000, ELU with 1,700, TANH with 2,300, GELU with 1,200 or, if not approximated,
  3,300. It must begin with int8, int16, or a CAST of int32 or of int64 that holds places or counts, and end in int8
  or int16, in ARG_MAX, ARG_MIN or a comparison, or in a float32 output of the model: one that may be -0 must not come
  from a pool, an extreme of rows, an interpolation or a fused activation of values that may be. Bounds of all values
  must show that none reaches 2^104, that divisors are positive, that no root is of a negative value, that no EXP is
  of a value above 72, and that every LOG is of a value from 1 to 2^23. Every POW has the exponent 0.5, or a single
  positive whole one, and is products then. BATCH_MATMUL, and FULLY_CONNECTED of two computed matrices, have at most
  4,194,304 products:
{packed}.
* A float32 output that is a function of one int8 tensor is a table, whatever its elementwise operators, and may be -0
  or infinite. So is a function of one int16 tensor that cannot be computed as above, or that ends in ELU, GELU or TANH,
  with a pass for each 512 codes.
* float32 values may be moved or selected between these operators, after a float32 input and before a float32 output,
  by:
{moves}.
* Comparisons of float32 values that each come from one tensor, or from constants, are comparisons of integers: for any
  functions of int8, and for functions of int16 that rise or fall with its codes. If everything comes from one tensor,
  they are a table, and so is what SELECT chooses by them. ARG_MAX and ARG_MIN of float32, moved or not, are those of
  int8, or of int32 if more than 256 different values can come from codes and constants. TOPK_V2 of a dequantized int8
  or int16 tensor, moved or not, is that of the codes, and one of at most 256 different values (`tf.argsort`, nearest
  neighbours) is that of int8 if its places alone are read or the values are a function of one int8 tensor. BUCKETIZE,
  and CAST to int32, of values that come from one tensor are a table.
* Float32 inputs of the model may be compared, counted by BUCKETIZE, cast, and quantized to int8 after functions that
  rise or fall (NEG, FLOOR, CEIL, ROUND, kinds of RELU, sums and products with a constant), ABS and SQUARE: their bits
  are compared, with two micro-operations for each code.
* Operators on integers that follow from shapes and constants become constants when the model is read. CUMSUM of int32
  and int64, and ADD_N of int32 and float32, become additions. These operators on int32 and float32 become reductions of
  rows if their segments are constant:
{segments}.
* A row without types is of an operator that others, or constants, always replace; its last column says where.
* Under profile `canon` every integer equals that of the engines in "equal to", in models of that operator alone with
  random scales, shapes and options. What the tests compared is in `cli/reference/engines.json`, which they write. Under
  `tflm` and `litert` results equal those of TFLite Micro and of LiteRT's reference kernels, see [below](#profiles).
* Units are those that work on a typical layer, see [programs](programs.md).
* Cycles are those of the typical layer, from its start to its end, per element of its outputs, on the {engine} at
  `{config}` with a memory of 8 bytes per cycle: input and output pass through memory. A layer between others is faster.
* Verified: cases that passed, of all cases, in the last recorded runs of `tq-hw verify` over the conformance cases:
  {runs}. Chains of several operators: {chains}.
"""
_PROFILES = """
## Profiles

Under `tflm` and `litert` ([what they are](cli.md#profiles)) these rules also hold. Where the engine's result is
undefined, no result can be right; `canon` computes what the operator's definition says.

| profile | operator | rule | else |
|---|---|---|---|
"""


@dataclass(frozen=True)
class OperatorRow:
    """One operator.

    Members
    -------
    types, equal_to, units : columns of the page; "" if empty
    rules, limits : sentences; the rule of an operator that others replace says where it is taken
    cycles_per_element : of the recorded layer, None without a record
    verified : per run, the number of cases that passed and of all cases
    """

    op: str
    types: str
    equal_to: str
    units: str
    rules: list[str]
    limits: list[str]
    cycles_per_element: float | None
    verified: dict[str, list[int]]


def _types(slots: tuple[Slot, ...], many: bool) -> str:
    words = ["/".join(KINDS[slot.kind]) + ("?" if slot.is_optional else "") for slot in slots]
    return ", ".join(words) + ("+" if many else "") or "none"


def types_of(op: str) -> str:
    """Return the types of an operator's inputs and outputs, "" for one that others replace."""
    if op not in SIGNATURES and op not in POINTWISE:
        return ""
    if op in POINTWISE:
        types = "/".join(("int8", *(("int16",) if op in WIDE else ()), *(("int32",) if op in INTEGER else ())))
        return f"{types} -> {types}"
    signature = SIGNATURES[op]
    return (f"{_types(signature.inputs, signature.many_inputs)} -> "
            f"{_types(signature.outputs, signature.many_outputs)}")


def _record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def rows() -> list[OperatorRow]:
    """Return one row per operator, sorted by name."""
    record, found = _record(), []
    units_of: dict[str, str] = json.loads(UNITS.read_text(encoding="utf-8"))
    where = replaced_operators()
    for op in sorted([*supported_operators(), *where]):
        measured = record["cycles"].get(op, {})
        units = units_of.get(op, "")
        per_element = measured["cycles"] / measured["elements"] if measured.get("cycles") and units else None
        found.append(OperatorRow(
            op, types_of(op), engines_of(op), units, [f"Only {where[op]}."] if op in where else rules_of(op),
            limits_of(op), per_element,
            {run: counts[op] for run, counts in sorted(record["verified"].items()) if op in counts}))
    return found


def _verified(verified: dict[str, list[int]]) -> str:
    same = {f"{passed} of {count}" for passed, count in verified.values()}
    return same.pop() if len(same) == 1 else ", ".join(
        f"{run} {passed} of {count}" for run, (passed, count) in verified.items()) or "-"


def page() -> str:
    """Return the whole page."""
    record = _record()
    runs = sorted(record["verified"])
    chains = _verified({run: record["verified"][run]["CHAIN"] for run in runs if "CHAIN" in record["verified"][run]})
    engine = {"rtl": "RTL"}.get(record["engine"], record["engine"])
    floats = fill(", ".join(FLOAT_OPERATORS), 116, initial_indent="  ", subsequent_indent="  ")
    packed = fill(", ".join(FLOAT_COMPUTED), 116, initial_indent="  ", subsequent_indent="  ")
    moves = fill(", ".join(FLOAT_MOVES), 116, initial_indent="  ", subsequent_indent="  ")
    head = _HEAD.format(engine=engine, floats=floats, packed=packed, moves=moves, chains=chains,
                        segments=f"  {', '.join(SEGMENTS)}", config=record["config"],
                        runs=", ".join(run.replace("-", " at ") for run in runs))
    lines = [head, "| operator | types | units | cycles per element | equal to | verified | rules and limits |",
             "|---|---|---|--:|---|---|---|"]
    for row in rows():
        cycles = "-" if row.cycles_per_element is None else f"{row.cycles_per_element:.2f}"
        sentences = " ".join([*row.rules, *(f"{limit}." for limit in row.limits)])
        lines.append(f"| {row.op} | {row.types or '-'} | {row.units or '-'} | {cycles} | {row.equal_to or '-'} | "
                     f"{_verified(row.verified)} | {sentences or '-'} |")
    more = [f"| {profile} | {op} | {sentence}. | {why} |" for profile in PROFILES
            for op, sentence, why in sorted(profile_rules(profile))]
    return "\n".join(lines) + "\n" + _PROFILES + "\n".join(more) + "\n"


def as_records() -> list[dict[str, Any]]:
    """Return the rows for JSON."""
    return [asdict(row) for row in rows()]


if __name__ == "__main__":
    sys.stdout.write(page())
