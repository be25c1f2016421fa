"""Entry point of the installed program: reports any missing package with one message."""

import sys

from tq_hw.cli.shared.installed import not_installed

__all__ = ["main"]

_MISSING_TOOL = 3
#: Exit code of a shell for SIGINT.
_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    try:
        from tq_hw.cli import main as command_line
    except KeyboardInterrupt:
        print("tq-hw: interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    except ModuleNotFoundError as error:
        message = not_installed(error)
        if not message:
            raise
        print(f"tq-hw: {message}", file=sys.stderr)
        sys.exit(_MISSING_TOOL)
    command_line.main()
