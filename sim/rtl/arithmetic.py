"""Choose the arithmetic of a simulator: RTL, or C++ models of the multipliers, of the lanes, or of both."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tq_hw.isa.config import Config
from tq_hw.sim.rtl import array_model, lanes_model
from tq_hw.sim.rtl.tools import processor_options

__all__ = ["CHOICES", "RTL", "Arithmetic", "Models", "check_arithmetic", "models"]

#: Choices for each part.
CHOICES = ("rtl", "model")
_WIDE, _CONDENSE = (Path(__file__).with_name(name) for name in ("wide.h", "condense.py"))
_MAKE = "include Vaccelerator.mk\n"
#: Loops of the models become vector instructions, on any processor (wide.h). The remaining RTL is half the size. It is
#: fastest with -O2 and the processor's bit field instructions; the complete RTL is fastest with -Os.
_MAKE_MODELS = """override OPT_FAST := -O2 {processor}
{objects}: override OPT_FAST := -O2 -ftree-vectorize
"""


class Arithmetic(NamedTuple):
    """The multipliers and the lanes of the vector unit, each as "rtl" or as "model"."""

    array: str = "rtl"
    lanes: str = "rtl"


RTL = Arithmetic()


@dataclass(frozen=True)
class Models:
    """Inputs of a simulator in addition to the design.

    Members
    -------
    verilog : of the modules that call the models
    macros : options of the compiler
    sources : C++ files, both compiled and included ones
    headers : text of generated files, by name
    """

    verilog: str = ""
    macros: str = ""
    sources: tuple[Path, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def makefile(self) -> str:
        """The makefile that make reads instead of Verilator's own, which it includes."""
        objects = " ".join(f"{source.stem}.o" for source in self.sources if source.suffix == ".cpp")
        options = " ".join(processor_options())
        return _MAKE + (_MAKE_MODELS.format(objects=objects, processor=options) if objects else "")

    @property
    def texts(self) -> list[str]:
        """All inputs except Verilog: a change of any requires another simulator."""
        return [self.macros, *([self.makefile] if self.sources else []),
                *(source.read_text(encoding="utf-8") for source in self.sources),
                *(text for _, text in self.headers)]


def check_arithmetic(arithmetic: Arithmetic, config: Config) -> None:
    """Raise OptionError for an unknown name, and for a machine without such a model."""
    array_model.check_array(arithmetic.array, config)
    lanes_model.check_lanes(arithmetic.lanes, config)


def models(arithmetic: Arithmetic, config: Config) -> Models:
    """Return the models of a configuration."""
    parts: list[tuple[str, str, Path]] = []
    headers: list[tuple[str, str]] = []
    if arithmetic.array == "model":
        parts.append((array_model.stub(config), array_model.macros(config), array_model.SOURCE))
    if arithmetic.lanes == "model":
        parts.append((lanes_model.stub(config), lanes_model.macros(config), lanes_model.SOURCE))
        headers.append((lanes_model.HEADER, lanes_model.header()))
    if not parts:
        return Models()
    verilog, macros, sources = zip(*parts, strict=True)
    # The hash of condense.py: the design's generated text depends on it (design.py).
    by = f"// {hashlib.sha256(_CONDENSE.read_bytes()).hexdigest()[:16]}\n"
    return Models(by + "".join(verilog), " ".join(macros), (*sources, _WIDE), tuple(headers))
