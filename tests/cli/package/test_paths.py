"""A core has no combinational path from an input to an output."""

from typing import Any

import pytest
from amaranth.back import rtlil

from tq_hw.hdl.netlist.rtlil import Module, Part, parse
from tq_hw.hdl.top import CONTROLS, Top
from tq_hw.isa.config import load_config

Edges = list[tuple[set[str], set[str]]]


class Paths:
    """The combinational paths of a design."""

    def __init__(self, modules: dict[str, Module]) -> None:
        self.modules = modules
        self.readers: dict[str, dict[str, list[set[str]]]] = {}
        self.known: dict[tuple[str, str], set[str]] = {}

    def outputs(self, name: str, port: str) -> set[str]:
        """Outputs of a module that depend combinationally on one of its inputs."""
        if (name, port) not in self.known:
            seen, waiting = {port}, [port]
            readers = self.edges(name)
            while waiting:
                for targets in readers.get(waiting.pop(), ()):
                    waiting += targets - seen
                    seen |= targets
            wires = self.modules[name].wires
            self.known[name, port] = {wire for wire in seen if wires[wire].port == "output"}
        return self.known[name, port]

    def edges(self, name: str) -> dict[str, list[set[str]]]:
        if name not in self.readers:
            found = self.readers[name] = {}
            for sources, targets in self._edges(self.modules[name]):
                for source in sources:
                    found.setdefault(source, []).append(targets)
        return self.readers[name]

    def _edges(self, module: Module) -> Edges:
        edges: Edges = [(wires(value), wires(target)) for target, value in module.aliases]
        edges += [(reads(process.body), wires(getattr(process.body[0], "target", ()))) for process in module.processes]
        for cell in module.cells:
            if cell.kind in ("$dff", "$memwr_v2", "$meminit_v2") or (
                    cell.kind == "$memrd_v2" and cell.number("CLK_ENABLE")):
                continue
            if cell.kind.startswith("$"):
                output = "DATA" if cell.kind == "$memrd_v2" else "Y"
                edges += [(wires(sig), wires(cell.ports[output])) for port, sig in cell.ports.items() if port != output]
                continue
            child = cell.kind.removeprefix("\\")
            for port, sig in cell.ports.items():
                if self.modules[child].wires[f"\\{port}"].port == "input":
                    edges += [(wires(sig), wires(cell.ports[out.removeprefix("\\")]))
                              for out in self.outputs(child, f"\\{port}")]
        return edges


def wires(sig: Any) -> set[str]:
    return {part.wire for part in sig if isinstance(part, Part)}


def reads(body: Any) -> set[str]:
    found: set[str] = set()
    for item in body:
        found |= wires(item.value)
        for case in getattr(item, "cases", ()):
            found |= reads(case.body)
    return found


@pytest.mark.parametrize("name", ["serial", pytest.param("tiny", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("control", "memory_bus"), [*((control, "axi4") for control in CONTROLS),
                                                     ("wishbone", "wishbone")])
def test_no_way_from_an_input_to_an_output_within_a_cycle(control: str, memory_bus: str, name: str) -> None:
    modules = parse(rtlil.convert(Top(load_config(name), control, memory_bus), name="top", emit_src=False))
    paths = Paths(modules)
    inputs = [wire.name for wire in modules["top"].wires.values() if wire.port == "input" and wire.name != "\\aclk"]
    assert len(inputs) >= 7
    assert {wire: paths.outputs("top", wire) for wire in inputs} == {wire: set() for wire in inputs}
