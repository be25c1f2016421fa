"""Text for output: file names that the user's locale cannot decode, characters that a terminal cannot show."""

import codecs
import os
import sys
from typing import Any

__all__ = ["clean", "printable", "set_up_streams"]

_HANDLER = "tq-hw"


def printable(name: str) -> str:
    """Return a file name as text: decoded as UTF-8 in any locale, with invalid bytes escaped.

    Python represents bytes that the locale cannot decode as surrogates, which cannot be encoded into a file.
    """
    try:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return name.encode("utf-8", "backslashreplace").decode("utf-8")


def clean(value: Any) -> Any:
    """Return a JSON value with all its strings printable."""
    if isinstance(value, str):
        return value if value.isascii() else printable(value)
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list | tuple) else value


def _encode_anyway(error: UnicodeError) -> tuple[str | bytes, int]:
    """Write bytes of a file name as they were read; escape characters that the terminal cannot show."""
    assert isinstance(error, UnicodeEncodeError)
    wrong = error.object[error.start:error.end]
    if all("\udc80" <= letter <= "\udcff" for letter in wrong):
        return bytes(ord(letter) - 0xDC00 for letter in wrong), error.end
    return codecs.backslashreplace_errors(error)


def set_up_streams() -> None:
    """Let standard output and standard error accept any text, even if the shell closed them.

    Python uses ASCII in a locale without an encoding. Output is UTF-8 then, like files.
    """
    codecs.register_error(_HANDLER, _encode_anyway)
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Opens `number`, the lowest free descriptor: else a file would get it, and the output of programs.
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or os.fdopen(0, "r", encoding="utf-8")
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            ascii_only = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding="utf-8" if ascii_only else None, errors=_HANDLER)
