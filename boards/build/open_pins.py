"""Constraints that nextpnr-xilinx reads: one pin, one property a line, without quotes or escapes.

It takes a value in quotes for another value and drops it without a word, finds no port after an escaped bracket, and
stops at targets other than ports. INTERNAL_VREF follows there from the standard of the inputs.
"""

from collections.abc import Iterable, Mapping

from tq_hw.model.errors import ToolError

__all__ = ["PINS_FILE", "pin_constraints"]

PINS_FILE = "openxc7.xdc"
_PROPERTIES = ("IOSTANDARD", "SLEW", "IN_TERM")


def pin_constraints(ports: Iterable[tuple[str, str, Mapping[str, object]]]) -> str:
    """Return the file's text; `ports` are name, pin and properties, as of Amaranth's `iter_port_constraints_bits`.

    Raises ToolError for a property that nobody has tried with nextpnr-xilinx.
    """
    lines = []
    for name, pin, properties in ports:
        lines.append(f"set_property LOC {pin} [get_ports {name}]")
        for key, value in properties.items():
            if key not in _PROPERTIES:
                raise ToolError(f"pin {pin} of {name} has {key}, which nextpnr-xilinx may drop without a word; it is "
                                f"given {', '.join(_PROPERTIES)} only")
            lines.append(f"set_property {key} {value} [get_ports {name}]")
    return "\n".join(lines) + "\n"
