"""One compiled model in memory: regions, commands, inputs and outputs, layers. program_file.py makes a file of it."""

from dataclasses import dataclass

from tq_hw.isa.layout import Unit
from tq_hw.isa.program_rules import DTYPES, EDGES, ProgramError, check_program
from tq_hw.isa.record import ALIGN_BYTES, REGION_ARENA, REGION_IMAGE, REGION_STATE, Layer, Port, Record

__all__ = ["ALIGN_BYTES", "DTYPES", "EDGES", "REGION_ARENA", "REGION_IMAGE", "REGION_STATE", "Layer", "Port", "Program",
           "ProgramError"]


@dataclass(frozen=True)
class Program(Record):
    """One compiled model that keeps the rules: they are checked when it is made (ProgramError)."""

    def __post_init__(self) -> None:
        """Hold it against the rules of program_rules.py that need no look at the commands."""
        check_program(self)

    @property
    def commands(self) -> bytes:
        """The command stream."""
        return self.image[self.command_offset:self.command_offset + self.command_bytes]

    @property
    def fingerprint(self) -> int:
        """Fingerprint of the configuration that the program was compiled for."""
        return self.config.fingerprint

    def layer_of(self, unit: Unit | str, run: int) -> Layer | None:
        """Return the layer that RUN number `run` of `unit` belongs to, if the compiler named one."""
        name = unit if isinstance(unit, str) else unit.name.lower()
        for layer in self.layers:
            if any(first <= run <= last for first, last in layer.runs.get(name, ())):
                return layer
        return None
