"""Cycles, utilization, simulator speed, resources and clock: `make bench`, or `python benches/run.py --help`.

The figures go to build/bench.json. `--record` also stores them in benches/history. The next run is compared with the
last file there that has the same settings.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fpga import FpgaResult, cached, print_result
from measure import BOARD_MEMORIES, NetworkFigures, measure
from rich.console import Console
from rich.table import Table
from vela import find_vela, vela_cycles
from yardsticks import ROOT, YARDSTICKS, Yardstick

from tq_hw.cli.main import describe
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.model.errors import MissingToolError, OptionError, UnsupportedError
from tq_hw.sim.rtl.build import library

_HISTORY = ROOT / "benches" / "history"
_OUTPUT = ROOT / "build" / "bench.json"
#: The configuration whose resources and clock are reported, and its target clock.
_FPGA_CONFIG, _FPGA_MHZ = "n9x8", 100


def chosen(names: Sequence[str], everything: bool) -> list[Yardstick]:
    """Return the yardsticks to run: the named ones, else the usual ones, or all."""
    if not names:
        return [y for y in YARDSTICKS if everything or not y.extra]
    known = {y.name: y for y in YARDSTICKS}
    for name in names:
        if name not in known:
            raise OptionError(f"no network {name!r}; there are {', '.join(map(repr, known))}")
    return [known[name] for name in names]


def run_networks(yardsticks: Sequence[Yardstick], config: Config, memory: Memory, console: Console,
                 show_layers: bool) -> list[NetworkFigures]:
    """Measure the yardsticks that exist; print which ones do not."""
    say = _progress(console)
    library(config, progress=lambda text, done: say(f"RTL simulator of {config.name}: {text}, {done:.0%}"))
    found = []
    vela = find_vela()
    if vela is None:
        console.print("Vela's estimates: skipped, ethos-u-vela is not installed: .venv/bin/pip install ethos-u-vela")
    for yardstick in yardsticks:
        if not yardstick.exists:
            console.print(f"{yardstick.name}: skipped, there is no {yardstick.path.name} beside the checkout")
            continue
        say(f"{yardstick.name} at {config.name}")
        try:
            found.append(measure(yardstick, config, memory))
            if vela is not None and yardstick.build is None:
                say(f"{yardstick.name}: Vela's estimate")
                found[-1] = replace(found[-1], vela=vela_cycles(yardstick.path, config, vela))
        except UnsupportedError as error:
            console.print(f"{yardstick.name}: skipped, {error}", markup=False)
            continue
        if show_layers:
            print_layers(found[-1], console)
    say("")
    return found


def print_networks(found: Sequence[NetworkFigures], before: dict[str, Any] | None, memory: Memory,
                   console: Console) -> None:
    """Print one line per network."""
    if not found:
        return
    table = Table(title=f"RTL at {found[0].config}, {memory.bytes_per_cycle:g} bytes per cycle, latency "
                        f"{memory.latency_cycles}; every integer equal to the golden model's")
    table.add_column("network")
    for name in ("cycles", "warm", "use", "ideal", "x ideal", "to beat", "x to beat", "x stretch", "x last", "Vela",
                 "x Vela", "estimate", "error", "layers: median", "worst", "compile s", "Mcycles / cpu s"):
        table.add_column(name, justify="right")
    last = {row["name"]: row["cycles"] for row in before["networks"]} if before else {}
    for row in found:
        middle, worst = row.errors
        table.add_row(
            row.name, f"{row.cycles:,}", f"{row.warm:,}" if row.warm else "",
            f"{row.utilization:.1%}", f"{row.ideal:,}", f"{row.ratio_ideal:.2f}",
            f"{row.to_beat:,}" if row.to_beat else "", _ratio(row.ratio_to_beat), _ratio(row.ratio_stretch),
            _ratio(row.cycles / last[row.name] if row.name in last else None, 3),
            f"{row.vela:,}" if row.vela else "", _ratio(row.cycles / row.vela if row.vela else None),
            f"{row.estimate:,}", f"{row.estimate / row.cycles - 1:+.1%}", f"{middle:.0%}", f"{worst:.0%}",
            f"{row.compile_seconds:.2f}", f"{row.cycles_per_cpu_second / 1e6:.3f}")
    console.print(table)


def print_layers(row: NetworkFigures, console: Console) -> None:
    """Print one line per operator, in the order in which they end."""
    table = Table(title=f"{row.name} at {row.config}, by layer")
    for name in ("index", "op", "cycles", "use", "estimate", "error", "load", "array", "vector", "store", "bound"):
        table.add_column(name, justify="left" if name in ("op", "bound") else "right")
    for layer in row.layers:
        table.add_row(str(layer.index), layer.op, f"{layer.cycles:,}", f"{layer.utilization:.1%}",
                      f"{layer.estimate:,}", f"{layer.error:+.0%}", *(f"{n:,}" for n in layer.busy.values()),
                      layer.bound)
    console.print(table)


def run_fpga(seed: int, force: bool, before: dict[str, Any] | None, console: Console) -> FpgaResult | None:
    """Return resources and clock of the bare accelerator; None if the tools are not installed."""
    say = _progress(console)
    try:
        result = cached("accelerator", load_config(_FPGA_CONFIG), seed=seed, freq_mhz=_FPGA_MHZ, force=force, say=say)
    except MissingToolError as error:
        console.print(f"resources and clock: skipped, {error}", markup=False)
        return None
    say("")
    print_result(result, console, hops=False)
    if before and before.get("fpga"):
        last = before["fpga"]
        parts = [f"{name.replace('_', ' ')} x {count / last['resources'][name]:.3f}"
                 for name, count in result.resources.items() if last["resources"].get(name)]
        console.print(f"against the last recorded: fmax x {result.fmax_mhz / last['fmax_mhz']:.3f}, {', '.join(parts)}")
    return result


def last_record(settings: dict[str, Any]) -> dict[str, Any] | None:
    """Return the last file of the history with the same settings."""
    for path in sorted(_HISTORY.glob("*.json"), reverse=True):
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if record["settings"] == settings:
            return record
    return None


def _ratio(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _progress(console: Console) -> Callable[[str], None]:
    """Return a function that prints a line over the previous one; it prints nothing if the output is not a terminal."""
    if not console.is_terminal:
        return lambda _: None
    return lambda text: console.print(text.ljust(console.width - 1)[:console.width - 1], end="\r", highlight=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="names from the table (default: digits and the "
                        "four MLPerf Tiny networks)")
    parser.add_argument("--all", action="store_true", help="all networks of benches/yardsticks.py")
    parser.add_argument("--config", default="n16", help="preset or TOML file (default: %(default)s)")
    parser.add_argument("--latency", type=int, default=YARDSTICK.latency_cycles,
                        help="cycles to memory (default: %(default)s)")
    parser.add_argument("--bytes-per-cycle", type=float, default=YARDSTICK.bytes_per_cycle,
                        help="of memory (default: %(default)s)")
    parser.add_argument("--memory-of", metavar="BOARD", choices=sorted(BOARD_MEMORIES), help="latency and rate of a "
                        f"board's memory instead: {', '.join(sorted(BOARD_MEMORIES))}")
    parser.add_argument("--layers", action="store_true", help="one line per layer as well")
    parser.add_argument("--no-fpga", action="store_true", help="leave resources and clock out")
    parser.add_argument("--fpga", action="store_true", help="place and route again although nothing has changed")
    parser.add_argument("--seed", type=int, default=1, help="of the placer (default: %(default)s)")
    parser.add_argument("--json", type=Path, default=_OUTPUT, help="file for all figures (default: build/bench.json)")
    parser.add_argument("--record", action="store_true", help="keep the figures in benches/history")
    return parser


def memory_of(options: argparse.Namespace) -> Memory:
    """Return the requested memory."""
    if options.memory_of:
        return BOARD_MEMORIES[options.memory_of]
    return Memory(options.latency, options.bytes_per_cycle)


def bench(options: argparse.Namespace) -> None:
    """Measure, print and write the figures."""
    console = Console(width=None if sys.stdout.isatty() else 190)
    memory = memory_of(options)
    settings = {"config": options.config, "latency": memory.latency_cycles,
                "bytes_per_cycle": memory.bytes_per_cycle}
    before = last_record(settings)
    found = run_networks(chosen(options.networks, options.all), load_config(options.config), memory, console,
                         options.layers)
    print_networks(found, before, memory, console)
    result = None if options.no_fpga else run_fpga(options.seed, options.fpga, before, console)
    now = time.gmtime()
    record = {"settings": settings, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", now),
              "networks": [row.to_json() for row in found], "fpga": asdict(result) if result else None}
    text = json.dumps(record, indent=1) + "\n"
    targets = [options.json]
    if options.record:
        targets.append(_HISTORY / f"{time.strftime('%Y%m%dT%H%M%SZ', now)}-{Path(options.config).stem}.json")
    for target in targets:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        console.print(f"wrote {target}", highlight=False, soft_wrap=True)


def main() -> int:
    """Run the command; return an exit code as defined for `tq-hw`."""
    try:
        bench(_parser().parse_args())
    except Exception as error:
        code, message = describe(error)
        print(f"bench: {message}", file=sys.stderr)
        return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
