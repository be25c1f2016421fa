"""`tq-hw configs`: the preset configurations."""

from dataclasses import asdict

import click

from tq_hw.cli.report.tables import Column, print_table
from tq_hw.cli.shared.files import check_outputs, write_json
from tq_hw.cli.shared.options import debug_option, json_option, wide_option
from tq_hw.isa.config import PRESETS, Config

__all__ = ["configs_command", "describe_config"]

_COLUMNS = (Column("name"), *(Column(name, number=True) for name in (
    "rows", "cols", "lanes", "KiB", "acc_words", "bus", "MACs", "fingerprint")))


def describe_config(config: Config) -> dict[str, object]:
    """Return the values of a configuration, and those derived from them."""
    return {**asdict(config), "word_bytes": config.word_bytes, "macs": config.macs,
            "fingerprint": f"{config.fingerprint:08x}"}


@click.command("configs")
@json_option
@wide_option
@debug_option
def configs_command(json_file: str | None, wide: bool) -> None:
    """List the preset configurations. A TOML file with the same keys makes any other."""
    check_outputs({"--json": json_file})
    write_json(json_file, {"configs": [describe_config(config) for config in PRESETS.values()]})
    if json_file != "-":
        print_table(
            _COLUMNS,
            [(c.name, c.rows, c.cols, c.requantize_lanes, c.scratchpad_bytes >> 10, f"{c.acc_buffers} x {c.acc_words}",
              c.bus_bytes, c.macs, f"{c.fingerprint:08x}") for c in PRESETS.values()], wide=wide)
