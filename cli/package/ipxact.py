"""`component.xml`: IP-XACT 1685-2014."""

from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from tq_hw.cli.package.facts import Core, Port
from tq_hw.isa.control import REGISTERS, WINDOW_BYTES

__all__ = ["component"]

_SPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"
_ACCESS = {"r": "read-only", "w": "write-only", "rw": "read-write"}
#: Vendor, library, name and version of each bus definition, and its names of the signals.
_BUSES = {
    "axi4": ("amba.com", "AMBA4", "AXI4", "r0p0_0"), "axi4lite": ("amba.com", "AMBA4", "AXI4-Lite", "r0p0_0"),
    "apb": ("amba.com", "AMBA4", "APB4", "r0p0_0"), "wishbone": ("opencores.org", "wishbone", "wishbone", "b4"),
}


def component(core: Core, files: dict[str, str]) -> str:
    """Return the file; `files` maps names of files in the folder to their types."""
    ElementTree.register_namespace("ipxact", _SPACE)
    root = Element(_tag("component"))
    _texts(root, vendor="tq-hw", library="npu", name=core.name, version=core.version)
    buses = SubElement(root, _tag("busInterfaces"))
    _bus(buses, core, core.memory_prefix.rstrip("_"), core.memory_bus, core.memory_prefix, master=True)
    if core.control in _BUSES:
        _bus(buses, core, core.prefix.rstrip("_"), core.control, core.prefix)
    _single(buses, "clock", "CLK", "aclk", ("amba.com", "signal", "clock"))
    _single(buses, "reset", "RESETn", "aresetn", ("amba.com", "signal", "reset"))
    _single(buses, "irq", "IRQ", "interrupt", ("amba.com", "signal", "interrupt"))
    space = SubElement(SubElement(root, _tag("addressSpaces")), _tag("addressSpace"))
    _texts(space, name="memory", range="4G", width="32")
    _memory_map(SubElement(root, _tag("memoryMaps")), core)
    _model(root, core)
    file_set = SubElement(SubElement(root, _tag("fileSets")), _tag("fileSet"))
    _texts(file_set, name="rtl")
    for file, kind in files.items():
        entry = SubElement(file_set, _tag("file"))
        _texts(entry, name=file, fileType=kind)
    _texts(root, description=f"int8 neural network accelerator, configuration {core.config.name}")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _tag(name: str) -> str:
    return f"{{{_SPACE}}}{name}"


def _texts(parent: Element, **texts: str) -> None:
    for name, text in texts.items():
        SubElement(parent, _tag(name)).text = text


def _interface(parent: Element, name: str, kind: tuple[str, str, str, str], maps: list[tuple[str, str]]) -> Element:
    interface = SubElement(parent, _tag("busInterface"))
    _texts(interface, name=name)
    vendor, library, bus, version = kind
    SubElement(interface, _tag("busType"), vendor=vendor, library=library, name=bus, version=version)
    abstraction = SubElement(SubElement(interface, _tag("abstractionTypes")), _tag("abstractionType"))
    SubElement(abstraction, _tag("abstractionRef"), vendor=vendor, library=library, name=f"{bus}_rtl", version=version)
    port_maps = SubElement(abstraction, _tag("portMaps"))
    for logical, physical in maps:
        port_map = SubElement(port_maps, _tag("portMap"))
        _texts(SubElement(port_map, _tag("logicalPort")), name=logical)
        _texts(SubElement(port_map, _tag("physicalPort")), name=physical)
    return interface


def _bus(parent: Element, core: Core, name: str, kind: str, prefix: str, *, master: bool = False) -> None:
    maps = [(port.name.removeprefix(prefix).upper(), port.name) for port in core.ports if port.name.startswith(prefix)]
    interface = _interface(parent, name, _BUSES[kind], maps)
    if master:
        SubElement(SubElement(interface, _tag("master")), _tag("addressSpaceRef"), addressSpaceRef="memory")
    else:
        SubElement(SubElement(interface, _tag("slave")), _tag("memoryMapRef"), memoryMapRef="registers")


def _single(parent: Element, name: str, logical: str, physical: str, kind: tuple[str, str, str]) -> None:
    interface = _interface(parent, name, (*kind, "1.0"), [(logical, physical)])
    SubElement(interface, _tag("master" if name == "irq" else "slave"))


def _memory_map(parent: Element, core: Core) -> None:
    memory_map = SubElement(parent, _tag("memoryMap"))
    _texts(memory_map, name="registers")
    block = SubElement(memory_map, _tag("addressBlock"))
    _texts(block, name="registers", baseAddress="0x0", range=str(WINDOW_BYTES), width="32", usage="register")
    for register in REGISTERS:
        entry = SubElement(block, _tag("register"))
        volatile = "true" if register.access == "r" and not core.reset_value(register) else "false"
        _texts(entry, name=register.name, description=register.doc, addressOffset=hex(register.offset_bytes),
               size="32", volatile=volatile, access=_ACCESS[register.access])
        for field in register.fields:
            bits = SubElement(entry, _tag("field"))
            _texts(bits, name=field.name, description=field.doc, bitOffset=str(field.first))
            value = core.reset_value(register) >> field.first & ((1 << field.bits) - 1)
            _texts(SubElement(SubElement(bits, _tag("resets")), _tag("reset")), value=hex(value))
            _texts(bits, bitWidth=str(field.bits), volatile=volatile, access=_ACCESS[register.access])
    _texts(memory_map, addressUnitBits="8")


def _model(parent: Element, core: Core) -> None:
    model = SubElement(parent, _tag("model"))
    view = SubElement(SubElement(model, _tag("views")), _tag("view"))
    _texts(view, name="rtl", envIdentifier="verilogSource::", componentInstantiationRef="verilog")
    instance = SubElement(SubElement(model, _tag("instantiations")), _tag("componentInstantiation"))
    _texts(instance, name="verilog", language="Verilog", moduleName=core.name)
    _texts(SubElement(instance, _tag("fileSetRef")), localName="rtl")
    ports = SubElement(model, _tag("ports"))
    for port in core.ports:
        _port(ports, port)


def _port(parent: Element, port: Port) -> None:
    entry = SubElement(parent, _tag("port"))
    _texts(entry, name=port.name)
    wire = SubElement(entry, _tag("wire"))
    _texts(wire, direction="in" if port.direction == "input" else "out")
    if port.width > 1:
        vector = SubElement(SubElement(wire, _tag("vectors")), _tag("vector"))
        _texts(vector, left=str(port.width - 1), right="0")
