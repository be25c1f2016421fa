"""`tq-hw ops`: the operators that the compiler takes."""

import click

from tq_hw.cli.files import check_outputs, write_json
from tq_hw.cli.options import debug_option, json_option
from tq_hw.cli.tables import print_table
from tq_hw.compiler.constraints import limits_of
from tq_hw.compiler.legalize import supported_operators
from tq_hw.model.check import rules_of

__all__ = ["ops_command"]


@click.command("ops")
@json_option
@debug_option
def ops_command(json_file: str | None) -> None:
    """List the supported operators, with the specification's rules and the compiler's limits for each."""
    check_outputs({"--json": json_file})
    if json_file != "-":
        print_table(("operator", "rules and limits"),
                    [(name, " ".join([*rules_of(name), *(f"{limit}." for limit in limits_of(name))]))
                     for name in supported_operators()])
    write_json(json_file, {"operators": [{"op": name, "rules": rules_of(name), "limits": limits_of(name)}
                                         for name in supported_operators()]})
