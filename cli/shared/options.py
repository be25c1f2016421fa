"""Options that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tq_hw.isa.memory import YARDSTICK
from tq_hw.model.errors import OptionError
from tq_hw.model.graph import PROFILES

__all__ = ["ENGINES", "check_resident", "config_option", "debug_option", "debugging", "draw_options",
           "engine_option", "json_option", "memory_options", "profile_option", "rate_options", "resident_option",
           "seed_option"]

Function = TypeVar("Function", bound=Callable[..., Any])

ENGINES = ("rtl", "executor", "golden")

#: Not empty once `--debug` was seen.
debugging: set[str] = set()


def _note_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        debugging.add("debug")


def debug_option(function: Function) -> Function:
    """Add `--debug`, before or after the command's name."""
    return click.option("--debug", is_flag=True, is_eager=True, expose_value=False, callback=_note_debug,
                        help="Show the traceback of an error.")(function)


def config_option(function: Function) -> Function:
    """Add `--config`."""
    return click.option("--config", metavar="NAME|FILE.toml", help="Configuration of the accelerator; `tq-hw configs` "
                        "lists the names.  [default: n16]")(function)


def profile_option(function: Function) -> Function:
    """Add `--profile`; without it the value is None."""
    return click.option("--profile", type=click.Choice(PROFILES), help="Whose arithmetic: LiteRT's reference kernels "
                        "with FULLY_CONNECTED and SUM of TFLite Micro (canon), TFLite Micro's kernels, or LiteRT's "
                        "reference kernels.  [default: canon]")(function)


def json_option(function: Function) -> Function:
    """Add `--json`."""
    return click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON, '-' for standard "
                        "output.")(function)


def engine_option(function: Function) -> Function:
    """Add `--engine`."""
    return click.option("--engine", type=click.Choice(ENGINES), default="rtl", show_default=True,
                        help="What runs the model: the Verilated RTL, the executor of the command stream, or the "
                        "golden model.")(function)


def rate_options(function: Function) -> Function:
    """Add `--latency` and `--bytes-per-cycle`."""
    for option in (
        click.option("--bytes-per-cycle", type=click.FloatRange(0.01, 1024), default=YARDSTICK.bytes_per_cycle,
                     show_default=True, help="Peak rate of the memory, reads and writes together."),
        click.option("--latency", type=click.IntRange(1, (1 << 20) - 1), default=YARDSTICK.latency_cycles,
                     show_default=True, help="Cycles from a request to the first data."),
    ):
        function = option(function)
    return function


def memory_options(function: Function) -> Function:
    """Add `--latency`, `--bytes-per-cycle` and `--stalls`."""
    stalls = click.option("--stalls", type=click.IntRange(0, 2**32 - 1), metavar="SEED",
                          help="Let the memory stall at random.")
    return rate_options(stalls(function))


def resident_option(function: Function) -> Function:
    """Add `--resident`."""
    return click.option("--resident", is_flag=True, help="Run each input set twice: from a cold start, and again with "
                        "the weights that stayed in the scratchpad.")(function)


def check_resident(resident: bool, engine: str) -> None:
    """Refuse --resident where there is no scratchpad."""
    if resident and engine == "golden":
        raise OptionError("--resident needs --engine rtl or executor, not golden")


def seed_option(function: Function) -> Function:
    """Add `--seed`."""
    return click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True,
                        help="Seed of drawn inputs.")(function)


def draw_options(default_sets: int) -> Callable[[Function], Function]:
    """Add `--seed` and `--sets`."""
    def add(function: Function) -> Function:
        for option in (
            click.option("--sets", type=click.IntRange(1, 100_000), default=default_sets, show_default=True,
                         help="Number of drawn input sets."),
            seed_option,
        ):
            function = option(function)
        return function
    return add
