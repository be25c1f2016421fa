"""`tq-hw ops`: the operators that the compiler takes."""

import click

from tq_hw.cli.reference.operators import as_records, rows
from tq_hw.cli.report.tables import print_table
from tq_hw.cli.shared.files import check_outputs, write_json
from tq_hw.cli.shared.options import debug_option, json_option

__all__ = ["ops_command"]


@click.command("ops")
@json_option
@debug_option
def ops_command(json_file: str | None) -> None:
    """List the supported operators: units, cycles, the specification's rules and the compiler's limits."""
    check_outputs({"--json": json_file})
    if json_file != "-":
        print_table(("operator", "units", ">cycles per element", "equal to", "rules and limits"),
                    [(row.op, row.units, None if row.cycles_per_element is None else f"{row.cycles_per_element:.2f}",
                      row.equal_to, " ".join([*row.rules, *(f"{limit}." for limit in row.limits)])) for row in rows()])
    write_json(json_file, {"operators": as_records()})
