"""Which rule of isa/legality.py an operation breaks, in words."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from tq_hw.isa.config import Config
from tq_hw.isa.layout import UNITS, Unit
from tq_hw.isa.legality import RULES, UOP_RULES, Bound, Rule, bound, chunk_registers, value

__all__ = ["broken_rule", "broken_uops", "broken_while_running"]

_ZEROS = {unit: dict.fromkeys(UNITS[unit].fields, 0) | {"open_buffers": 0} for unit in UNITS}


def broken_rule(config: Config, unit: Unit, fields: Mapping[str, int], open_buffers: int = 0) -> str:
    """Return the rule for which the operation is refused, and its values; empty if it keeps all of them."""
    return _first(bound(RULES[unit], config), config, {**_ZEROS[unit], **fields, "open_buffers": open_buffers}, False)


def broken_while_running(config: Config, unit: Unit, fields: Mapping[str, int]) -> str:
    """Return the rule that an operation which was not refused breaks later."""
    return _first(bound(RULES[unit], config), config, {**_ZEROS[unit], **fields}, True)


def broken_uops(config: Config, fields: Mapping[str, int], uops: Sequence[Mapping[str, int]]) -> Iterator[
        tuple[int, str]]:
    """Yield number and broken rule of micro-operations of a vector operation, in the order in which they run."""
    slots = min(fields["chunk_slots"], fields["tile_slots"], fields["slots"])
    asked = (bool(fields["use_acc"]), bool(fields["use_params"]),
             chunk_registers(config, bool(fields["use_acc"]), slots))
    for number in range(fields["first"], fields["last"] + 1):
        uop = uops[number]
        if rule := _broken_uop(config, tuple(uop), tuple(uop.values()), *asked):
            yield number, rule


@lru_cache(maxsize=1 << 12)
def _broken_uop(config: Config, fields: tuple[str, ...], values: tuple[int, ...], use_acc: bool, use_params: bool,
                filled: int) -> str:
    named = dict(zip(fields, values, strict=True)) | {"use_acc": int(use_acc), "use_params": int(use_params),
                                                      "chunk_registers": filled}
    return _first(bound(UOP_RULES, config), config, named, True)


def _first(rules: Sequence[Bound], config: Config, values: Mapping[str, int], running: bool) -> str:
    for rule, test in rules:
        if rule.running == running and not value(test, values):
            return _message(rule, config, values)
    return ""


def _message(rule: Rule, config: Config, values: Mapping[str, int]) -> str:
    text = rule.text + (f", where {rule.when}," if rule.when else "")
    sizes = {f"config.{name}": getattr(config, name) for name in re.findall(r"config\.(\w+)", text)}
    used = [name for name in values if re.search(rf"(?<![\w.]){name}\b", text)]
    return f"{text} does not hold: " + ", ".join(
        [*(f"{name} {values[name]}" for name in used), *(f"{name} {size}" for name, size in sizes.items())])
