"""Write the figures of the documentation: `python docs/figures/draw.py`; `--check` compares instead.

A figure is computed from its subject: addresses from the compiler's own rule, the waveform from a simulation.
report.png is a screenshot: `tq-hw report examples/digits/digits.tflite -o report.html --config n8` in a browser.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from banks import banks
from front import front
from machine import machine
from stages import stages
from tile import tile

__all__ = ["FIGURES", "FOLDER"]

FOLDER = Path(__file__).parent
FIGURES: Mapping[str, Callable[[], str]] = {
    "machine.svg": machine, "stages.svg": stages, "banks.svg": banks, "tile.svg": tile,
    "front.svg": front}


def main() -> int:
    """Write or compare; return 1 if a figure is out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="figures, all by default", metavar="NAME")
    parser.add_argument("--check", action="store_true", help="write nothing; say which figures are out of date")
    options = parser.parse_args()
    stale = 0
    for name in options.names or FIGURES:
        path, text = FOLDER / name, FIGURES[name]()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(f"{name}: {'out of date' if options.check else 'written'}")
        if not options.check:
            path.write_text(text, encoding="utf-8")
    return int(options.check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
