"""`tq-hw ops`: the operators that the compiler supports."""

import click

from tq_hw.cli.reference.operators import as_records, rows
from tq_hw.cli.report.tables import Column, print_table
from tq_hw.cli.shared.files import check_outputs, write_json
from tq_hw.cli.shared.options import debug_option, json_option, wide_option

__all__ = ["ops_command"]

_COLUMNS = (Column("operator"), Column("units", least=10, folds=True), Column("cycles/element", number=True),
            Column("equal to", least=12, folds=True), Column("rules and limits", least=30, folds=True))


@click.command("ops")
@json_option
@wide_option
@debug_option
def ops_command(json_file: str | None, wide: bool) -> None:
    """List the supported operators: units, cycles, the specification's rules and the compiler's limits."""
    check_outputs({"--json": json_file})
    write_json(json_file, {"operators": as_records()})
    if json_file != "-":
        print_table(_COLUMNS, [
            (row.op, row.units, None if row.cycles_per_element is None else f"{row.cycles_per_element:.2f}",
             row.equal_to, " ".join([*row.rules, *(f"{limit}." for limit in row.limits)])) for row in rows()],
            wide=wide)
