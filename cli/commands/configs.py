"""`tq-hw configs`: the preset configurations."""

from dataclasses import asdict

import click

from tq_hw.cli.report.tables import print_table
from tq_hw.cli.shared.files import check_outputs, write_json
from tq_hw.cli.shared.options import debug_option, json_option
from tq_hw.isa.config import PRESETS, Config

__all__ = ["configs_command", "describe_config"]


def describe_config(config: Config) -> dict[str, object]:
    """Return the values of a configuration, and what follows from them."""
    return {**asdict(config), "word_bytes": config.word_bytes, "macs": config.macs,
            "fingerprint": f"{config.fingerprint:08x}"}


@click.command("configs")
@json_option
@debug_option
def configs_command(json_file: str | None) -> None:
    """List the preset configurations. A TOML file with the same keys makes any other."""
    check_outputs({"--json": json_file})
    if json_file != "-":
        print_table(
            ("name", ">rows", ">cols", ">lanes", ">scratchpad KiB", ">accumulators", ">bus bytes", ">MACs per cycle",
             "fingerprint"),
            [(c.name, c.rows, c.cols, c.requantize_lanes, c.scratchpad_bytes >> 10, f"{c.acc_buffers} x {c.acc_words}",
              c.bus_bytes, c.macs, f"{c.fingerprint:08x}") for c in PRESETS.values()])
    write_json(json_file, {"configs": [describe_config(config) for config in PRESETS.values()]})
