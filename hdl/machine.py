"""Returns the hardware of a configuration: the design that Config names."""

from tq_hw.hdl.accelerator import Accelerator
from tq_hw.hdl.serial.accelerator import SerialAccelerator
from tq_hw.isa.config import Config

__all__ = ["machine"]


def machine(config: Config) -> Accelerator | SerialAccelerator:
    """Return the machine of the configuration's design. All designs have the same ports."""
    return SerialAccelerator(config) if config.design == "serial" else Accelerator(config)
