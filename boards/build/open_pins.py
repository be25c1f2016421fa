"""Constraints for nextpnr-xilinx: one property of one pin per line, without quotes or escapes.

The program silently drops a quoted value as unknown, does not find a port with an escaped bracket, and fails on
targets other than ports. It derives INTERNAL_VREF from the I/O standard of the inputs.
"""

from collections.abc import Iterable, Mapping

from tq_hw.model.errors import ToolError

__all__ = ["PINS_FILE", "pin_constraints"]

PINS_FILE = "openxc7.xdc"
_PROPERTIES = ("IOSTANDARD", "SLEW", "IN_TERM")


def pin_constraints(ports: Iterable[tuple[str, str, Mapping[str, object]]]) -> str:
    """Return the file's text; `ports` are name, pin and properties, as from Amaranth's `iter_port_constraints_bits`.

    Raises ToolError for a property that was never tried with nextpnr-xilinx.
    """
    lines = []
    for name, pin, properties in ports:
        lines.append(f"set_property LOC {pin} [get_ports {name}]")
        for key, value in properties.items():
            if key not in _PROPERTIES:
                raise ToolError(f"pin {pin} of {name} has {key}, which nextpnr-xilinx may drop silently; it is "
                                f"given {', '.join(_PROPERTIES)} only")
            lines.append(f"set_property {key} {value} [get_ports {name}]")
    return "\n".join(lines) + "\n"
