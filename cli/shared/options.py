"""Options that several commands share."""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from tq_hw.isa.config import PRESETS
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.model.errors import OptionError
from tq_hw.model.graph import PROFILES
from tq_hw.model.rules.propagate import InputShapes

__all__ = ["ENGINES", "FiniteRange", "check_drawn", "check_resident", "config_option", "debug_option", "debugging",
           "draw_options", "engine_option", "json_option", "memory_options", "partition_option", "patterns_option",
           "profile_option", "rate_of", "rate_options", "resident_option", "scheduler_options", "seed_option",
           "shape_options", "wide_option"]

Function = TypeVar("Function", bound=Callable[..., Any])

ENGINES = ("rtl", "executor", "golden")

#: Not empty after `--debug`.
debugging: set[str] = set()


def _note_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        debugging.add("debug")


def debug_option(function: Function) -> Function:
    """Add `--debug`, accepted before or after the command's name."""
    return click.option("--debug", is_flag=True, is_eager=True, expose_value=False, callback=_note_debug,
                        help="Show the traceback of an error.")(function)


def complete_config(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the presets whose names begin with the given text, else files."""
    return [CompletionItem(name) for name in PRESETS if name.startswith(incomplete)] or [
        CompletionItem(incomplete, type="file")]


def config_option(function: Function) -> Function:
    """Add `--config`."""
    return click.option("--config", metavar="NAME|FILE.toml", shell_complete=complete_config,
                        help="Configuration of the accelerator; `tq-hw configs` lists the names.  "
                        "[default: n16]")(function)


def profile_option(function: Function) -> Function:
    """Add `--profile`; without it the value is None."""
    return click.option("--profile", type=click.Choice(PROFILES), help="Whose arithmetic to match: LiteRT's reference "
                        "kernels with FULLY_CONNECTED and SUM of TFLite Micro (canon), TFLite Micro's kernels, or "
                        "LiteRT's reference kernels.  [default: canon]")(function)


def _read_shapes(context: click.Context, parameter: click.Parameter,
                 values: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Parse NAME=1,96,96,3 into names and shapes."""
    shapes: dict[str, tuple[int, ...]] = {}
    for value in values:
        name, equals, sizes = value.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.split(","))
        except ValueError:
            shape = ()
        if not (name and equals and shape) or not all(1 <= size < 2**31 for size in shape):
            raise click.BadParameter(f"expected an input's name and its sizes, each 1 or more, as in "
                                     f"x=1,96,96,3; found {value!r}.")
        if name in shapes:
            raise click.BadParameter(f"the input {name!r} is named twice.")
        shapes[name] = shape
    return shapes


def shape_options(function: Function) -> Function:
    """Add `--batch`, `--shape` and `--signature`, as one argument `shapes`."""
    @wraps(function)
    def command(*args: Any, batch: int | None, named: dict[str, tuple[int, ...]], signature: str | None,
                **others: Any) -> Any:
        return function(*args, shapes=InputShapes(batch, named, signature or ""), **others)

    for option in (
        click.option("--signature", metavar="NAME", help="Run the subgraph of this signature.  [default: the first "
                     "subgraph]"),
        click.option("--shape", "named", callback=_read_shapes, multiple=True, metavar="NAME=1,96,96,3",
                     help="Sizes of an input whose dimensions the model leaves open. May be repeated.  [default: as "
                     "stored]"),
        click.option("--batch", type=click.IntRange(1, 2**31 - 1), metavar="N",
                     help="Size of the first dimension of each input that leaves it open.  [default: as stored, "
                     "usually 1]"),
    ):
        command = option(command)
    return cast(Function, command)


def partition_option(function: Function) -> Function:
    """Add `--partition`."""
    return click.option("--partition", "partitioned", is_flag=True, help="Leave operators that the accelerator does "
                        "not support to the host, which runs them in LiteRT.")(function)


def json_option(function: Function) -> Function:
    """Add `--json`."""
    return click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON, '-' for standard "
                        "output.")(function)


def patterns_option(function: Function) -> Function:
    """Add `--patterns`."""
    return click.option("--patterns", "pattern_files", metavar="FILE.py", multiple=True,
                        help="Your own patterns, tried before the library's; the rewritten model is checked on random "
                        "inputs. May be repeated.")(function)


def wide_option(function: Function) -> Function:
    """Add `--wide`."""
    return click.option("--wide", is_flag=True, help="Do not fit the table to the terminal: full names, one line per "
                        "row.")(function)


def engine_option(function: Function) -> Function:
    """Add `--engine`."""
    return click.option("--engine", type=click.Choice(ENGINES), default="rtl", show_default=True,
                        help="What runs the model: the Verilated RTL, the executor of the command stream, or the "
                        "golden model.")(function)


class FiniteRange(click.FloatRange):
    """Real numbers of a range, excluding NaN and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of a text; BadParameter if it is not a number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def rate_options(function: Function) -> Function:
    """Add `--latency` and `--bytes-per-cycle`."""
    for option in (
        click.option("--bytes-per-cycle", type=FiniteRange(0.01, 1024), help="Peak rate of the memory, "
                     f"reads and writes together.  [default: {YARDSTICK.bytes_per_cycle:g}, or the board's]"),
        click.option("--latency", type=click.IntRange(1, (1 << 20) - 1), help="Cycles from a request to the "
                     f"first data.  [default: {YARDSTICK.latency_cycles}, or the board's]"),
    ):
        function = option(function)
    return function


def rate_of(latency: int | None, bytes_per_cycle: float | None, stalls: int | None, rate: Memory) -> Memory:
    """Return the memory given by the options; missing ones keep the values of `rate`."""
    return Memory(rate.latency_cycles if latency is None else latency,
                  rate.bytes_per_cycle if bytes_per_cycle is None else bytes_per_cycle, stalls=stalls)


def memory_options(function: Function) -> Function:
    """Add `--latency`, `--bytes-per-cycle` and `--stalls`."""
    stalls = click.option("--stalls", type=click.IntRange(0, 2**32 - 1), metavar="SEED",
                          help="Let the memory stall at random.")
    return rate_options(stalls(function))


def resident_option(function: Function) -> Function:
    """Add `--resident`."""
    return click.option("--resident", is_flag=True, help="Run each input set twice: from a cold start, and again with "
                        "the weights left in the scratchpad.")(function)


def check_resident(resident: bool, engine: str) -> None:
    """Refuse --resident for the golden model, which has no scratchpad."""
    if resident and engine == "golden":
        raise OptionError("--resident needs --engine rtl or executor, not golden")


def scheduler_options(function: Function) -> Function:
    """Add `--jobs`, None by default, and `--scheduler`."""
    function = click.option("--scheduler", metavar="tcp://HOST:PORT", help="Let the workers of a Dask cluster do "
                            "it.")(function)
    return click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Processes.  [default: "
                        "1]")(function)


def seed_option(function: Function) -> Function:
    """Add `--seed`."""
    return click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True,
                        help="Seed of random inputs.")(function)


def check_drawn(inputs_file: str | None) -> None:
    """Refuse `--seed` and `--sets` if inputs are given: they would have no effect."""
    context = click.get_current_context()
    for name in ("sets", "seed"):
        if inputs_file is not None and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise OptionError(f"--{name} is for random inputs, and --inputs gives some: leave one of them out")


def draw_options(default_sets: int) -> Callable[[Function], Function]:
    """Add `--seed` and `--sets`."""
    def add(function: Function) -> Function:
        for option in (
            click.option("--sets", type=click.IntRange(1, 100_000), default=default_sets, show_default=True,
                         help="Number of random input sets."),
            seed_option,
        ):
            function = option(function)
        return function
    return add
