"""`tq-hw generate`: the accelerator as a core for other systems."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tq_hw.cli.package.choices import DEFAULTS, LEGAL, Choices, chosen_core
from tq_hw.cli.package.folder import check_target, write_folder
from tq_hw.cli.shared.configurations import config_file
from tq_hw.cli.shared.files import check_outputs, write_json
from tq_hw.cli.shared.options import config_option, debug_option, json_option
from tq_hw.cli.subject import DEFAULT_CONFIG

__all__ = ["generate_command"]

Function = TypeVar("Function", bound=Callable[..., Any])


def _choice(key: str, text: str) -> Callable[[Function], Function]:
    """Add an option that the configuration's file may set, too; None unless the command line gives it."""
    return click.option(f"--{key.replace('_', '-')}", type=click.Choice(LEGAL[key]),
                        help=f"{text}  [default: {DEFAULTS[key]}]")


@click.command("generate")
@config_option
@_choice("control", "Bus to the registers; plain is the machine's own.")
@_choice("memory_bus", "Bus to memory.")
@_choice("memories", "Memories in the Verilog, or left out as macros, with models.")
@click.option("--name", metavar="NAME", help="Name of the top module and of the files.  [default: tq_hw_CONFIG]")
@click.option("-o", "--dir", "folder", metavar="DIR", required=True, help="Folder to write, new or empty.")
@json_option
@debug_option
def generate_command(config: str | None, control: str | None, memory_bus: str | None, memories: str | None,
                     name: str | None, folder: str, json_file: str | None) -> None:
    """Write the accelerator as a Verilog core with standard buses and all that is needed to use it elsewhere.

    The folder has Verilog, lint waivers, assertions, a simulation with a model, C driver, Linux program, FuseSoC and
    IP-XACT descriptions, and a README. It appears once it is complete. Options that are not given are read from
    the table [generate] of the configuration's file: control, memory_bus, memories, name.
    """
    target = Path(folder)
    core = chosen_core(config or DEFAULT_CONFIG, Choices(control, memory_bus, memories, name))
    check_outputs({"--json": json_file}, [config_file(config)], {folder: "the folder of -o"})
    check_target(target)
    facts = write_folder(core, target)
    write_json(json_file, facts)
    if json_file != "-":
        verilog = facts["verilog"]
        click.echo(f"{target}: {core.name}, configuration {core.config.name} ({facts['fingerprint']}), {core.control}, "
                   f"memory by {core.memory_bus}; "
                   f"{verilog['modules']} modules, {verilog['nets']:,} nets, {verilog['nets_without_a_name']:,} of "
                   "them named after what drives them")
