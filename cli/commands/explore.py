"""`tq-hw explore`: the best machines for some models, on a board or within limits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tq_hw.boards.catalog.catalog import find_board, find_memory
from tq_hw.boards.resources.board import recorded_memories
from tq_hw.cli.commands.report import make_page
from tq_hw.cli.explore.confirm import WAYS, check_ways, confirm, finalists_of
from tq_hw.cli.explore.exploration import Exploration
from tq_hw.cli.explore.front import Aim, Point, times_as_fast
from tq_hw.cli.explore.options import with_options
from tq_hw.cli.explore.page import render_front
from tq_hw.cli.explore.reports import Links, check_reports, write_reports
from tq_hw.cli.explore.search import PROOFS, Workers, explore
from tq_hw.cli.explore.target import Target, board_target, file_target
from tq_hw.cli.report.page import need_plots
from tq_hw.cli.report.tables import Column, print_table, print_text
from tq_hw.cli.shared.configurations import to_toml
from tq_hw.cli.shared.files import check_outputs, write, write_json
from tq_hw.cli.shared.options import debug_option, json_option
from tq_hw.cli.shared.progress import Meter
from tq_hw.cli.shared.text import printable
from tq_hw.cli.subject import compile_all
from tq_hw.compiler import estimate_model
from tq_hw.model.errors import MismatchError, OptionError, ToolError
from tq_hw.model.tflite.reader import parse_model, read_model
from tq_hw.store import Store, default_store

__all__ = ["explore_command"]

_SHOWN = 20


def _by_model(option: str, values: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    found = {}
    for value in values:
        name, equals, number = value.rpartition("=")
        if name not in names:
            raise OptionError(f"{option} {value}: expected NAME=NUMBER with the name of a model: {', '.join(names)}")
        try:
            found[name] = float(number)
        except ValueError:
            found[name] = 0.0
        if not 0 < found[name] < 1e9:
            raise OptionError(f"{option} {value}: expected a number above 0, found {number!r}")
    return found


def read_aims(paths: Sequence[str], weights: Sequence[str], deadlines: Sequence[str]) -> list[Aim]:
    """Read and check the models; OptionError for two of one name, or an option about a model that is not given."""
    names = [Path(path).stem for path in paths]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"two models are called {name!r}; give them different names")
    by_weight, by_deadline = _by_model("--weight", weights, names), _by_model("--deadline", deadlines, names)
    aims = []
    for name, path in zip(names, paths, strict=True):
        read_model(path)
        aims.append(Aim(name, printable(path), Path(path).read_bytes(), by_weight.get(name, 1.0),
                        by_deadline.get(name, 0.0)))
    return aims


def _target(board_name: str | None, memory_name: str | None, space: str | None, paths: Sequence[str]) -> Target:
    if (board_name is None) == (space is None):
        raise OptionError("expected either --board or --space")
    if space is not None:
        if memory_name is not None:
            raise OptionError(f"--memory {memory_name}: belongs to a board; give --board")
        return file_target(space)
    assert board_name is not None
    board = find_board(board_name)
    models = [read_model(path) for path in paths]
    if memory_name is not None:
        return with_options(board_target(board, find_memory(board, memory_name)), models)
    targets = [board_target(board, find_memory(board, name)) for name in recorded_memories(board)]
    if not targets:
        return board_target(board, board.memories[0])
    # The first memory that holds every model.
    needed = max(estimate_model(model, board.config).memory_bytes for model in models)
    largest = max(targets, key=lambda target: target.memory_bytes)
    return with_options(next((target for target in targets if target.memory_bytes >= needed), largest), models)


def _row(point: Point, found: Exploration) -> tuple[object, ...]:
    faster = f"{times_as_fast(point, found.preset):.2f}" if found.preset is not None else ""
    return (point.config.name, f"{point.milliseconds:.3f}", faster,
            *(f"{values['cycles']:,}" for values in point.models.values()),
            *(f"{point.taken[kind]:,.10g}" for kind in ("luts", "flip_flops", "multipliers", "block_rams")),
            f"{point.bytes:,}", point.confirmation)


def _show(found: Exploration, aims: Sequence[Aim], target: Target) -> None:
    every = "all" if found.exhaustive else f"{found.estimated:,}"
    print_text(f"{target.name}: {every} of {found.space:,} machines that fit, {len(found.front):,} on the front; "
               f"memory of {target.rate.bytes_per_cycle:g} bytes per cycle, {target.clock_hz / 1e6:g} MHz")
    for what, line in found.sure:
        print_text(f"{what}: {line}")
    numbers = ("ms", "x preset", *(aim.name for aim in aims), "LUTs", "flip-flops", "multipliers", "block RAMs",
               "bytes")
    columns = [Column("machine", least=12), *(Column(name, number=True) for name in numbers),
               Column("confirmed by", gives_way=1)]
    print_table(columns, [_row(point, found) for point in found.front[:_SHOWN]],
                _row(found.preset, found) if found.preset is not None else None)
    if len(found.front) > _SHOWN:
        print_text(f"and {len(found.front) - _SHOWN:,} slower ones: --json and --html have them all")
    for reason, count in sorted(found.refused.items(), key=lambda item: -item[1])[:3]:
        print_text(f"{count:,} refused: {reason}")


def _sure_json(found: Exploration) -> dict[str, Any]:
    return {"preset_on_front": found.preset_on_front, "proved": list(found.proved), "undecided": found.undecided}


def front_json(found: Exploration, aims: Sequence[Aim], target: Target) -> dict[str, Any]:
    """Return the JSON of `--json`."""
    return {
        "target": target.name, "family": target.family, "clock_mhz": target.clock_hz / 1e6,
        "latency": target.rate.latency_cycles, "bytes_per_cycle": target.rate.bytes_per_cycle,
        "models": [{"name": aim.name, "file": aim.path, "weight": aim.weight, "deadline_ms": aim.deadline_ms or None}
                   for aim in aims],
        "space": found.space, "estimated": found.estimated, "exhaustive": found.exhaustive,
        "refused": dict(found.refused), "preset": found.preset.to_json() if found.preset is not None else None,
        **_sure_json(found), "by_estimates": _sure_json(found.by_estimates) if found.by_estimates else None,
        "chosen": found.chosen.to_json() if found.chosen else None,
        "front": [point.to_json() for point in found.front]}


def _reports(html: str, found: Exploration, aims: Sequence[Aim], target: Target, finalists: int) -> Links:
    """Write reports of the finalists and the preset, on the executor with estimated cycles."""
    def report(aim: Aim, point: Point) -> bytes:
        model = parse_model(aim.blob, aim.name).under("canon")
        compiled = compile_all(model, point.config, aim.path, memory=target.rate)
        page = make_page(aim.path, model, compiled, "executor", target.rate, 0, point.clock_hz)
        if page.difference is not None:
            raise MismatchError(page.difference)
        return page.html

    return write_reports(html, finalists_of(found, finalists), aims, report)


@click.command("explore")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option("--board", "board_name", metavar="BOARD", help="Board whose device and memory are the limits.")
@click.option("--memory", "memory_name", metavar="NAME", help="The board's memory.  [default: the first that was "
              "synthesized and holds the models]")
@click.option("--space", metavar="FILE.toml", help="Sizes to try, limits and memory, instead of a board.")
@click.option("--weight", "weights", metavar="NAME=NUMBER", multiple=True, help="Importance of a model.  [default: 1]")
@click.option("--deadline", "deadlines", metavar="NAME=MS", multiple=True, help="Longest time allowed for a model.")
@click.option("--most", type=click.IntRange(0), default=1000, show_default=True, help="Most machines to estimate, 0 "
              "for all; if more fit, the search picks those near the front.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of the search.")
@click.option("--prove", type=click.Choice(PROOFS), multiple=True, help="Also estimate machines that bounds do not "
              "rule out, until none can beat the preset, or be faster than the fastest. May be repeated.")
@click.option("--confirm", "by", type=click.Choice(WAYS), multiple=True, help="Run the finalists and the preset on "
              "the RTL, or synthesize, or place and route the board with them. May be repeated.")
@click.option("--finalists", type=click.IntRange(1, 100), default=2, show_default=True, help="Number of finalists, the "
              "fastest first.")
@click.option("--store", metavar="FILE", help="SQLite file for results.  [default: results.sqlite in the user's data]")
@click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Processes.  [default: one per processor]")
@click.option("--scheduler", metavar="tcp://HOST:PORT", help="Let the workers of a Dask cluster do it.")
@click.option("-o", "output", metavar="FILE.toml", help="Write the fastest machine of the front, or of "
              "those confirmed if any are.")
@click.option("--html", metavar="FILE.html", help="Write a page with the front.")
@click.option("--reports", is_flag=True, help="Next to the page, write reports of the models on each finalist and the "
                                              "preset.")
@json_option
@debug_option
def explore_command(models: tuple[str, ...], board_name: str | None, memory_name: str | None, space: str | None,
                    weights: tuple[str, ...], deadlines: tuple[str, ...], most: int, seed: int, prove: tuple[str, ...],
                    by: tuple[str, ...], finalists: int, store: str | None, jobs: int | None, scheduler: str | None,
                    output: str | None, html: str | None, reports: bool, json_file: str | None) -> None:
    """Search the machines that fit for the Pareto front: the fastest, and smaller ones that are slower.

    Cycles and resources are estimated for all; results are kept, so a stopped search can continue.
    """
    check_outputs({"-o": output, "--html": html, "--json": json_file}, [*models, space],
                  {str(store or default_store()): "the file of --store"})
    if reports and html in (None, "-"):
        raise OptionError("--reports: go with a page; give --html FILE.html")
    if html is not None:
        need_plots()
        if reports:
            check_reports(html)
    aims = read_aims(models, weights, deadlines)
    target = _target(board_name, memory_name, space, models)
    check_ways(by, target, scheduler is None)
    results = Path(store) if store is not None else default_store()
    # Fails now if results cannot be kept there, before machines are counted.
    Store(results).close()
    with Meter() as meter:
        workers = Workers(results, jobs, scheduler, meter.seen)
        found = explore(aims, target, workers, most=most, seed=seed, prove=prove)
        found = confirm(by, found, aims, target, workers, finalists)
    write_json(json_file, front_json(found, aims, target))
    if html is not None:
        links = _reports(html, found, aims, target, finalists) if reports else {}
        write(html, render_front(found, aims, target, front_json(found, aims, target), links).encode())
    if output is not None and found.chosen is not None:
        write(output, to_toml(found.chosen.config).encode())
    if "-" not in (output, html, json_file):
        _show(found, aims, target)
    if found.chosen is None:
        nearest = min(found.points, key=lambda point: point.milliseconds)
        raise ToolError("no machine meets all deadlines; the fastest, " + nearest.config.name + ", takes "
                                + ", ".join(f"{time:.3f} ms for {name}"
                                            for name, time in nearest.milliseconds_by_model.items()))
