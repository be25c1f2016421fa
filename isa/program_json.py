"""The JSON of a compiled file: the configuration, the table of layers, and other metadata, with their types."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NoReturn

from tq_hw.isa.config import Config, ConfigError
from tq_hw.isa.program import Layer, Program
from tq_hw.isa.program_rules import MOST_JSON_BYTES, ProgramError, quoted, require

__all__ = ["Description", "description", "read_description"]

#: Name, configuration, layers, meta and profile of a program.
Description = tuple[str, Config, tuple[Layer, ...], Mapping[str, object], str]

_LAYER_NUMBERS = ("index", "macs", "estimated_cycles", "bytes_moved")
_LAYER_TEXTS = ("op", "name", "unit", "bound")
_MOST_DIGITS, _MOST_MESSAGE = 20, 500
_KINDS = {str: "a string", int: "an integer", dict: "an object", list: "a list"}


def description(program: Program) -> bytes:
    """Return the JSON; ProgramError where meta holds something else than JSON values."""
    values = {"name": program.name, "config": program.config.values, "layers": [asdict(v) for v in program.layers],
              "meta": dict(program.meta), "profile": program.profile}
    try:
        return json.dumps(values, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ProgramError(f"layers and meta must be JSON values: {error}") from None


def read_description(data: bytes) -> Description:
    """Read it; ProgramError says what is missing or of another type."""
    require(len(data) <= MOST_JSON_BYTES, f"the JSON of the file must have at most {MOST_JSON_BYTES:,} bytes, not "
            f"{len(data):,}")
    try:
        values = json.loads(data.decode(), parse_constant=_refuse, parse_int=_integer, parse_float=_number)
    except RecursionError:
        raise ProgramError("the JSON of the file cannot be read: its lists are nested too deeply") from None
    except ProgramError:
        raise
    except ValueError as error:
        raise ProgramError(f"the JSON of the file cannot be read: {error}") from None
    # Files older than profiles have none.
    values = {"profile": "canon"} | values if isinstance(values, dict) else values
    members = _object(values, "the JSON of the file", {
        "name": str, "config": dict, "layers": list, "meta": dict, "profile": str})
    configuration = dict(members["config"])
    name = configuration.pop("name", None)
    require(isinstance(name, str), "config: name must be a string")
    try:
        config = Config.from_mapping(configuration, _text(str(name), "the configuration's name"))
    except ConfigError as error:
        raise ProgramError(f"the configuration of the file cannot be used: {str(error)[:_MOST_MESSAGE]}") from None
    layers = tuple(_layer(layer, number) for number, layer in enumerate(members["layers"]))
    return (_text(members["name"], "the model's name"), config, layers, members["meta"],
            _text(members["profile"], "the profile"))


def _refuse(constant: str) -> NoReturn:
    raise ProgramError(f"the JSON of the file cannot be read: {constant} is not a JSON value")


def _integer(digits: str) -> int:
    require(len(digits) <= _MOST_DIGITS, f"the JSON of the file cannot be read: a number has {len(digits)} digits")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refuse(digits[:_MOST_DIGITS])


def _object(value: object, where: str, members: Mapping[str, type]) -> dict[str, Any]:
    """Return the members of a JSON object that must be there; others may be there, too."""
    require(isinstance(value, dict), f"{where} must be an object, not {_shown(value)}")
    assert isinstance(value, dict)
    for key, kind in members.items():
        require(key in value, f"{where}: {key} is missing")
        # A bool is an int for Python, not for JSON.
        require(type(value[key]) is kind, f"{where}: {key} must be {_KINDS[kind]}, not {_shown(value[key])}")
    return value


def _shown(value: object) -> str:
    """Return a value as a message shows it: numbers and strings whole, the rest by its type."""
    if isinstance(value, dict | list):
        return _KINDS[type(value)]
    return quoted(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str, where: str) -> str:
    """Return a string that has a UTF-8 form: JSON can also spell halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ProgramError(f"{where} is not Unicode: {error.reason}") from None
    return text


def _layer(value: object, number: int) -> Layer:
    where = f"layer number {number}"
    kinds: dict[str, type] = dict.fromkeys(_LAYER_NUMBERS, int) | dict.fromkeys(_LAYER_TEXTS, str) | {"runs": dict}
    members = _object(value, where, kinds)
    runs = {unit: tuple(_range(one, where) for one in _list(ranges, f"{where}: runs of {quoted(unit)}"))
            for unit, ranges in members["runs"].items()}
    texts: dict[str, Any] = {key: _text(members[key], f"{where}: {key}") for key in _LAYER_TEXTS}
    return Layer(**{key: members[key] for key in _LAYER_NUMBERS}, **texts, runs=runs)


def _list(value: object, where: str) -> list[object]:
    require(isinstance(value, list), f"{where} must be a list, not {_shown(value)}")
    assert isinstance(value, list)
    return value


def _range(value: object, where: str) -> tuple[int, int]:
    pair = _list(value, f"{where}: a range of RUNs")
    require(len(pair) == 2 and all(type(number) is int for number in pair),
            f"{where}: a range of RUNs must be two integers, not {_shown(value)}")
    first, last = pair
    assert isinstance(first, int) and isinstance(last, int)
    return first, last
