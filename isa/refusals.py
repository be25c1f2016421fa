"""Names the rule of isa/legality.py that an operation breaks."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TypeVar

from tq_hw.isa.config import Config
from tq_hw.isa.layout import UNITS, Unit
from tq_hw.isa.legality import (
    ARITHMETIC,
    COMPARE,
    RULES,
    UOP_RULES,
    AnyOf,
    Compare,
    Name,
    Rule,
    Term,
    Test,
    bound,
    chunk_registers,
)

__all__ = ["broken_rule", "broken_uops", "broken_while_running", "holding"]

Fields = Mapping[str, int]
_Result = TypeVar("_Result")

_ZEROS = {unit: dict.fromkeys(UNITS[unit].fields, 0) | {"open_buffers": 0} for unit in UNITS}


def broken_rule(config: Config, unit: Unit, fields: Mapping[str, int], open_buffers: int = 0) -> str:
    """Return the rule for which the operation is refused, and its values; empty if it keeps all of them."""
    return _first(unit, config, {**_ZEROS[unit], **fields, "open_buffers": open_buffers}, False)


def broken_while_running(config: Config, unit: Unit, fields: Mapping[str, int]) -> str:
    """Return the rule that an operation which was not refused breaks later."""
    return _first(unit, config, {**_ZEROS[unit], **fields}, True)


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
    return _first(None, config, named, True)


def _first(unit: Unit | None, config: Config, values: Mapping[str, int], running: bool) -> str:
    """Return the first broken rule of a unit, or of micro-operations (None), as a message."""
    rule = _finder(unit, config, running)(values)
    return "" if rule is None else _message(rule, config, values)


@cache
def _finder(unit: Unit | None, config: Config, running: bool) -> Callable[[Fields], Rule | None]:
    """Return a function that finds the first rule that fields break."""
    rules = [(rule, holding(test)) for rule, test in bound(UOP_RULES if unit is None else RULES[unit], config)
             if rule.running == running]

    def first(fields: Fields) -> Rule | None:
        for rule, holds in rules:
            if not holds(fields):
                return rule
        return None
    return first


def holding(test: Test) -> Callable[[Fields], bool]:
    """Return a function of fields, numbers by name, equal to `value` but faster: it does not walk the tree."""
    if isinstance(test, Compare):
        return _applied(COMPARE[test.symbol], test.left, test.right)
    parts = [holding(part) for part in test.tests]
    stops = isinstance(test, AnyOf)

    def joined(fields: Fields) -> bool:
        for holds in parts:
            if bool(holds(fields)) is stops:
                return stops
        return not stops
    return joined


def _number(term: Term) -> Callable[[Fields], int]:
    if isinstance(term, int):
        return lambda fields: term
    if isinstance(term, Name):
        return operator.itemgetter(term.name)
    return _applied(ARITHMETIC[term.symbol], term.left, term.right)


def _applied(function: Callable[[int, int], _Result], left: Term, right: Term) -> Callable[[Fields], _Result]:
    first, second = _number(left), _number(right)
    if isinstance(right, int):  # the usual form, a third faster
        return lambda fields: function(first(fields), right)
    return lambda fields: function(first(fields), second(fields))


def _message(rule: Rule, config: Config, values: Mapping[str, int]) -> str:
    text = rule.text + (f", where {rule.when}," if rule.when else "")
    sizes = {f"config.{name}": getattr(config, name) for name in re.findall(r"config\.(\w+)", text)}
    used = [name for name in values if re.search(rf"(?<![\w.]){name}\b", text)]
    return f"{text} does not hold: " + ", ".join(
        [*(f"{name} {values[name]}" for name in used), *(f"{name} {size}" for name, size in sizes.items())])
