"""Permissions of files that are first written under another name, which `mkstemp` and `mkdtemp` make private."""

import os

__all__ = ["new_file_mode", "new_folder_mode"]


def new_file_mode() -> int:
    """Return the permissions that any other new file of this process has."""
    return 0o666 & ~_mask()


def new_folder_mode() -> int:
    """Return the permissions that any other new folder of this process has."""
    return 0o777 & ~_mask()


def _mask() -> int:
    """Return the process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
