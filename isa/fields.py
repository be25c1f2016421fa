"""The register fields that a configuration has. Fields of absent options are ignored by every machine."""

from tq_hw.isa.config import Config
from tq_hw.isa.layout import UNITS, Field, Unit

__all__ = ["fields_of"]


def fields_of(unit: Unit, config: Config) -> tuple[Field, ...]:
    """Return the fields of a unit's registers that a configuration has."""
    return tuple(f for r in UNITS[unit].registers for f in r.fields if config.compressed_weights or f.name != "coded")
