"""`--waves`, `--array`, `--lanes`: which waves of an RTL run are written, and which parts are replaced by models."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from tq_hw.cli.shared.files import write
from tq_hw.isa.program import Program
from tq_hw.model.errors import OptionError
from tq_hw.sim.diagnose.wave_layout import layout_files
from tq_hw.sim.rtl.arithmetic import CHOICES, Arithmetic
from tq_hw.sim.rtl.build import library
from tq_hw.sim.rtl.waves import Waves, read_signals

__all__ = ["arithmetic_options", "check_arithmetic_options", "waves_files", "waves_options", "write_layout"]

Function = TypeVar("Function", bound=Callable[..., Any])


def waves_options(function: Function) -> Function:
    """Add `--waves`, `--waves-scope`, `--waves-from` and `--waves-to`, as one argument `waves`."""
    @wraps(function)
    def command(*args: Any, waves: str | None, waves_scopes: tuple[str, ...], waves_from: int | None,
                waves_to: int | None, **others: Any) -> Any:
        if waves is None and (waves_scopes or waves_from is not None or waves_to is not None):
            raise OptionError("--waves-scope, --waves-from and --waves-to need --waves, the file that they apply to")
        chosen = None if waves is None else Waves(waves, waves_scopes, waves_from or 0, waves_to)
        return function(*args, waves=chosen, **others)

    cycle = click.IntRange(0, 2**48)
    for option in (
        click.option("--waves-to", type=cycle, metavar="CYCLE", help="Last cycle of the waves.  [default: the end]"),
        click.option("--waves-from", type=cycle, metavar="CYCLE", help="First cycle of the waves.  [default: 0, the "
                     "start]"),
        click.option("--waves-scope", "waves_scopes", multiple=True, metavar="SCOPE", help="Write only the waves of "
                     "this part of the machine, such as array, control_load or fetch.queue_load. May be repeated.  "
                     "[default: all]"),
        click.option("--waves", metavar="OUT.fst|OUT.vcd", help="Write the waves of the first inference (--engine "
                     "rtl), and layouts for GTKWave and Surfer."),
    ):
        command = option(command)
    return cast(Function, command)


def arithmetic_options(function: Function) -> Function:
    """Add `--array` and `--lanes`, as one argument `arithmetic`."""
    @wraps(function)
    def command(*args: Any, array: str, lanes: str, **others: Any) -> Any:
        return function(*args, arithmetic=Arithmetic(array, lanes), **others)

    for option, what in (("--lanes", "lanes of the vector unit"), ("--array", "multipliers")):
        command = click.option(option, type=click.Choice(CHOICES), default="rtl", show_default=True,
                               help=f"The {what} of --engine rtl: their RTL, or a C++ model of them, which is faster "
                               "and tested against the RTL.")(command)
    return cast(Function, command)


def check_arithmetic_options(arithmetic: Arithmetic, engine: str, waves: Waves | None) -> None:
    """Refuse models on engines other than the RTL, and together with waves."""
    for name, choice in arithmetic._asdict().items():
        if choice == "rtl":
            continue
        if engine != "rtl":
            raise OptionError(f"--{name} {choice} needs --engine rtl, not {engine}")
        if waves is not None:
            raise OptionError(f"--waves shows the whole RTL: leave --{name} {choice} out")


def waves_files(waves: Waves | None) -> dict[str, str | None]:
    """Return the files that --waves writes, by the names that messages give them: the waves, and the views of them."""
    if waves is None:
        return {}
    path = Path(waves.path)
    return {"--waves": str(waves.path), **{
        f"the view for {viewer} of --waves": str(path.with_suffix(suffix))
        for viewer, suffix in (("GTKWave", ".gtkw"), ("Surfer", ".sucl"))}}


def write_layout(program: Program, waves: Waves, cycles: int) -> None:
    """Write the layouts and decoded text with which viewers show the waves of a program that ran for `cycles`."""
    everything = read_signals(library(program.config, trace=waves.kind))
    signals = {module: bits for module, bits in everything.items() if not waves.scopes or any(
        f"{module}.".startswith(f"{scope}.") for scope in waves.scopes)}
    last_cycle = cycles if waves.last_cycle is None else min(waves.last_cycle, cycles)
    for path, text in layout_files(program, Path(waves.path), signals, (waves.first_cycle, last_cycle)).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write(str(path), text.encode())
