"""Read the option tables of operators, as the schema's lines say."""

import math

from tq_hw.model.graph import OptionValue
from tq_hw.model.tflite.flatbuffer import Table
from tq_hw.model.tflite.schema import (
    ENUMS,
    OPERATOR_OPTIONS,
    OPTION_TABLES,
    OPTIONS,
    OPTIONS_REQUIRED,
    SECOND_TABLES,
    OptionField,
)

__all__ = ["read_options"]


def read_options(table: Table, op: str) -> dict[str, OptionValue]:
    """Return the options of operator `op`, which `table` describes, by the schema's names, with its defaults.

    Raises `ModelError` for options of another operator, missing ones, and values that the schema does not have.
    """
    if op in SECOND_TABLES:
        return _read_second(table, op)
    code = table.integer(3, "builtin_options_type", "uint8")
    found = OPTION_TABLES[code] if code < len(OPTION_TABLES) else f"unknown ({code})"
    expected = OPERATOR_OPTIONS.get(op)
    options = table.table(4, "builtin_options") if code else None
    if options is None:
        if op in OPTIONS_REQUIRED:
            raise table.error(f"has no options, {op} needs its {expected}")
    elif expected is not None and found != expected:
        raise table.error(f"options are of type {found}, expected {expected}")
    if expected is None:
        return {}
    return _read_fields(options, OPTIONS.get(expected, ()))


def _read_second(table: Table, op: str) -> dict[str, OptionValue]:
    """Return the options of an operator that has them in the schema's second union, and does not go without."""
    name, number = SECOND_TABLES[op]
    found = table.integer(11, "builtin_options_2_type", "uint8")
    options = table.table(12, "builtin_options_2") if found == number else None
    if options is None:
        raise table.error(f"has no options, {op} needs its {name}")
    return _read_fields(options, OPTIONS[name])


def _read_fields(options: Table | None, fields: tuple[OptionField, ...]) -> dict[str, OptionValue]:
    return {field.name: field.default if options is None else
            _read_option(options, field.slot, field.name, field.kind, field.default) for field in fields}


def _read_option(options: Table, slot: int, name: str, kind: str,
                 default: OptionValue) -> OptionValue:
    if kind in ENUMS:
        names = ENUMS[kind]
        value = options.integer(slot, name, "int8", names.index(str(default)))
        if not 0 <= value < len(names):
            known = ", ".join(f"{text} ({number})" for number, text in enumerate(names))
            raise options.error(f"{value} is unknown; the schema has {known}", name)
        return names[value]
    if kind == "float32":
        number = options.float32(slot, name)
        if not math.isfinite(number):
            raise options.error(f"is {number}, expected a finite number", name)
        return number
    if kind == "string":
        return options.string(slot, name)
    if kind in ("int32s", "int64s"):
        return options.integers(slot, name, kind.removesuffix("s"))
    if kind == "uint8s":
        found = options.vector(slot, name, "uint8")
        return () if found is None else tuple(found.tolist())
    if kind == "float32s":
        return options.floats(slot, name)
    if kind == "bool":
        return options.boolean(slot, name, bool(default))
    assert isinstance(default, int)
    return options.integer(slot, name, kind, default)
