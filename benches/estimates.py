"""The compiler's estimate against the RTL, layer by layer: `python benches/estimates.py --config n8`, or `--help`.

A layer counts if it takes at least 1 % of its network's cycles, as in benches/run.py. `--record` stores the
configuration's figures in benches/estimates.json.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from measure import Memory, NetworkFigures, measure
from rich.console import Console
from rich.table import Table
from yardsticks import MODELS, ROOT, Yardstick

from tq_hw.cli.main import describe
from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config, load_config
from tq_hw.model.errors import OptionError, UnsupportedError
from tq_hw.sim.rtl.build import library

__all__ = ["MEDIAN", "WORST", "counted", "networks", "summary"]

#: Goal for the errors of all layers of a configuration.
MEDIAN, WORST = 0.03, 0.12
#: Longer networks are skipped.
_MOST_CYCLES = 2_000_000
_RECORD = ROOT / "benches" / "estimates.json"


def networks(names: Sequence[str]) -> list[Yardstick]:
    """Return the networks of these names: digits, or models next to the checkout. Without names, all."""
    known = {"digits": Yardstick("digits", ROOT / "examples" / "digits" / "digits.tflite")}
    known |= {path.stem: Yardstick(path.stem, path) for path in sorted(MODELS.glob("*.tflite"))}
    for name in names:
        if name not in known:
            raise OptionError(f"no network {name!r}; there are {', '.join(map(repr, known))}")
    return [known[name] for name in names or known]


def counted(row: NetworkFigures) -> dict[str, float]:
    """Return the relative error of each layer that counts, by index and operator."""
    return {f"{layer.index} {layer.op}": layer.error for layer in row.layers if layer.cycles >= row.cycles / 100}


def summary(rows: Sequence[NetworkFigures]) -> tuple[float, float, int, int]:
    """Return median and worst error over all layers that count, their number, and the number of errors beyond WORST."""
    errors = [abs(error) for row in rows for error in counted(row).values()]
    return median(errors), max(errors), len(errors), sum(error > WORST for error in errors)


def run(chosen: Sequence[Yardstick], config: Config, memory: Memory, most: int, console: Console
        ) -> list[NetworkFigures]:
    """Measure the networks that the compiler supports and that are short enough; print which ones are skipped."""
    library(config)
    rows = []
    for one in chosen:
        try:
            program = compile_model(one.model(), config, memory=memory).program
        except UnsupportedError as error:
            console.print(f"{one.name}: skipped, {error}", markup=False)
            continue
        cycles = sum(layer.estimated_cycles for layer in program.layers)
        if cycles > most:
            console.print(f"{one.name}: skipped, it takes about {cycles:,} cycles")
            continue
        rows.append(measure(one, config, memory, warm=False))
    return rows


def show(rows: Sequence[NetworkFigures], config: Config, console: Console) -> None:
    """Print one line per network, and one for all layers."""
    table = Table(title=f"estimate against RTL at {config.name}, layers of 1 % of the cycles and more")
    for name in ("network", "cycles", "estimate", "error", "layers: median", "worst", "which"):
        table.add_column(name, justify="left" if name in ("network", "which") else "right")
    for row in rows:
        errors = counted(row)
        which = max(errors, key=lambda name: abs(errors[name]))
        table.add_row(row.name, f"{row.cycles:,}", f"{row.estimate:,}", f"{row.estimate / row.cycles - 1:+.1%}",
                      f"{median(map(abs, errors.values())):.1%}", f"{errors[which]:+.1%}", which)
    console.print(table)
    if rows:
        middle, worst, count, beyond = summary(rows)
        console.print(f"{count} layers: median {middle:.2%} (at most {MEDIAN:.0%}), worst {worst:.1%} (at most "
                      f"{WORST:.0%}), {beyond} beyond that", highlight=False)


def record(rows: Sequence[NetworkFigures], name: str) -> None:
    """Replace the recorded figures of a configuration."""
    kept: dict[str, Any] = json.loads(_RECORD.read_text(encoding="utf-8")) if _RECORD.exists() else {}
    middle, worst, count, beyond = summary(rows)
    kept[name] = {
        "median": round(middle, 4), "worst": round(worst, 4), "layers": count, "beyond": beyond,
        "networks": {row.name: {"cycles": row.cycles, "estimate": row.estimate, "errors": {
            layer: round(error, 4) for layer, error in counted(row).items()}} for row in rows}}
    _RECORD.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="names of models (default: all)")
    parser.add_argument("--config", default="n16", help="preset or TOML file (default: %(default)s)")
    parser.add_argument("--most-cycles", type=int, default=_MOST_CYCLES, help="leave longer networks out (default: "
                        "%(default)s)")
    parser.add_argument("--record", action="store_true", help="keep the figures in benches/estimates.json")
    return parser


def main() -> int:
    """Run the command; return an exit code as defined for `tq-hw`."""
    try:
        options = _parser().parse_args()
        console = Console(width=None if sys.stdout.isatty() else 160)
        config = load_config(options.config)
        rows = run(networks(options.networks), config, Memory(), options.most_cycles, console)
        show(rows, config, console)
        if options.record and rows:
            record(rows, Path(options.config).stem)
    except Exception as error:
        code, message = describe(error)
        print(f"estimates: {message}", file=sys.stderr)
        return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
