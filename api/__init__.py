"""`import tq_hw`: from a `.tflite` to results in a few lines; nothing is imported before it is used.

    compiled = tq_hw.load("model.tflite").compile("n16")
    result = compiled.simulate(image)

The folders beside this one are packages of their own: `tq_hw.compiler`, `tq_hw.sim`, `tq_hw.isa`, ...
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tq_hw.model.errors import TqError

__all__ = ["TqError", "__version__"]

__version__: str

#: Name -> the module it comes from, imported when it is asked for first: the command line starts without numpy's cost.
_HOMES = {"TqError": "tq_hw.model.errors"}


def __getattr__(name: str) -> object:
    """Import what `name` needs; AttributeError for what there is not."""
    if name == "__version__":
        value: object = version("tq-hw")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'tq_hw' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Name what can be asked for."""
    return sorted({*globals(), *__all__})
