"""Two runs side by side: this one, and the report of another, as `--json` wrote it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tq_hw.cli.report.layers import Report
from tq_hw.model.errors import OptionError

__all__ = ["compared", "read_report"]


def read_report(name: str) -> Report:
    """Read the JSON of `sim`, `compile` or `report`; OptionError for anything else."""
    try:
        # Some devices never end.
        if Path(name).is_char_device():
            raise OptionError(f"{name}: expected a report that --json wrote, found a device")
        found = json.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"{name}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise OptionError(f"{name}: expected a report that --json wrote, found a file that is not text") from error
    except ValueError as error:
        raise OptionError(f"{name}: expected a report that --json wrote, found invalid JSON: {error}") from error
    except RecursionError as error:
        raise OptionError(f"{name}: expected a report that --json wrote, found values that are nested too "
                          "deeply") from error
    layers = found.get("layers") if isinstance(found, dict) else None
    rows = layers if isinstance(layers, list) else [None]
    right = all(map(_is_row, rows))
    if right and not isinstance(found.get("cycles"), int):
        raise OptionError(f"{name}: has no cycles to compare with: its engine does not model time")
    if not right or not (_has_counts(found) and isinstance(found.get("model"), str)
                         and isinstance(found.get("config"), str)):
        raise OptionError(f"{name}: expected a report that `tq-hw sim`, `compile` or `report` wrote with --json, found "
                          "other JSON")
    return dict(found)


def _is_row(row: object) -> bool:
    """Return whether a value is a layer of a report."""
    return (isinstance(row, dict) and isinstance(row.get("index"), int) and isinstance(row.get("op"), str)
            and {"cycles", "bytes"} <= row.keys() and _has_counts(row))


def _has_counts(values: Mapping[str, object]) -> bool:
    """Return whether cycles and bytes are counts, or not known."""
    return all(one is None or isinstance(one, int) and 0 <= one < 1 << 63
               for one in (values.get("cycles"), values.get("bytes")))


def compared(before: Report, now: Report) -> list[tuple[str, ...]]:
    """Return a row for the network and each operator of either run: name, cycles (before, now, change), bytes alike.

    Operators match if index and name are equal.
    """
    old = {(row["index"], row["op"]): row for row in before["layers"]}
    new = {(row["index"], row["op"]): row for row in now["layers"]}
    rows: list[tuple[str, ...]] = [("", "network", *_pair(before, now, "cycles"), *_pair(before, now, "bytes"))]
    for key in sorted({*old, *new}, key=lambda key: (key[0], key[1])):
        pair = old.get(key, {}), new.get(key, {})
        cells = (*_pair(*pair, "cycles"), *_pair(*pair, "bytes"))
        if any(row.get("cycles") or row.get("bytes") for row in pair):
            rows.append((str(key[0]), key[1], *cells))
    return rows


def _pair(before: Report, now: Report, key: str) -> tuple[str, str, str]:
    one, other = before.get(key), now.get(key)
    change = f"{other / one - 1:+.1%}" if one and other is not None else ""
    return _count(one), _count(other), change


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else ""
