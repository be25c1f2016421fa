"""The user's cache: folders that nobody else can write to, with integrity checks of all files.

Libraries from the cache run in this process, so a folder or file of another user is refused. A file is valid only if
its size and hash, stored next to it, match: a full disk or a power failure leaves damaged files.
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
    """Return the folder for one kind of files, which may not exist: `$XDG_CACHE_HOME/tq-hw/KIND`.

    By the XDG rules, the variable counts only if it is an absolute path; the default is `~/.cache`, or the system's
    usual folder. OptionError if there is no home.
    """
    try:
        return platformdirs.user_cache_path("tq-hw", appauthor=False) / kind
    except RuntimeError as error:
        raise OptionError(f"there is no folder for a cache: {error}; {_HELP}") from None


def open_cache(kind: str) -> Path:
    """Return the folder for one kind of files, created for this user only.

    Raises OptionError for another user's folder and for one that cannot be created.
    """
    folder = cache_dir(kind)
    with cache_errors(folder):
        for place in (folder.parent, folder):
            place.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            _take(place)
    return folder


def _take(folder: Path) -> None:
    """Exclude other users from a folder of this user; OptionError for another user's."""
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise OptionError(f"the cache folder {folder} belongs to user {found.st_uid}, not to this one "
                          f"({os.geteuid()}), who would run what is there; {_HELP}")
    if found.st_mode & 0o077:
        try:
            folder.chmod(_PRIVATE)
        except OSError:
            # If nobody can change the folder, others may read it.
            if found.st_mode & 0o022:
                raise


@contextmanager
def cache_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into OptionError with the path of the cache."""
    try:
        yield
    except OSError as error:
        reason = "it is not a folder" if error.errno in (errno.EEXIST, errno.ENOTDIR) else error.strerror or str(error)
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
    """Whether a file is unchanged since it was sealed; OptionError if it is another user's."""
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
    """Hold a lock between processes; `waiting` is called once if another process has it.

    OptionError on a file system without locks.
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
