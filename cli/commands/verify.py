"""`tq-hw verify`: check an engine against stored expectations, the golden model or a public engine."""

from collections import Counter
from collections.abc import Sequence

import click

from tq_hw.cli.cases import find_cases
from tq_hw.cli.mixed import PROFILE, check_options, is_mixed_file
from tq_hw.cli.report.tables import print_text
from tq_hw.cli.shared.configurations import config_file
from tq_hw.cli.shared.files import check_outputs, write_json
from tq_hw.cli.shared.options import (
    debug_option,
    draw_options,
    engine_option,
    json_option,
    partition_option,
    patterns_option,
    profile_option,
    resident_option,
    scheduler_options,
    shape_options,
)
from tq_hw.cli.subject import is_compiled
from tq_hw.cli.target import Target, target_options
from tq_hw.cli.verifier import DEFECT, FAILED, PASSED, UNSUPPORTED, Verdict
from tq_hw.cli.verify_tasks import Asked
from tq_hw.model.errors import DataflowError, MismatchError, OptionError, UnsupportedError
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.sim.engines import ORACLES

__all__ = ["verify_command"]

_STATUSES = (PASSED, FAILED, UNSUPPORTED, DEFECT)


@click.command("verify")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@engine_option
@partition_option
@click.option("--oracle", type=click.Choice(["golden", *ORACLES]), help="What to compare the engine with.  [default: "
              "stored expectations, else golden]")
@target_options()
@profile_option
@shape_options
@draw_options(3)
@resident_option
@patterns_option
@scheduler_options
@json_option
@debug_option
def verify_command(paths: tuple[str, ...], engine: str, partitioned: bool, oracle: str | None, target: Target,
                   profile: str | None, shapes: InputShapes, seed: int, sets: int, resident: bool,
                   pattern_files: tuple[str, ...], jobs: int | None, scheduler: str | None,
                   json_file: str | None) -> int:
    """Check that an engine computes every integer of a model correctly.

    PATH is a model, or a folder of models. Stored expectations are `input_j` and `expected_j` in an .npz of the model's
    name next to it. Exit code 4 if tq-hw has a defect in a case, else 1 if a case differs, else 2 if one is not
    supported.
    """
    cases = find_cases(paths)
    check_outputs({"--json": json_file}, [config_file(target.config), *pattern_files, *(
        str(file) for case in cases for file in (case.model, case.stored) if file is not None)])
    for case in cases:
        if is_compiled(str(case.model)):
            raise OptionError(f"{case.model}: expected a .tflite model, found a compiled file; `tq-hw sim` runs it")
        if is_mixed_file(str(case.model)):
            raise OptionError(f"{case.model}: expected a whole model, found one with accelerated parts; `tq-hw sim` "
                              "runs it")
    if partitioned:
        check_options(profile, {"--resident": resident, "--patterns": pattern_files,
                                f"--oracle {oracle}": oracle not in (None, PROFILE),
                                "--engine golden": engine == "golden"})
        oracle, profile = PROFILE, PROFILE
    asked = Asked(engine, oracle, target.sizes, target.memory, sets, seed, resident, profile or "canon", shapes,
                  partitioned, pattern_files)
    verdicts = []
    shown = json_file != "-"
    for verdict in asked.verdicts(cases, jobs or 1, scheduler):
        verdicts.append(verdict)
        shown = shown and _show(verdict, json_file)
    counts = Counter(verdict.status for verdict in verdicts)
    write_json(json_file, {**{status: counts[status] for status in _STATUSES},
                           "cases": [verdict.report for verdict in verdicts]})
    if shown:
        click.echo(", ".join(f"{counts[status]} {status}" for status in _STATUSES
                             if status != DEFECT or counts[DEFECT]))
    return _conclude(verdicts, counts, json_file != "-")


def _show(verdict: Verdict, json_file: str | None) -> bool:
    """Print the line of a case. Return whether somebody reads it; if not, the work goes on for `json_file` alone."""
    cycles = f"{verdict.cycles:,} cycles, " if verdict.cycles is not None else ""
    if verdict.resident_cycles is not None:
        cycles += f"{verdict.resident_cycles:,} with resident weights, "
    try:
        print_text(f"{verdict.status:11} {verdict.name}: {cycles}{verdict.message}")
    except BrokenPipeError:
        if json_file is None:
            raise
        return False
    return True


def _conclude(verdicts: Sequence[Verdict], counts: Counter[str], printed: bool) -> int:
    """Raise the error of the first bad verdict of the worst kind, if there is one.

    Its message gives the reason of a defect, which is to be reported; other reasons only if the cases' lines, which
    have them, were not printed.
    """
    for status, error, what in ((DEFECT, DataflowError, "show a defect of tq-hw"),
                                (FAILED, MismatchError, "differ"),
                                (UNSUPPORTED, UnsupportedError, "are not supported")):
        if counts[status]:
            first = next(verdict for verdict in verdicts if verdict.status == status)
            about = "" if printed and status != DEFECT else f": {first.message}"
            raise error(f"{counts[status]} of {len(verdicts)} cases {what}; first {first.name}{about}")
    return 0
