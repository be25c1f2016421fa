"""`tq-hw ops`: the operators that the compiler takes."""

import click

from tq_hw.cli.files import check_outputs, write_json
from tq_hw.cli.options import debug_option, json_option
from tq_hw.cli.tables import print_table
from tq_hw.compiler.legalize import LOWERINGS
from tq_hw.model.check import rules_of

__all__ = ["ops_command"]


@click.command("ops")
@json_option
@debug_option
def ops_command(json_file: str | None) -> None:
    """List the supported operators and the rules that each has to keep."""
    check_outputs({"--json": json_file})
    rows = [{"op": name, "rules": rules_of(name)} for name in sorted(LOWERINGS)]
    if json_file != "-":
        print_table(("operator", "rules"), [(row["op"], " ".join(row["rules"])) for row in rows])
    write_json(json_file, {"operators": rows})
