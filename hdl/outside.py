"""Multipliers and lanes as external modules, for simulators that have faster models of them."""

from dataclasses import dataclass

from amaranth import ClockSignal, Instance, Module, ResetSignal, Value
from amaranth.lib import wiring

__all__ = ["ARRAY_NAME", "LANES_NAME", "Outside", "array_instance", "lanes_instance"]

#: Name of the module in place of MacArray's cells. Its ports are those of MacArray, `clk` and `rst`.
ARRAY_NAME = "tq_mac_array"
#: Name of the module in place of all lanes. Its ports are those of a lane, each as wide as all lanes together, and
#: `clk`; there is only one `control`, and partners are connected inside.
LANES_NAME = "tq_lanes"


@dataclass(frozen=True)
class Outside:
    """A platform for `elaborate` that names the parts to be instantiated instead of built."""

    array: bool = False
    lanes: bool = False


def array_instance(array: wiring.Component) -> Module:
    """Return an instance in place of the contents of MacArray."""
    m = Module()
    ports = {f"{'i' if member.flow is wiring.In else 'o'}_{name}": wired.as_value() if hasattr(wired, "as_value") else
             wired for name, member in array.signature.members.items() for wired in (getattr(array, name),)}
    m.submodules.outside = Instance(ARRAY_NAME, i_clk=ClockSignal(), i_rst=ResetSignal(), **ports)
    return m


def lanes_instance(inputs: dict[str, Value], result: Value) -> Instance:
    """Return an instance in place of the lanes."""
    return Instance(LANES_NAME, i_clk=ClockSignal(), o_result=result,
                    **{f"i_{name}": value for name, value in inputs.items()})
