"""`tq-hw generate`: the accelerator as a core that others put into their systems."""

from pathlib import Path

import click

from tq_hw.cli.package.facts import MEMORIES, core_of
from tq_hw.cli.package.folder import check_target, write_folder
from tq_hw.cli.shared.files import check_outputs, write_json
from tq_hw.cli.shared.options import config_option, debug_option, json_option
from tq_hw.cli.subject import DEFAULT_CONFIG
from tq_hw.hdl.top import CONTROLS, MEMORY_BUSES
from tq_hw.isa.config import load_config

__all__ = ["generate_command"]


@click.command("generate")
@config_option
@click.option("--control", type=click.Choice(list(CONTROLS)), default="axi4lite", show_default=True,
              help="Bus to the registers; plain is the machine's own.")
@click.option("--memory-bus", type=click.Choice(list(MEMORY_BUSES)), default="axi4", show_default=True,
              help="Bus to memory.")
@click.option("--memories", type=click.Choice(MEMORIES), default="inferred", show_default=True,
              help="Memories in the Verilog, or left out as macros, with models.")
@click.option("--name", metavar="NAME", help="Name of the top module and of the files.  [default: tq_hw_CONFIG]")
@click.option("-o", "--dir", "folder", metavar="DIR", required=True, help="Folder to make: new, or empty.")
@json_option
@debug_option
def generate_command(config: str | None, control: str, memory_bus: str, memories: str, name: str | None,
                     folder: str, json_file: str | None) -> None:
    """Write the accelerator as a Verilog core with standard buses, with all that it takes to use it elsewhere.

    The folder has Verilog, lint waivers, assertions, a simulation with a model, C driver, Linux program, FuseSoC and
    IP-XACT descriptions, and a README. It appears when it is complete.
    """
    target = Path(folder)
    core = core_of(load_config(config or DEFAULT_CONFIG), control, name, memory_bus, memories)
    check_outputs({"--json": json_file})
    check_target(target)
    facts = write_folder(core, target)
    if json_file != "-":
        verilog = facts["verilog"]
        click.echo(f"{target}: {core.name}, configuration {core.config.name} ({facts['fingerprint']}), {control}, "
                   f"memory by {memory_bus}; "
                   f"{verilog['modules']} modules, {verilog['nets']:,} nets, {verilog['nets_without_a_name']:,} of "
                   "them named by what makes them")
    write_json(json_file, facts)
