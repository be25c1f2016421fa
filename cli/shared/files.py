"""Files of the commands: outputs are checked before the work, and written completely or not at all."""

import io
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.cli.shared.text import clean
from tq_hw.isa.permissions import new_file_mode
from tq_hw.model.errors import OptionError

__all__ = ["check_folder", "check_outputs", "check_stay", "npz_bytes", "read_npz", "write", "write_json"]

#: File name extensions of pictures, for a file that is none.
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")

Array = npt.NDArray[Any]

#: The path that means standard output.
STDOUT = "-"


def check_outputs(outputs: Mapping[str, str | None], inputs: Iterable[str | None] = (),
                  others: Mapping[str, str] = MappingProxyType({})) -> None:
    """Raise OptionError unless each output (option name -> path or None) can be written.

    Two outputs must not be the same file or both standard output, and none may be one of `inputs`, or of `others`
    (path -> its description).
    """
    taken = {os.path.realpath(path): "an input of this command" for path in inputs if path is not None}
    taken |= {os.path.realpath(path): description for path, description in others.items()}
    printed = ""
    for option, name in outputs.items():
        if name == STDOUT:
            if printed:
                raise OptionError(f"{option} -: standard output already holds {printed}; choose a file")
            printed = option
        if name is None or name == STDOUT:
            continue
        path = Path(name)
        real = os.path.realpath(path)
        if not _is_special(path):
            if real in taken:
                raise OptionError(f"{option} {name}: is {taken[real]}; choose another file")
            taken[real] = f"the file of {option} too"
        _check_place(option, name)


def _check_place(option: str, name: str) -> None:
    """Raise OptionError unless a file called `name` can be written."""
    path = Path(name)
    if path.is_dir():
        raise OptionError(f"{option} {name}: expected a file to write, found a directory")
    if not path.parent.is_dir():
        raise OptionError(f"{option} {name}: the directory {path.parent} does not exist")
    if not os.access(path if _is_special(path) else path.parent, os.W_OK):
        raise OptionError(f"{option} {name}: cannot be written: permission denied")
    if not _is_special(path):
        check_folder(option, name, Path(os.path.realpath(path)).parent)


def check_folder(option: str, name: str, folder: Path) -> None:
    """Raise OptionError if no file can be made in `folder`, where `name` goes: root may write to /proc, in vain."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OptionError(f"{option} {name}: cannot be written: {error.strerror or error}") from None


def check_stay(folder: Path, inputs: Mapping[str, str | None]) -> None:
    """Raise OptionError if an input (option name -> path or None) is in a folder that the command replaces."""
    for option, name in inputs.items():
        if name is not None and Path(os.path.realpath(folder)) in Path(os.path.realpath(name)).parents:
            raise OptionError(f"{option} {name}: is in {folder}, which this command replaces; move it to another "
                              "folder")


def _is_special(path: Path) -> bool:
    """Whether `path` is a device or a pipe, which is written to but not replaced."""
    return path.exists() and not path.is_file()


def write(name: str, data: bytes) -> None:
    """Write a whole file. An existing file is replaced once the new one is complete. `-` is standard output."""
    if name == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        _write(Path(os.path.realpath(name)), data)
    except OSError as error:
        raise OptionError(f"{name}: cannot be written: {error.strerror or error}") from error


def _write(path: Path, data: bytes) -> None:
    if _is_special(path):
        path.write_bytes(data)
        return
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:16]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp's files are private; a requested file gets the permissions of any other new file.
        os.chmod(temporary, new_file_mode())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(name: str | None, value: object) -> None:
    """Write `value` as JSON, if `path` is given."""
    if name is not None:
        write(name, (json.dumps(clean(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def npz_bytes(arrays: Mapping[str, Array]) -> bytes:
    """Return the contents of an `.npz` archive. Equal arrays give equal bytes.

    Unlike in `numpy.savez`, an array's name may be any string.
    """
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    return stream.getvalue()


def _other_kind(start: bytes) -> str:
    """Return what kind of file begins so, and what would help."""
    if not start:
        return "an empty file"
    if start.startswith(b"\x93NUMPY"):
        return "an array alone (.npy): np.savez(\"x.npz\", input_0=np.load(...)) makes an archive of it"
    if start[8:] == b"WAVE":
        return "a sound: compute features from it as docs/guide/recipes.md does"
    return "another kind of file"


def read_npz(name: str) -> dict[str, Array]:
    """Read all arrays of an archive; OptionError for errors in it."""
    path = Path(name)
    if path.is_dir():
        raise OptionError(f"{name}: expected an .npz file, found a directory")
    try:
        with path.open("rb") as file:
            if file.read(4) not in (b"PK\x03\x04", b"PK\x05\x06"):
                file.seek(0)
                raise OptionError(f"{name}: expected an .npz archive as numpy.savez writes it"
                                  f"{', or a picture' if path.suffix.lower() in _PICTURES else ''}, found "
                                  f"{_other_kind(file.read(12))}")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                return {key: _numbers(archive, key, name) for key in archive.files}
    except OSError as error:
        raise OptionError(f"{name}: cannot read the file: {error.strerror or error}") from error
    except OptionError:
        raise
    except Exception as error:
        # Damaged archives have errors of many kinds, of zlib and of Python's parser, for example.
        raise OptionError(f"{name}: the .npz archive cannot be read: {error}") from error


def _numbers(archive: Mapping[str, npt.NDArray[Any]], key: str, name: str) -> npt.NDArray[Any]:
    """Return an array of an open archive; OptionError if reading it needs pickle, or if it is none."""
    try:
        array = archive[key]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise OptionError(f"{name}: array {key!r} holds Python objects, expected numbers") from error
    if not isinstance(array, np.ndarray):
        raise OptionError(f"{name}: {key!r} is not an array as numpy.savez writes it")
    return array
