"""`tq-hw compile`: compile a model to a file and report on its layers."""

from collections.abc import Sequence
from pathlib import Path

import click

from tq_hw.boards.catalog.catalog import find_board
from tq_hw.cli.explore.fit import fit_board, fit_json, fit_lines
from tq_hw.cli.mixed import check_options, mixed_bytes, open_mixed, wrapped
from tq_hw.cli.refusal import explained
from tq_hw.cli.report.layers import Report, compile_report, print_layers, print_summary
from tq_hw.cli.report.mixed import mixed_compile_report
from tq_hw.cli.shared.configurations import config_file
from tq_hw.cli.shared.files import check_outputs, write, write_json
from tq_hw.cli.shared.options import (
    debug_option,
    json_option,
    partition_option,
    patterns_option,
    profile_option,
    shape_options,
    wide_option,
)
from tq_hw.cli.shared.progress import ProgressBar
from tq_hw.cli.shared.text import printable
from tq_hw.cli.subject import compile_all, is_compiled, patterns_of
from tq_hw.cli.target import Target, target_options
from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.passes import PASSES
from tq_hw.compiler.show import show
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.errors import OptionError, ToolError, TqError
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.tflite.reader import read_model

__all__ = ["compile_command"]


_MODEL_SUFFIX = ".tflite"


class _Dumper:
    """Collects the text of the requested passes."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self.wanted, self.lines = wanted, list[str]()
        self._graph: Graph | None = None

    def __call__(self, name: str, result: object) -> None:
        if isinstance(result, Graph):
            self._graph = result
        if name in self.wanted and self._graph is not None:
            self.lines += [f"after {name}: {PASSES[name]}", *show(self._graph, result)]

    def print(self) -> None:
        """Print the collected text."""
        if self.lines:
            click.echo("\n".join(self.lines))


def _compile_parts(path: str, output: str, target: Target, shapes: InputShapes) -> Report:
    """Write the mixed model of a model and return the report."""
    if output != "-" and Path(output).suffix != _MODEL_SUFFIX:
        raise OptionError(f"-o {output}: a model with operators on the host is a {_MODEL_SUFFIX} file; name "
                          "one")
    subject = open_mixed(path, target.config, target.memory, shapes)
    if subject.made is None:
        raise OptionError(f"{path}: has accelerated parts already; `tq-hw sim` runs it")
    data = mixed_bytes(subject.model)
    report = mixed_compile_report(subject.config, subject.model, subject.made.parts, path, output, len(data))
    write(output, data)
    return report | {"clock_hz": target.clock_hz}


def _fit(path: str, board_name: str, given: Sequence[str], profile: str | None, shapes: InputShapes,
         json_file: str | None) -> None:
    """Report how a model fits a board; ToolError if none of its memories holds the model."""
    if given:
        raise OptionError(f"--fit {board_name}: compiles nothing; leave {' and '.join(given)} out")
    check_outputs({"--json": json_file}, [path])
    board, model = find_board(board_name), read_model(path, shapes=shapes).under(profile or "canon")
    with ProgressBar(f"fitting {model.name} to {board.name}"):
        found = fit_board(model, board)
    write_json(json_file, {"model": printable(path), **fit_json(found)})
    if json_file != "-":
        click.echo("\n".join((f"{model.name}:", *fit_lines(found))))
    if found.memory is None:
        raise ToolError(f"{path}: needs {found.preset.estimate.memory_bytes:,} bytes of memory, more than any memory "
                        f"of {board.name}")


@click.command("compile")
@click.argument("model_file", metavar="MODEL.tflite")
@click.option("-o", "--output", metavar="OUT", help="The compiled file, or with .tflite a model whose accelerated "
              "parts are custom operators.  [default: the model's name with .tqm, with --partition _tq.tflite, in the "
              "current directory]")
@partition_option
@target_options(stalls=False)
@profile_option
@shape_options
@patterns_option
@click.option("--dump-after", "dump_after", metavar="PASS", multiple=True, type=click.Choice(list(PASSES)),
              help=f"Print the result of a pass instead of the report: {', '.join(PASSES)}. May be repeated.")
@click.option("--fit", "fit_name", metavar="BOARD", help="Show how the model fits a board: memory, time, the largest "
              "machine that fits, and what limits it. Nothing is compiled.")
@json_option
@wide_option
@debug_option
def compile_command(model_file: str, output: str | None, partitioned: bool, target: Target,
                    profile: str | None, shapes: InputShapes, pattern_files: tuple[str, ...],
                    dump_after: tuple[str, ...], fit_name: str | None, json_file: str | None, wide: bool) -> None:
    """Compile a model and report cycles (estimated), utilization, bytes and what bounds each layer.

    The schedule is the best found for a memory of --latency and --bytes-per-cycle, or for a board's; results are the
    same with any memory.
    """
    if fit_name is not None:
        given = {"-o": output, "--config or --board": target.config, "--partition": partitioned,
                 "--patterns": pattern_files, "--dump-after": dump_after}
        _fit(model_file, fit_name, [name for name, value in given.items() if value], profile, shapes, json_file)
        return
    if is_compiled(model_file):
        raise OptionError(f"{model_file}: expected a .tflite model, found a compiled file; `tq-hw sim` runs it")
    output_file = output or f"{Path(model_file).stem}{'_tq.tflite' if partitioned else '.tqm'}"
    check_outputs({"-o": output_file, "--json": json_file},
                  [model_file, *pattern_files, config_file(target.config)])
    if partitioned:
        check_options(profile, {"--patterns": pattern_files, "--dump-after": dump_after})
        report = _compile_parts(model_file, output_file, target, shapes)
        write_json(json_file, report)
        if "-" not in (json_file, output_file):
            print_summary(report)
            print_layers(report, wide)
        return
    chosen = target.sizes
    patterns = patterns_of(pattern_files)
    dumper = _Dumper(dump_after)
    try:
        with explained(model_file, shapes, profile):
            model = read_model(model_file, shapes=shapes).under(profile or "canon")
            compiled = compile_all(model, chosen, model_file, patterns, target.memory, dumper)
    except TqError:
        # To find the reason, a person wants to see the results of the earlier passes.
        dumper.print()
        raise
    program = compiled.program
    data = mixed_bytes(wrapped(model, program)) if Path(output_file).suffix == _MODEL_SUFFIX else to_bytes(program)
    report = compile_report(compiled, model, model_file, output_file, len(data)) | {"clock_hz": target.clock_hz}
    write(output_file, data)
    write_json(json_file, report)
    if dump_after:
        dumper.print()
    elif "-" not in (json_file, output_file):
        print_summary(report)
        print_layers(report, wide)
