"""The user's cache: folders that nobody else can write to, and files that are as they were written.

What is loaded from here runs in this process, so a folder or file of another user is refused, and a file counts only
with its size and hash next to it: a disk that was full, or a machine that lost its power, leaves others.
"""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from tq_hw.model.errors import OptionError

__all__ = ["cache_dir", "cache_errors", "intact", "locked", "open_cache", "seal"]

_PRIVATE = 0o700
_HELP = "set XDG_CACHE_HOME to a folder of your own"


def cache_dir(kind: str) -> Path:
    """Return the folder of one kind of files, which need not exist: `$XDG_CACHE_HOME/tq-hw/KIND`.

    As the XDG rules have it, that variable counts only if it is an absolute path; by default `~/.cache` stands for it,
    or what is usual on the system. OptionError where there is no home.
    """
    try:
        return platformdirs.user_cache_path("tq-hw", appauthor=False) / kind
    except RuntimeError as error:
        raise OptionError(f"there is no place for a cache: {error}; {_HELP}") from None


def open_cache(kind: str) -> Path:
    """Return the folder of one kind of files, made for this user alone.

    Raises OptionError for a folder of somebody else and for one that cannot be made.
    """
    folder = cache_dir(kind)
    with cache_errors(folder):
        for place in (folder.parent, folder):
            place.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            _take(place)
    return folder


def _take(folder: Path) -> None:
    """Shut others out of a folder of this user; OptionError for one of another."""
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise OptionError(f"the cache folder {folder} belongs to user {found.st_uid}, not to this one "
                          f"({os.geteuid()}), who would run what lies there; {_HELP}")
    if found.st_mode & 0o077:
        try:
            folder.chmod(_PRIVATE)
        except OSError:
            # Where nothing can be changed, others may look.
            if found.st_mode & 0o022:
                raise


@contextmanager
def cache_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into OptionError with the name of the cache."""
    try:
        yield
    except OSError as error:
        reason = "it is no folder" if error.errno in (errno.EEXIST, errno.ENOTDIR) else error.strerror or str(error)
        raise OptionError(f"the cache folder {folder} cannot be used: {reason}; {_HELP}") from error


def _note(file: Path) -> Path:
    return file.with_name(f"{file.name}.json")


def _facts(file: Path) -> dict[str, object]:
    with file.open("rb") as contents:
        digest = hashlib.file_digest(contents, "sha256").hexdigest()
        return {"size_bytes": os.fstat(contents.fileno()).st_size, "sha256": digest}


def seal(file: Path) -> None:
    """Write size and hash of a complete file next to it."""
    _note(file).write_text(json.dumps(_facts(file)), encoding="utf-8")


def intact(file: Path) -> bool:
    """Whether a file is as it was when it was sealed; OptionError if it is another user's."""
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode) or _facts(file) != json.loads(_note(file).read_text(encoding="utf-8")):
            return False
    except (OSError, ValueError):
        return False
    if found.st_uid != os.geteuid():
        raise OptionError(f"{file} belongs to user {found.st_uid}, not to this one ({os.geteuid()}), and is not "
                          f"loaded; {_HELP}")
    return True


@contextmanager
def locked(file: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock between processes; `waiting` is called once if another one has it.

    OptionError on a file system that has no locks.
    """
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        waiting()
        lock.acquire()
    except NotImplementedError:
        raise OptionError(f"the cache folder {file.parent} is on a file system without locks; {_HELP}") from None
    try:
        yield
    finally:
        lock.release()
