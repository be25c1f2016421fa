"""The folder of a build: it appears whole, or what a failed program left is kept beside it."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tq_hw.isa.permissions import new_folder_mode
from tq_hw.model.errors import OptionError, ToolError

__all__ = ["REPORT", "FailedStepError", "new_folder"]

REPORT = "report.json"
#: What only a build's report has.
_OF_A_BUILD = {"board", "bitstream", "toolchain", "missing"}
#: Written into a kept folder, so that the next failure may replace it.
_MARK = "failed.txt"


class FailedStepError(ToolError):
    """A program failed after others had done their work: the folder is worth keeping."""


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give a folder next to `target` that takes its place when the block ends without an error.

    An earlier build there is replaced; anything else that is there is an OptionError, as is a place that cannot be
    written or has no room for all. After a FailedStepError, or where others have put something there meanwhile, the
    folder is `target`.failed, and the ToolError says so; after any other error nothing is left, not even the folders
    above it that were made for it.
    """
    target = Path(os.path.realpath(target))
    if not _is_ours(target):
        raise OptionError(f"{target}: exists and is not a folder of an earlier build; choose another --dir, or remove "
                          "it")
    made = [place for place in target.parents if not place.exists()]
    nearest = next(place for place in target.parents if place.exists())
    if not nearest.is_dir():
        raise OptionError(f"{target}: cannot be written: {nearest} is not a directory")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise OptionError(f"{target}: cannot be written: {error.strerror or error}") from error
    try:
        yield work
        if not _is_ours(target):
            raise FailedStepError(f"{target}: somebody has put other things there during the build")
        _replace(work, target)
    except FailedStepError as error:
        (work / _MARK).write_text(f"{error}\n", encoding="utf-8")
        kept = target.with_name(f"{target.name}.failed")
        if kept.exists() and not (kept / _MARK).is_file():
            # Somebody else's: it stays, under that name.
            kept = Path(tempfile.mkdtemp(prefix=f"{kept.name}.", dir=target.parent))
        _replace(work, kept)
        raise ToolError(f"{error}\nwhat was made until then is kept in {kept}") from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OptionError(f"{target}: cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
        for place in made:
            if place.is_dir() and not any(place.iterdir()):
                place.rmdir()


def _is_ours(target: Path) -> bool:
    """Return whether a folder can take this place: nothing is there, or nothing in it, or an earlier build.

    Other commands write files of the report's name, too, mostly into folders with much else.
    """
    # Another build may take the place between two looks.
    return any(_holds_a_build(target) or _holds_nothing(target) for _ in range(3))


def _holds_a_build(target: Path) -> bool:
    try:
        found = json.loads((target / REPORT).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.keys() >= _OF_A_BUILD


def _holds_nothing(target: Path) -> bool:
    try:
        return not any(target.iterdir())
    except OSError:
        return not target.exists()


def _replace(work: Path, target: Path) -> None:
    """Give a folder its name, in place of what has it, with the permissions of a new one.

    Another build may take the name at the same time: the last one has it.
    """
    work.chmod(new_folder_mode())
    while True:
        try:
            work.rename(target)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        with suppress(FileNotFoundError):
            target.rename(old / "old")
        shutil.rmtree(old)
