"""Initial view for wave viewers: commands with their layers as text, queues, tokens.

GTKWave gets a save file `OUT.gtkw`, Surfer a command file `OUT.sucl`. Text for numeric values is in separate files: a
unit's operation counter is shown as the operation last taken, with its layer. Surfer searches for such files in the
folder `.surfer/mappings` below its working directory.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tq_hw.isa.control import Status
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Program
from tq_hw.sim.rtl.waves import TOP_SCOPE

__all__ = ["Row", "layout_files", "layout_rows"]

#: GTKWave's row flags: decimal and right-aligned; the same with text from a file; a comment.
_DECIMAL, _TEXTS, _COMMENT = 0x24, 0x2024, 0x200
#: Length of a cycle in the file; initial width of GTKWave's waves, in its frames of 200 pixels.
_CYCLE_PS, _FRAMES = 1000, 2.5
_UNITS = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)
_ERRORS = {status.value: status.name for status in Status}
_DIGITS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")


@dataclass(frozen=True)
class Row:
    """A row of the layout: a signal with its bits and the name of its text table ("" for none), or a heading."""

    name: str
    bits: int = 0
    texts: str = ""


def layout_rows(signals: Mapping[str, Mapping[str, int]]) -> Iterator[Row]:
    """Yield the rows of a machine, without signals that it does not have; `signals` are by module."""
    for unit in _UNITS:
        name = unit.name.lower()
        yield Row(f"{name} unit")
        for module, signal, texts in ((f"control_{name}", "runs", name), (f"control_{name}", "in_flight", ""),
                                      (f"control_{name}", "waiting", ""), (f"fetch.queue_{name}", "level", ""),
                                      (f"control_{name}", "error", "status")):
            if bits := signals.get(module, {}).get(signal):
                yield Row(f"{TOP_SCOPE}.{module}.{signal}", bits, texts)
    yield Row("tokens")
    for signal, bits in sorted(signals.get("tokens", {}).items()):
        if "_to_" in signal and not signal.endswith(("_next", "_over")):
            yield Row(f"{TOP_SCOPE}.tokens.{signal}", bits)


def _texts(program: Program) -> dict[str, dict[int, str]]:
    """Return the text for operation counters by unit, and for error codes."""
    found: dict[str, dict[int, str]] = {"status": dict(_ERRORS)}
    for unit in _UNITS:
        name = unit.name.lower()
        taken = {0: "nothing yet"}
        for layer in program.layers:
            for first, last in layer.runs.get(name, ()):
                taken |= {run + 1: f"{layer.index} {layer.op}, run {run}" for run in range(first, last + 1)}
        found[name] = taken
    return found


def layout_files(program: Program, waves: Path, signals: Mapping[str, Mapping[str, int]],
                 span: tuple[int, int]) -> dict[Path, str]:
    """Return the layout files for waves of a program, by path; none for a machine without such signals.

    `span` is the first and the last cycle of the waves: viewers open with all of it visible.
    """
    rows = list(layout_rows(signals))
    if not any(row.texts for row in rows):
        return {}
    stem, folder = waves.stem, waves.resolve().parent
    texts = _texts(program)
    used = sorted({row.texts for row in rows if row.texts})
    names = folder / f"{stem}.names"
    files: dict[Path, str] = {}
    bits = {row.texts: row.bits for row in rows if row.texts}
    for name in used:
        lines = "".join(f"{value} {text}\n" for value, text in texts[name].items())
        files[names / f"{name}.txt"] = lines
        files[folder / ".surfer" / "mappings" / f"{stem}_{name}.txt"] = (
            f"Name = {_format(stem, name)}\nBits = {bits[name]}\n{lines}")
    files[folder / f"{stem}.gtkw"] = "\n".join([f'[dumpfile] "{waves.resolve()}"', *_view(*span),
                                                     *_gtkwave(rows, names), ""])
    files[folder / f"{stem}.sucl"] = "\n".join([*_surfer(rows, stem), ""])
    return files


def _format(stem: str, name: str) -> str:
    """Return the name of a row's text table, as one word for Surfer: a space ends a word, `#` the line."""
    return re.sub(r"[^\w.-]", "_", f"{stem}_{name}")


def _view(first_cycle: int, last_cycle: int) -> Iterator[str]:
    """GTKWave's start and zoom: two to the power of the zoom is the picoseconds per frame; no marker is set."""
    cycles = max(last_cycle - first_cycle, 1)
    yield f"[timestart] {_CYCLE_PS * first_cycle}"
    yield f"*-{math.log2(_CYCLE_PS * cycles / _FRAMES):.6f} {' '.join(['-1'] * 27)}"


def _gtkwave(rows: list[Row], names: Path) -> Iterator[str]:
    for row in rows:
        if not row.bits:
            yield from (f"@{_COMMENT:x}", f"-{row.name}")
            continue
        if row.texts:
            yield from (f"@{_TEXTS:x}", f"^1 {names / row.texts}.txt")
        else:
            yield f"@{_DECIMAL:x}"
        yield row.name if row.bits == 1 else f"{row.name}[{row.bits - 1}:0]"


def _surfer(rows: list[Row], stem: str) -> Iterator[str]:
    for row in rows:
        yield f"variable_add {row.name}" if row.bits else f"divider_add {row.name.replace(' ', '_')}"
    for number, row in enumerate(rows):
        if row.bits:
            # Surfer identifies a row by its number, in hexadecimal with the letters a to p as digits.
            yield f"item_focus {f'{number:x}'.translate(_DIGITS)}_{row.name}"
            yield f"item_set_format {_format(stem, row.texts) if row.texts else 'Unsigned'}"
    yield from ("item_unfocus", "zoom_fit")
