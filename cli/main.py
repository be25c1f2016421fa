"""`tq-hw`: the command line. Each command is a file; errors become one message and an exit code here.

A command is imported only when it is called, because importing all of them takes most of a second.

Exit codes: 0 done; 1 results differ; 2 bad input; 3 a tool or package is missing; 4 a tool failed or a
target was missed; 5 device or link error; 130 interrupted.
"""

import errno
import os
import select
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from tq_hw.cli.shared.installed import not_installed
from tq_hw.cli.shared.options import debug_option, debugging
from tq_hw.cli.shared.pages import Context
from tq_hw.cli.shared.text import set_up_streams
from tq_hw.isa.config import ConfigError
from tq_hw.isa.encode import EncodeError
from tq_hw.isa.program import ProgramError
from tq_hw.model.errors import OptionError, TqError

__all__ = ["main", "run", "tq_hw"]

BAD_INPUT, MISSING_TOOL, TOOL_FAILED, INTERRUPTED = 2, 3, 4, 130
#: Summary of each command in `tq-hw --help`. The module of its name in `cli/commands` has `NAME_command`.
_COMMANDS = {
    "boards": "List the boards, their memories and tools.",
    "build": "Make the bitstream of a board, after verification.",
    "compile": "Compile a model; report cycles, bytes and bounds.",
    "configs": "List the built-in configurations.",
    "doctor": "Show what is installed, what is missing, and the cache.",
    "emulate": "Run a board in the simulator until interrupted.",
    "explore": "Search the machines that fit for the fastest ones.",
    "generate": "Write the accelerator as a Verilog core for your SoC.",
    "ops": "List the supported operators and their limits.",
    "program": "Load the bitstream that `build` made into a board.",
    "report": "Write a page: layers, roofline, timeline, memories.",
    "resources": "Estimate the FPGA resources of a configuration.",
    "run": "Run a model on an accelerator in hardware.",
    "sim": "Run a model on an engine; report cycles per layer.",
    "verify": "Check every integer of a model on an engine.",
}


class _ReaderGoneError(Exception):
    """The reader of standard output has closed its end."""


@contextmanager
def _until_the_reader_goes() -> Iterator[None]:
    """Turn the error of a closed standard output into one that click does not report as a failure."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE and _reader_gone():
            raise _ReaderGoneError from error
        raise


def _reader_gone() -> bool:
    """Return whether standard output is a pipe without a reader."""
    watched = select.poll()
    watched.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _number, event in watched.poll(0))


def _drop_output() -> None:
    """Send the remaining output to /dev/null: the interpreter flushes it on exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Commands(click.Group):
    """The commands by name, each imported on demand."""

    context_class = Context

    def make_context(self, info_name: str | None, args: list[str], parent: click.Context | None = None,
                     **extra: Any) -> click.Context:
        """Parse a command line. `--help` and `--version` print here."""
        with _until_the_reader_goes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that is called."""
        with _until_the_reader_goes():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, None for an unknown name."""
        if cmd_name not in _COMMANDS:
            return None
        found = getattr(import_module(f"tq_hw.cli.commands.{cmd_name}"), f"{cmd_name}_command")
        assert isinstance(found, click.Command)
        found.context_class = Context
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]
                        ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the called command; for an unknown name a UsageError that suggests the nearest one."""
        name = args[0].lower()
        begun = [one for one in _COMMANDS if name.startswith(one) or one.startswith(name)]
        near = begun or get_close_matches(name, _COMMANDS, 1)
        if name.endswith(".tflite"):
            raise click.UsageError(f"No such command {args[0]!r}: a command comes first, as in `tq-hw sim {args[0]}`.",
                                   ctx)
        if near and args[0] not in _COMMANDS and args[0][:1].isalpha():
            raise click.UsageError(f"No such command {args[0]!r}; did you mean {near[0]}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tq-hw", prog_name="tq-hw", message="%(prog)s %(version)s")
@debug_option
def tq_hw() -> None:
    """Compile int8 .tflite models for the accelerator, run them, and check every integer."""


def describe(error: BaseException) -> tuple[int, str]:
    """Return exit code and message of an exception."""
    if isinstance(error, TqError):
        return error.exit_code, str(error)
    if isinstance(error, ConfigError | EncodeError | ProgramError):
        return BAD_INPUT, str(error)
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx is not None else "tq-hw"
        return BAD_INPUT, f"{error.format_message()} Try '{where} --help'."
    if isinstance(error, click.ClickException):
        return BAD_INPUT, error.format_message()
    if isinstance(error, OSError):
        return BAD_INPUT, f"{error.filename or _nameless(error)}: {error.strerror or error}"
    if isinstance(error, MemoryError):
        return TOOL_FAILED, "out of memory; try a smaller model, fewer --sets, or --engine golden"
    if isinstance(error, ModuleNotFoundError) and (message := not_installed(error)):
        return MISSING_TOOL, message
    return TOOL_FAILED, (f"internal error: {type(error).__name__}: {error}; this is a bug in tq-hw, please report "
                         "it with the traceback that --debug shows")


def _nameless(error: OSError) -> str:
    """Return the subject of an error that has no file name."""
    return "the current directory" if isinstance(error, FileNotFoundError) else "standard output or a temporary file"


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; messages go to stderr."""
    debugging.clear()
    try:
        for number, argument in enumerate(arguments, 1):
            if not argument or (argument.startswith("--") and argument.endswith("=")):
                raise OptionError(f"argument {number} ({argument!r}) is empty: expected a name or a value")
        return int(tq_hw.main(list(arguments), prog_name="tq-hw", standalone_mode=False) or 0)
    except _ReaderGoneError:
        _drop_output()
        return 0
    except (KeyboardInterrupt, click.Abort):
        print("tq-hw: interrupted", file=sys.stderr)
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as request:
        print(request.format_message(), file=sys.stderr)
        return BAD_INPUT
    except click.exceptions.Exit as request:
        return request.exit_code
    except Exception as error:
        if debugging:
            traceback.print_exc()
        code, message = describe(error)
        print(f"tq-hw: {message}", file=sys.stderr)
        return code


def _end_in_order() -> None:
    """Treat signals that end the program as Ctrl-C, so that running tools are ended and partial files removed."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def main() -> None:
    """Entry point of the installed program."""
    _end_in_order()
    set_up_streams()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    except OSError as error:
        print(f"tq-hw: standard output: {error.strerror or error}", file=sys.stderr)
        _drop_output()
        code = code or BAD_INPUT
    sys.exit(code)
