"""`import tq_hw`: from a `.tflite` file to results in a few lines. Each name is imported on its first use.

    compiled = tq_hw.load("model.tflite").compile("n16")
    result = compiled.simulate(image)

The other folders are packages of their own: `tq_hw.compiler`, `tq_hw.sim`, `tq_hw.isa`, ...
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tq_hw.compiled import CompiledNetwork
    from tq_hw.interpreter import Interpreter
    from tq_hw.isa.config import Config, ConfigError
    from tq_hw.isa.memory import Memory
    from tq_hw.model.errors import TqError
    from tq_hw.network import Network, load
    from tq_hw.results import Result
    from tq_hw.tensors import TensorInfo

__all__ = ["CompiledNetwork", "Config", "ConfigError", "Interpreter", "Memory", "Network", "Result", "TensorInfo",
           "TqError", "__version__", "load"]

__version__: str

#: Name -> the module that defines it. Importing it on first use lets the command line start without loading numpy.
_HOMES = {
    "CompiledNetwork": "tq_hw.compiled", "Config": "tq_hw.isa.config", "ConfigError": "tq_hw.isa.config",
    "Interpreter": "tq_hw.interpreter", "Memory": "tq_hw.isa.memory", "Network": "tq_hw.network",
    "Result": "tq_hw.results", "TensorInfo": "tq_hw.tensors", "TqError": "tq_hw.model.errors", "load": "tq_hw.network",
}


def __getattr__(name: str) -> object:
    """Import the module that defines `name`; AttributeError for an unknown name."""
    if name == "__version__":
        value: object = version("tq-hw")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'tq_hw' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted({*globals(), *__all__})
