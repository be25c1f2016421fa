"""Flip-flops as clocked statements."""

from collections.abc import Callable

from tq_hw.hdl.netlist.operators import Text
from tq_hw.hdl.netlist.rtlil import Assign, Bits, Part, Sig, Switch
from tq_hw.hdl.netlist.text import wrapped
from tq_hw.hdl.netlist.uses import by_value
from tq_hw.hdl.netlist.values import Condition, condition_of, constant

__all__ = ["Statements"]


class Statements:
    """Write the process of a flip-flop, the reset first.

    Parameters
    ----------
    show, condition : texts of a value and of a condition
    """

    def __init__(self, show: Callable[[Sig], Text], condition: Callable[[Condition], Text]) -> None:
        self._show, self._condition = show, condition

    def text(self, body: list[Assign | Switch], wire: str, name: str, width: int) -> str:
        """Return the statement under `always @(posedge ...)` that makes `name`."""
        kept = list(body)
        first = kept[0]
        if isinstance(first, Assign) and first.value == (Part(wire, 0, width),):
            kept.pop(0)
        reset = ""
        last = kept[-1] if len(kept) > 1 else None
        if isinstance(last, Switch) and len(last.cases) == 1 and len(last.cases[0].body) == 1:
            (item,) = last.cases[0].body
            if (isinstance(item, Assign) and len(item.value) == 1 and isinstance(item.value[0], Bits)
                    and item.value[0].width == width):
                shown = self._condition(condition_of(last.value, last.cases[0].patterns))[0]
                reset = f"    if ({shown}) {name} <= {constant(item.value[0].bits)};\n    else "
                kept.pop()
        alone = len(kept) == 1 and isinstance(kept[0], Assign)
        lines = self._body(kept, name, width, "    " if alone and not reset else "      ")
        if alone:
            return f"{reset}{lines.lstrip()}" if reset else lines
        return f"{reset or '    '}begin\n{lines}    end\n"

    def _body(self, body: list[Assign | Switch], name: str, width: int, indent: str) -> str:
        text = ""
        for item in body:
            if isinstance(item, Assign):
                (part,) = item.target
                assert isinstance(part, Part)
                bits = "" if part.width == width else f"[{part.start}]" if part.width == 1 else (
                    f"[{part.start + part.width - 1}:{part.start}]")
                text += wrapped(f"{name}{bits} <= {self._show(item.value)[0]};", indent)
            elif not item.value:
                for case in item.cases:
                    text += self._body(case.body, name, width, indent)
            elif by_value(item):
                text += self._case(item, name, width, indent)
            else:
                text += self._chain(item, name, width, indent)
        return text

    def _chain(self, switch: Switch, name: str, width: int, indent: str) -> str:
        text = ""
        for number, case in enumerate(switch.cases):
            front = indent if not number else "else "
            if case.patterns:
                shown = self._condition(condition_of(switch.value, case.patterns))[0]
                front += f"if ({shown}) "
            text += wrapped(f"{front.lstrip()}begin", indent if not number else "").removesuffix("\n") + "\n"
            text += self._body(case.body, name, width, indent + "  ") + f"{indent}end "
        return text.rstrip() + "\n"

    def _case(self, switch: Switch, name: str, width: int, indent: str) -> str:
        text = f"{indent}case ({self._show(switch.value)[0]})\n"
        default = f"{indent}  default: ;\n"
        for case in switch.cases:
            label = ", ".join(constant(pattern) for pattern in case.patterns)
            body = self._body(case.body, name, width, indent + "    ")
            if case.patterns:
                text += f"{indent}  {label}: begin\n{body}{indent}  end\n"
            else:
                default = f"{indent}  default: begin\n{body}{indent}  end\n"
        return f"{text}{default}{indent}endcase\n"
