"""The multipliers as a module that somebody else brings: for simulators that have a faster one."""

from amaranth import ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import wiring

__all__ = ["OUTSIDE_NAME", "ArrayOutside", "outside_instance"]

#: Name of the module; its ports are those of MacArray, `clk` and `rst`.
OUTSIDE_NAME = "tq_mac_array"


class ArrayOutside:
    """A platform for `elaborate`: the design has an instance of `OUTSIDE_NAME` in place of MacArray's cells."""


def outside_instance(array: wiring.Component) -> Module:
    """Return the contents of MacArray under that platform."""
    m = Module()
    ports = {f"{'i' if member.flow is wiring.In else 'o'}_{name}": wired.as_value() if hasattr(wired, "as_value") else
             wired for name, member in array.signature.members.items() for wired in (getattr(array, name),)}
    m.submodules.outside = Instance(OUTSIDE_NAME, i_clk=ClockSignal(), i_rst=ResetSignal(), **ports)
    return m
