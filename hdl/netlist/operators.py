"""Operators of RTLIL as Verilog, with operands extended to the widths that the language's rules need."""

from collections.abc import Callable

from tq_hw.hdl.netlist.rtlil import Bits, Cell, RtlilError, Sig, width_of
from tq_hw.hdl.netlist.values import extended

__all__ = ["ATOM", "LONE", "OPERATORS", "inverse", "operands", "operator_text", "tight"]

#: Binding strength of a text: a name or in brackets; with a prefix operator; one bit of many; or its operator.
ATOM, UNARY, REDUCED = "atom", "unary", "reduced"
_BINARY = {"$and": "&", "$or": "|", "$xor": "^", "$add": "+", "$sub": "-", "$shl": "<<", "$shr": ">>",
           "$divfloor": "/", "$modfloor": "%",
           "$eq": "==", "$ne": "!=", "$lt": "<", "$le": "<=", "$gt": ">", "$ge": ">="}
_UNARY = {"$not": "~", "$neg": "-", "$reduce_or": "|", "$reduce_bool": "|", "$reduce_and": "&", "$reduce_xor": "^"}
#: May be written inline.
OPERATORS = frozenset({*_BINARY, *_UNARY, "$mux"})
#: Need an assignment of their own, because it sets their width or sign, or because a part of them is taken.
LONE = frozenset({"$mul", "$sshr", "$shift", "$divfloor", "$modfloor"})
_COMPARISONS = ("$eq", "$ne", "$lt", "$le", "$gt", "$ge")
#: a & (b & c) needs no parentheses.
_CHAINS = ("&", "|", "^", "+")

Text = tuple[str, str]


def operands(cell: Cell) -> dict[str, Sig]:
    """Return the operands by port, at their width in the Verilog."""
    ports = cell.ports
    if cell.kind == "$mux":
        return {name: ports[name] for name in ("S", "A", "B")}
    a, signed = ports["A"], bool(cell.number("A_SIGNED"))
    if cell.kind in _UNARY:
        return {"A": extended(a, cell.number("Y_WIDTH"), signed) if cell.kind in ("$not", "$neg") else a or _zero(1)}
    b = ports["B"] or _zero(1)
    if cell.kind == "$mul":
        return {"A": a or _zero(1), "B": b}
    if cell.kind in ("$shl", "$shr", "$sshr"):
        return {"A": extended(a, cell.number("Y_WIDTH"), signed), "B": b}
    if cell.kind == "$shift":
        if signed:
            raise RtlilError(f"{cell.name}: a part of a signed value is taken")
        return {"A": extended(a, max(width_of(a), cell.number("Y_WIDTH")), False), "B": b}
    if cell.kind in ("$divfloor", "$modfloor"):
        if signed:
            raise RtlilError(f"{cell.name}: a signed value is divided")
        width = max(width_of(a), width_of(b), cell.number("Y_WIDTH"))
        return {"A": extended(a, width, False), "B": extended(b, width, False)}
    width = max(width_of(a), width_of(b)) if cell.kind in _COMPARISONS else cell.number("Y_WIDTH")
    return {"A": extended(a, width, signed), "B": extended(b, width, signed)}


def _zero(width: int) -> Sig:
    return (Bits("0" * width),)


def operator_text(cell: Cell, show: Callable[[Sig], Text]) -> Text:
    """Return an operator's text and how tightly it binds; `show` does that for a value."""
    ports = operands(cell)
    if cell.kind == "$mux":
        return f"{tight(show(ports['S']))} ? {tight(show(ports['B']))} : {tight(show(ports['A']))}", "?"
    a = show(ports["A"])
    if cell.kind in _UNARY:
        sign = _UNARY[cell.kind]
        if sign in "|&^":
            return a if width_of(ports["A"]) == 1 else (f"{sign}{tight(a)}", REDUCED)
        return inverse(a) if sign == "~" else (f"{sign}{tight(a)}", UNARY)
    b = show(ports["B"])
    signed = bool(cell.number("A_SIGNED"))
    if cell.kind == "$mul":
        return (f"$signed({a[0]}) * $signed({b[0]})" if signed else f"{alone(a)} * {alone(b)}"), "*"
    if cell.kind == "$sshr":
        return f"$signed({a[0]}) >>> {tight(b)}", ">>>"
    if cell.kind == "$shift":
        return f"{tight(a)} >> {tight(b)}", ">>"
    if not signed and cell.kind in ("$ge", "$lt") and set(_bits(ports["B"])) == {"0"}:
        return ("1'b1" if cell.kind == "$ge" else "1'b0"), ATOM
    sign = _BINARY[cell.kind]
    if signed and cell.kind in _COMPARISONS and cell.kind not in ("$eq", "$ne"):
        return f"$signed({a[0]}) {sign} $signed({b[0]})", sign
    if width_of(ports["A"]) == 1 and cell.kind in ("$eq", "$ne") and b[0] in ("1'b0", "1'b1"):
        return a if (b[0] == "1'b1") == (cell.kind == "$eq") else inverse(a)
    return f"{tight(a, sign)} {sign} {tight(b, sign)}", sign


def _bits(sig: Sig) -> str:
    """Return the bits of a constant, `?` for others."""
    return "".join(part.bits if isinstance(part, Bits) else "?" for part in sig)


def alone(text: Text) -> str:
    """Return a text whose width does not depend on its context."""
    return text[0] if text[1] == ATOM else f"{{{text[0]}}}"


def inverse(text: Text) -> Text:
    """Return the inverse, bit by bit."""
    return (text[0][1:], ATOM) if text[1] == UNARY and text[0][0] == "~" else (f"~{tight(text)}", UNARY)


def tight(text: Text, sign: str = "") -> str:
    """Return a text as an operand of `sign`."""
    return text[0] if text[1] in (ATOM, UNARY) or (text[1] == sign and sign in _CHAINS) else f"({text[0]})"
