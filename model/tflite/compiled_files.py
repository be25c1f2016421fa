"""Files that another accelerator's compiler has made: their weights are in custom operators that only it reads."""

from collections.abc import Iterable

from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Subgraph

__all__ = ["refuse_compiled"]

#: How the custom operators of these compilers are called, or begin, and who makes them.
_COMPILERS = {"ethos-u": "Vela, for an Ethos-U", "edgetpu-custom-op": "the Edge TPU compiler",
              "XC_": "XMOS' optimizer, for an xcore"}


def refuse_compiled(subgraphs: Iterable[Subgraph], name: str) -> None:
    """Raise UnsupportedError that names the compiler, if one of a known other accelerator has made the file `name`."""
    for index, subgraph in enumerate(subgraphs):
        for operator in subgraph.operators:
            custom = operator.op.removeprefix("CUSTOM:")
            for begin, maker in _COMPILERS.items():
                if custom != operator.op and custom.startswith(begin):
                    raise UnsupportedError(
                        f"{name}: subgraph {index}, operator {operator.index} {operator.op}: the file was compiled by "
                        f"{maker}; give the .tflite file that was compiled")
