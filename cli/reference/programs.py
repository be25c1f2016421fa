"""Write the page of programs: `python -m tq_hw.cli.reference.programs > docs/reference/programs.md`.

For each operator, what the units do for a model of typical size, read from a compiled program.
`--units > cli/reference/units.json` writes only the units of each operator, so that `tq-hw ops` need not compile.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from tq_hw.compiler import compile_model
from tq_hw.compiler.lower.legalize import supported_operators
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import load_config
from tq_hw.isa.layout import ArrayMode, Unit, VectorKind
from tq_hw.isa.uop import Activation, Alu, Destination, Multiply, Reduce, Rounding, ShiftSource, Source
from tq_hw.model.samples.typical import typical

__all__ = ["UNITS", "listing", "page", "text_of", "units_page"]

#: Units by operator, as returned by `listing`.
UNITS = Path(__file__).with_name("units.json")
_CONFIG = "n16"
_HEAD = """# What the units do for each operator

Generated from compiled programs of one typical layer each (`model/samples/typical.py`) at `n16` by
`python -m tq_hw.cli.reference.programs`. The hardware knows no operators: the array multiplies and adds, load and
store move bytes with strides, and the vector unit runs the lines below, each one pass of all lanes. A maximum over few
taps has a pass for each tap after the first; B is then the result so far.

| | |
|---|---|
| `A`, `B`, `acc`, `bias` | elements of streams A and B, an accumulator, the channel's bias |
| `r0`.. , `s0`.. | a vector register, element by element; word 0 of one, the same for all elements |
| `T1[x]`, `T2[x]` | table 1 or 2 at the low 8 bits of x; `T[x]`: both as one, at 9 bits |
| `high(x, m)` | `(x * m + 2^30) >> 31`, saturated; `trunc(x, m)` without the half |
| `x >> n` | halves away from zero; `>>up` half up, `>>floor` no rounding; `multiplier`, `shift`: of the channel |
| `sat(x)`, `int16(x)`, `clz(x)`, `other(x)` | saturated to int32, to int16; leading zeros; x of the neighbouring lane |
| `max of`, `sum of` | over all elements of the row |
| `n x` | the lines with a bar are repeated n times |
"""
_ALU = {Alu.PASS: "{a}", Alu.ADD: "{a} + {b}", Alu.SUB: "{a} - {b}", Alu.MAX: "max({a}, {b})", Alu.MIN: "min({a}, {b})",
        Alu.CLZ: "clz({a} + {b})", Alu.LESS: "{a} < {b}", Alu.LESS_EQUAL: "{a} <= {b}", Alu.EQUAL: "{a} == {b}",
        Alu.NOT_EQUAL: "{a} != {b}", Alu.AND: "{a} & {b}", Alu.SELECT_NEGATIVE: "{a} if {a} >= 0 else {b}",
        Alu.PAIR_DIFFERENCE: "other({a}) - {a}"}
_HIGH = {Multiply.HIGH_IMMEDIATE: "{immediate}", Multiply.HIGH_PARAM: "multiplier", Multiply.HIGH_B: "{b}"}
_ROUNDING = {Rounding.HALF_AWAY: ">>", Rounding.HALF_UP: ">>up", Rounding.FLOOR: ">>floor"}
_MODES = {ArrayMode.GEMM: "windows", ArrayMode.DEPTHWISE: "depthwise", ArrayMode.FOLDED: "folded windows"}


def _operand(uop: Mapping[str, int], side: str) -> str:
    source, register = uop.get(f"{side}_source", 0), uop.get(f"{side}_register", 0)
    kind = "s" if uop.get(f"{side}_hold") or uop.get("once") else "r"
    text = {Source.IMMEDIATE: str(uop.get("immediate", 0)), Source.ACC_OR_BIAS: "acc" if side == "a" else "bias",
            Source.STREAM: side.upper(), Source.REGISTER: f"{kind}{register}"}[Source(source)]
    table = uop.get(f"{side}_table", 0)
    return text if table == 0 else f"T[{text}]" if table == 3 else f"T{table}[{text}]"


def _grouped(text: str) -> str:
    return f"({text})" if " " in text and not text.endswith(")") else text


def text_of(uop: Mapping[str, int], *, wide: bool = False) -> str:
    """Return a micro-operation as a line of text; `wide`: of an operation with int16 output."""
    a, b = _operand(uop, "a"), _operand(uop, "b")
    text = _ALU[Alu(uop.get("alu", 0))].format(a=a, b=b).replace("+ -", "- ").replace(" + 0)", ")")
    by_shift, shift = ShiftSource(uop.get("shift_source", 0)), uop.get("shift", 0)
    multiply = Multiply(uop.get("multiply", 0))
    if multiply is Multiply.LOW_B:
        text = f"{_grouped(text)} * {b}"
    elif multiply is Multiply.SHL:
        text, by_shift = f"{_grouped(text)} << {shift or 'shift'}", ShiftSource.NONE
    elif multiply is Multiply.SHL_B:
        text = f"{_grouped(text)} << {b}"
    elif multiply is Multiply.SHL_B_SATURATE:
        text = f"sat({_grouped(text)} << {b})"
    elif multiply is not Multiply.NONE:
        factor = _HIGH[multiply].format(immediate=uop.get("immediate", 0), b=b)
        text = f"{'trunc' if uop.get('truncate') else 'high'}({text}, {factor})"
    arrow = _ROUNDING[Rounding(uop.get("rounding", 0))]
    by = {ShiftSource.PARAM: "shift", ShiftSource.SHIFT_B: b, ShiftSource.IMMEDIATE: str(-shift) if shift < 0 else ""}
    if by.get(by_shift):
        text = f"{_grouped(text)} {arrow} {by[by_shift]}"
    if point := uop.get("zero_point", 0):
        text = f"{_grouped(text)} {'-' if point < 0 else '+'} {abs(point)}"
    if uop.get("clamp"):
        text = f"int16({text})" if wide else f"clamp({text}, {uop.get('act_min', 0)}, {uop.get('act_max', 0)})"
    register = uop.get("d_register", 0)
    match Destination(uop.get("destination", 0)):
        case Destination.OUTPUT:
            return f"out = {text}"
        case Destination.ACTIVATION:
            return f"out = {Activation(uop.get('reduce', 0)).name.lower()} of {text}"
        case Destination.REDUCE:
            return f"s{register} = {Reduce(uop.get('reduce', 0)).name.lower()} of {text}"
        case _:
            return f"{'s' if uop.get('once') else 'r'}{register} = {text}"


def _program(operation: Operation) -> Iterator[str]:
    fields = operation.fields
    first, last = (fields[name] - fields["first"] for name in ("body_first", "body_last"))
    repeats, wide = fields["repeat1"] * fields["repeat2"], fields.get("out_type") == 1
    for number, uop in enumerate(operation.uops):
        line = text_of(uop, wide=wide)
        bar = "" if not first <= number <= last or repeats == 1 else f"{repeats} x " if number == first else "  | "
        yield f"{bar:>6}{line}" if last >= first and repeats > 1 else line


@cache
def listing(op: str) -> tuple[str, list[list[str]]]:
    """Return the units that work for an operator, and its vector programs."""
    compiled = compile_model(typical(op), load_config(_CONFIG))
    stream, layers = compiled.emitter.stream, compiled.emitter.graph.layers
    units: dict[str, None] = {}
    programs: list[list[str]] = []
    for unit in (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE):
        for operation in stream.by_unit[unit]:
            if layers[operation.layer].op != op:
                continue
            name = unit.name.lower()
            units[f"{name} ({_MODES[ArrayMode(operation.fields['mode'])]})" if unit is Unit.ARRAY else name] = None
            if unit is Unit.VECTOR and operation.fields.get("kind", 0) == VectorKind.PROGRAM:
                lines = list(_program(operation))
                if lines not in programs:
                    programs.append(lines)
    return ", ".join(units), programs


def _nothing(op: str) -> str:
    return {"SHAPE": "known when the model is compiled", "DEQUANTIZE": "done by the host",
            "CALL_ONCE": "the first contents of the state, in the compiled file",
            "VAR_HANDLE": "a place in the state"}.get(op, "nothing: another view of the same bytes")


def page(operators: Sequence[str] | None = None) -> str:
    """Return the whole page; operators with the same listing share a section."""
    found: dict[tuple[str, str], list[str]] = {}
    for op in operators or supported_operators():
        units, programs = listing(op)
        code = "\n\n".join("\n".join(lines) for lines in programs)
        found.setdefault((units or _nothing(op), code), []).append(op)
    parts = [_HEAD]
    for (units, code), names in found.items():
        parts.append(f"## {', '.join(names)}\n\n{units}\n" + (f"\n```\n{code}\n```\n" if code else ""))
    return "\n".join(parts)


def units_page() -> str:
    """Return the units of every operator as JSON."""
    return json.dumps({op: listing(op)[0] for op in supported_operators()}, indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(units_page() if sys.argv[1:] == ["--units"] else page())
