"""Vela's estimate of a network on the Ethos-U55 with as many multipliers, if `ethos-u-vela` is installed.

It is a compiler's estimate for Vela's default system (weights in flash): a yardstick, not a measurement.
"""

import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tq_hw.isa.config import Config

__all__ = ["MULTIPLIERS", "find_vela", "total_cycles", "vela_cycles"]

#: Numbers of multipliers of the accelerators that Vela knows.
MULTIPLIERS = (32, 64, 128, 256)
_SECONDS = 300


def find_vela() -> str | None:
    """Return Vela's path: next to this Python, or on the PATH."""
    return shutil.which("vela", path=str(Path(sys.executable).parent)) or shutil.which("vela")


def total_cycles(rows: Iterable[Mapping[str, str]]) -> int:
    """Return the cycles in the only row of a summary; ValueError for errors in it."""
    found = list(rows)
    if len(found) != 1 or "cycles_total" not in found[0]:
        raise ValueError("expected one row with cycles_total in Vela's summary")
    return round(float(found[0]["cycles_total"]))


def vela_cycles(model: Path, config: Config, program: str) -> int | None:
    """Return the estimate; None if Vela has no such accelerator, or refuses the model."""
    if config.macs not in MULTIPLIERS:
        return None
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run([program, "--accelerator-config", f"ethos-u55-{config.macs}", "--output-dir", folder,
                                   str(model.resolve())], capture_output=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return None
        summaries = sorted(Path(folder).glob("*_summary_*.csv"))
        if done.returncode or len(summaries) != 1:
            return None
        with summaries[0].open(encoding="utf-8", newline="") as file:
            return total_cycles(csv.DictReader(file))
