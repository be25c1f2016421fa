"""The folder of a build: it appears only when complete; after a failed step the partial folder is kept next to it."""

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
#: Key that only a build's report has.
_OF_A_BUILD = {"board", "bitstream", "toolchain", "missing"}
#: Marker file in a kept folder: the next failure may replace the folder.
_MARK = "failed.txt"


class FailedStepError(ToolError):
    """A program failed after other steps had finished: the folder is worth keeping."""


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Provide a folder next to `target` that takes its name when the block ends without an error.

    An earlier build of that name is replaced. Anything else there is an OptionError, as is a path that cannot be
    written or has too little space.

    After a FailedStepError, or if somebody else created `target` meanwhile, the folder is kept as `target`.failed, and
    the ToolError says so. After any other error nothing remains, not even the parent folders that were created.
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
            raise FailedStepError(f"{target}: other files were put there during the build")
        _replace(work, target)
    except FailedStepError as error:
        (work / _MARK).write_text(f"{error}\n", encoding="utf-8")
        kept = target.with_name(f"{target.name}.failed")
        if kept.exists() and not (kept / _MARK).is_file():
            # The existing folder is somebody else's: this build keeps its own name.
            kept = Path(tempfile.mkdtemp(prefix=f"{kept.name}.", dir=target.parent))
        _replace(work, kept)
        raise ToolError(f"{error}\nwhat was made so far is kept in {kept}") from error
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
    """Return whether a build may take this path: it is absent, empty, or an earlier build.

    Other commands also write files with the report's name, mostly into folders with much else.
    """
    # Another build may take the path between two checks.
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
    """Rename a folder to its final name, replacing the one there, with the permissions of a new folder.

    Of two builds that do so at the same time, the last one wins.
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
