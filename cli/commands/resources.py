"""`tq-hw resources`: LUTs, flip-flops, multipliers and block RAM of a configuration, without synthesis."""

from typing import Any

import click

from tq_hw.boards.catalog.board import FAMILIES, Board
from tq_hw.boards.catalog.catalog import find_board, find_memory
from tq_hw.boards.resources.board import LIMITED, board_resources, recorded_memories, shortages, taken
from tq_hw.boards.resources.clocks import clock_range
from tq_hw.boards.resources.model import FITTED, Resources, estimate_resources, families_of, spread
from tq_hw.boards.resources.record import KINDS, families
from tq_hw.cli.commands.configs import describe_config
from tq_hw.cli.report.tables import Column, percent, print_table, print_text
from tq_hw.cli.shared.configurations import config_file
from tq_hw.cli.shared.files import check_outputs, write_json
from tq_hw.cli.shared.options import config_option, debug_option, json_option
from tq_hw.cli.subject import DEFAULT_CONFIG
from tq_hw.isa.config import Config, load_config
from tq_hw.model.errors import OptionError

__all__ = ["describe_resources", "resources_command"]


def describe_resources(resources: Resources, config: Config, board: str = "") -> dict[str, Any]:
    """Return cells by unit and in total, the error of the fit on machines outside it, and recorded clocks."""
    errors = spread(resources.family, config.design)
    clock = clock_range(config, resources.family, board)
    return {
        "family": resources.family, **{kind: resources.total(kind) for kind in KINDS},
        "units": [{"unit": unit, **{kind: cells[kind] for kind in KINDS}} for unit, cells in resources.units.items()],
        "spread": {kind: {"machines": errors[kind].machines, "held": errors[kind].held,
                          "median": round(errors[kind].median, 4), "worst": round(errors[kind].worst, 4)}
                   for kind in FITTED if kind in errors},
        "clock": None if clock is None else {
            "low_mhz": clock.low_mhz, "high_mhz": clock.high_mhz, "same_sizes": clock.same,
            "routes": [{"config": route.config.name, "mhz": route.mhz, "board": route.board, "what": route.what}
                       for route in clock.routes]},
    }


def _show(resources: Resources, config: Config, board: Board | None) -> None:
    print_text(f"{config.name}, {resources.family}" + (f", {board.name}" if board is not None else ""))
    rows = [(unit, *(_count(cells[kind]) for kind in KINDS)) for unit, cells in resources.units.items()]
    total = ("total", *(_count(resources.total(kind)) for kind in KINDS))
    columns = (Column("unit"), *(Column(kind.replace("_", " "), number=True) for kind in KINDS))
    print_table(columns, rows, total)
    if board is not None:
        device = board.device
        print_text(f"of {device.name}: " + ", ".join(
            f"{percent(count / getattr(device, kind)) or '0 %'} of the {kind.replace('_', ' ')}"
            for kind, count in taken(resources).items()))
        lacking = shortages(board, resources)
        print_text("does not fit: " + "; ".join(lacking) if lacking else "fits")
    errors = spread(resources.family, config.design)
    if errors:
        most = errors["luts"]
        print_text("multipliers and block RAMs are computed, the rest fitted: of the totals of "
                   f"{most.machines} synthesized machines outside the fit ({most.held} never are, the others were "
                   "left out one at a time) " + ", ".join(
                       f"{kind.replace('_', ' ')} were off by {errors[kind].median:.1%} (median), at most "
                       f"{errors[kind].worst:.1%}" for kind in ("luts", "flip_flops")))
    clock = clock_range(config, resources.family, "" if board is None else board.name)
    print_text(clock.text if clock is not None else f"clock: no machine of {resources.family} was routed")


def _count(value: float) -> str:
    return f"{value:,.10g}"


@click.command("resources")
@config_option
@click.option("--board", "board_name", metavar="BOARD", help="A board, for its family, its configuration unless "
              "--config is given, and its logic around the machine.")
@click.option("--memory", "memory_name", metavar="NAME", help="The board's memory.  [default: the first that was "
              "synthesized]")
@click.option("--family", metavar="FAMILY", help=f"FPGA family: {', '.join(families())}.  [default: all that the "
              "design was synthesized for]")
@json_option
@debug_option
def resources_command(config: str | None, board_name: str | None, memory_name: str | None, family: str | None,
                      json_file: str | None) -> None:
    """Estimate the FPGA resources of a configuration, by unit, from recorded syntheses, in less than a second."""
    check_outputs({"--json": json_file}, [config_file(config)])
    found: list[Resources]
    report: dict[str, Any] = {}
    board = None
    if family is not None and family not in families():
        raise OptionError(f"--family {family}: expected one of {', '.join(families())}")
    if board_name is not None:
        board = find_board(board_name)
        if family not in (None, FAMILIES[board.toolchain]):
            raise OptionError(f"--family {family}: {board.name} is an {FAMILIES[board.toolchain]}; leave --family out")
        chosen = load_config(config) if config is not None else board.config
        memory = find_memory(board, memory_name or next(iter(recorded_memories(board)), None))
        found = [board_resources(board, memory, chosen)]
        report = {"board": board.name, "memory": memory.name, "taken": dict(taken(found[0])),
                  "device": {"name": board.device.name, **{kind: getattr(board.device, kind) for kind in LIMITED}},
                  "shortages": shortages(board, found[0])}
    else:
        if memory_name is not None:
            raise OptionError(f"--memory {memory_name}: belongs to a board; give --board")
        chosen = load_config(config or DEFAULT_CONFIG)
        found = [estimate_resources(chosen, one) for one in ([family] if family else families_of(chosen))]
    described = [describe_resources(resources, chosen, board_name or "") for resources in found]
    write_json(json_file, {"config": describe_config(chosen), **report, "resources": described})
    if json_file != "-":
        for number, resources in enumerate(found):
            click.echo("" if number else None, nl=bool(number))
            _show(resources, chosen, board)
