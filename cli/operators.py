"""Write the page of operators: `python -m tq_hw.cli.operators > docs/reference/operators.md`.

Everything comes from what the tools themselves use: signatures, rules, limits, and the lowerings that exist.
"""

import sys

from tq_hw.compiler.constraints import limits_of
from tq_hw.compiler.legalize import supported_operators
from tq_hw.model.check import rules_of
from tq_hw.model.signatures import KINDS, SIGNATURES, Slot

__all__ = ["engine_of", "page", "types_of"]

#: Operators whose reference kernel in LiteRT is not followed: it computes in double, or reads int8 as uint8.
_BY_TFLM = ("FULLY_CONNECTED", "SUM")
_STATE = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")

_HEAD = """# Operators

Generated from `model/signatures.py`, `model/constraints*.py` and `compiler/constraints.py` by
`python -m tq_hw.cli.operators`; `tq-hw ops` prints the rules and limits, `tq-hw ops --json -` gives them to programs.

Types are those of inputs and outputs in order; `?` may be absent, `+` may repeat. Results equal every integer of the
engine in the third column. A rule is of the specification, a limit of this compiler.
"""


def _types(slots: tuple[Slot, ...], many: bool) -> str:
    words = ["/".join(KINDS[slot.kind]) + ("?" if slot.is_optional else "") for slot in slots]
    return ", ".join(words) + ("+" if many else "") or "none"


def types_of(op: str) -> str:
    """Return the types of an operator's inputs and outputs."""
    signature = SIGNATURES[op]
    return (f"{_types(signature.inputs, signature.many_inputs)} -> "
            f"{_types(signature.outputs, signature.many_outputs)}")


def engine_of(op: str) -> str:
    """Return the engine whose integers an operator gives."""
    return "TFLite Micro" if op in _BY_TFLM else "LiteRT BUILTIN_REF"


def page() -> str:
    """Return the whole page."""
    lines = [_HEAD, "| operator | types | equal to | rules and limits |", "|---|---|---|---|"]
    for op in supported_operators():
        limits = [f"{limit}." for limit in limits_of(op)]
        engine = "-" if op in _STATE else engine_of(op)
        lines.append(f"| {op} | {types_of(op)} | {engine} | {' '.join([*rules_of(op), *limits]) or '-'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
