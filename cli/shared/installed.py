"""The names of missing packages and how to install them, without importing any other package."""

import importlib.metadata
import re

__all__ = ["not_installed"]


def not_installed(error: ModuleNotFoundError) -> str:
    """Return a message with all required packages that are not installed.

    "" for a missing module of tq-hw itself, which no installation of a package can repair.
    """
    module = (error.name or "").partition(".")[0]
    if module in ("", "tq_hw"):
        return ""
    missing = [name for name in _required() if not _is_there(name)]
    if missing:
        names = " and ".join([", ".join(missing[:-1]), missing[-1]] if missing[1:] else missing)
        return (f"the Python package{'s' if missing[1:] else ''} {names} {'are' if missing[1:] else 'is'} not "
                f"installed: pip install {' '.join(missing)}")
    return (f"the Python module {module} cannot be imported, though all packages that tq-hw needs are installed: "
            "reinstall the one that it comes from")


def _required() -> list[str]:
    """Return the packages that tq-hw requires."""
    asked = importlib.metadata.requires("tq-hw") or []
    return [re.split(r"[^\w.-]", one)[0] for one in asked if "extra ==" not in one]


def _is_there(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
