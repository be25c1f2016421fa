"""Imports between folders go one way, between files of a folder never in a circle: the table is the architecture."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_MODEL = {"model", "model.rules", "model.tflite"}
_BELOW_CLI = {"isa", *_MODEL, "sim", "sim.golden", "sim.executor", "sim.rtl", "sim.diagnose", "sim.mixed"}
_LOWERING = {"compiler.ir", "isa", *_MODEL, "sim.golden"}
_UNITS = {"hdl.parts", "hdl", "isa"}
_HDL = {"hdl", "hdl.parts", "hdl.bus", "hdl.control", "hdl.serial"}
#: What each folder may import of ours besides itself. A folder that is not named may not exist.
ALLOWED: dict[str, set[str]] = {
    "isa": set(),
    "model": set(),
    "model.rules": {"model"},
    "model.tflite": {"model", "model.rules"},
    "model.samples": {"model", "model.rules", "model.tflite"},
    "model.random": {"model", "model.rules", "model.tflite", "model.samples"},
    "hdl": {"hdl.netlist", "hdl.parts", "hdl.bus", "hdl.dma", "hdl.array", "hdl.lane", "hdl.vector", "hdl.control",
            "hdl.serial", "isa"},
    "hdl.netlist": set(),
    "hdl.parts": set(),
    "hdl.bus": {"hdl.parts", "isa"},
    "hdl.dma": {"hdl.bus", *_UNITS},
    "hdl.array": _UNITS,
    "hdl.lane": _UNITS,
    "hdl.vector": {"hdl.lane", *_UNITS},
    "hdl.control": {"hdl.bus", *_UNITS},
    "hdl.serial": {"hdl.bus", "hdl.control", *_UNITS},
    "sim.golden": _MODEL,
    "sim": {"sim.golden", "sim.executor", "sim.rtl", "isa", *_MODEL, "hdl"},
    "sim.executor": {"sim", "sim.golden", "isa", *_MODEL},
    "sim.rtl": {"sim", "sim.executor", "isa", *_MODEL, "hdl", "hdl.lane"},
    "sim.diagnose": {"sim", "sim.golden", "sim.executor", "sim.rtl", "isa", *_MODEL},
    "sim.mixed": {"sim", "sim.golden", "sim.rtl", "isa", *_MODEL},
    "compiler.ir": {"isa", *_MODEL},
    "compiler.stream": {"compiler.ir", "isa", *_MODEL},
    "compiler.rewrite": {*_MODEL, "sim.golden"},
    "compiler.programs": {"compiler.ir", "isa", *_MODEL, "sim.golden"},
    "compiler.lower": {"compiler.programs", "compiler.rewrite", *_LOWERING},
    "compiler.plan": {"compiler.ir", "compiler.stream", "isa", *_MODEL},
    "compiler.specialize": {"compiler.programs", "compiler.plan", *_LOWERING},
    "compiler.emit": {"compiler.programs", "compiler.plan", "compiler.stream", *_LOWERING},
    "compiler.cost": {"compiler.ir", "compiler.stream", "isa", *_MODEL},
    "compiler.cost.events": {"compiler.cost", "compiler.ir", "compiler.stream", "isa", *_MODEL},
    "compiler.verify": {"compiler.ir", "compiler.stream", "compiler.emit", "compiler.plan", "isa", *_MODEL},
    "compiler.partition": {"compiler", "compiler.lower", "compiler.rewrite", "isa", *_MODEL, "sim.golden"},
    "compiler": {"compiler.plan", "compiler.specialize", "compiler.emit", "compiler.cost", "compiler.cost.events",
                 "compiler.stream", "compiler.lower", "compiler.programs", "compiler.rewrite", "compiler.verify",
                 *_LOWERING},
    "boards": set(),
    "boards.link": {"isa", *_MODEL},
    "boards.gateware": {"boards.link", *_HDL, "isa", "model"},
    "boards.soc": {"boards.gateware", *_HDL, "isa", "model"},
    "boards.catalog": {"boards.gateware", "isa", *_MODEL},
    "boards.resources": {"boards.catalog", "isa", *_MODEL},
    "boards.build": {"api.work", "boards.catalog", "boards.soc", "boards.gateware", *_HDL, "isa", *_MODEL},
    "cli.shared": {*_BELOW_CLI},
    "cli.emulation": {"cli.shared", "cli.report", "boards.link", "boards.gateware", "boards.soc", "boards.catalog",
                      "boards.build", *_BELOW_CLI},
    "cli.package": {"cli.shared", "boards.resources", "compiler", "hdl", "hdl.netlist", *_BELOW_CLI},
    "cli.reference": {"cli.shared", "compiler", "compiler.lower", "compiler.stream", "model.samples", "boards.catalog",
                      "boards.resources", *_BELOW_CLI},
    "cli.report": {"cli.shared", "compiler", "compiler.cost", *_BELOW_CLI},
    "cli.explore": {"cli.report", "cli.shared", "api.work", "api.store", "boards.build", "boards.catalog",
                    "boards.resources", "compiler", *_BELOW_CLI},
}
#: What commands share stands on everything, commands on that, and `cli/main.py` on the commands.
ALLOWED["cli"] = set(ALLOWED)
ALLOWED["cli.commands"] = set(ALLOWED)
ALLOWED["cli.main"] = {"cli", "cli.commands", "cli.shared", "isa", "model", "boards.link"}
ALLOWED["cli.__main__"] = {"cli.start"}
ALLOWED["cli.start"] = {"cli", "cli.main", "cli.shared"}
#: What everything may use that has many tasks.
ALLOWED["api.store"] = {"model"}
ALLOWED["api.work"] = {"api.store", "model"}
ALLOWED["cli"] = {*ALLOWED["cli"], "api.work", "api.store"}
ALLOWED["cli.commands"] = {*ALLOWED["cli.commands"], "api.work", "api.store"}
#: Files of the package itself: file X of it is `tq_hw.X`, and here `api.X`.
ALLOWED["api"] = set(ALLOWED)


def folder_of(module: str) -> str:
    """Return the folder of the table that holds `module` (a name without `tq_hw.`)."""
    return max((f for f in ALLOWED if module == f or module.startswith(f + ".")), key=len)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def place(module: str) -> str:
    """Return what the table calls a module of ours: `api` and its files are the package itself."""
    name = module.removeprefix("tq_hw").removeprefix(".")
    return name if name.split(".")[0] in {folder.split(".")[0] for folder in ALLOWED} else f"api.{name}".rstrip(".")


@cache
def files() -> dict[str, Path]:
    """Every module of ours by its name without `tq_hw.`."""
    tops = sorted({folder.split(".")[0] for folder in ALLOWED})
    return {name_of(path): path for top in tops for path in sorted((ROOT / top).rglob("*.py"))}


def ours(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name, without `tq_hw.`, of each of our modules that is imported, relative ones as they are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "." * node.level + (node.module or "")
            elif node.module is not None and node.module.split(".")[0] == "tq_hw":
                # `from tq_hw.sim import golden` names a module, `from tq_hw.sim.engines import run` a function.
                for alias in node.names:
                    full = place(f"{node.module}.{alias.name}")
                    yield node.lineno, full if full in files() else place(node.module)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "tq_hw":
                    yield node.lineno, place(alias.name)


@pytest.mark.parametrize("name", files(), ids=lambda name: name.replace(".", "/"))
def test_imports_go_one_way(name: str) -> None:
    own = folder_of(name)
    wrong = []
    for line, imported in ours(ast.parse(files()[name].read_text(encoding="utf-8"))):
        if imported.startswith("."):
            wrong.append(f"line {line}: relative import {imported}; write it as tq_hw....")
        elif folder_of(imported) not in ALLOWED[own] | {own}:
            wrong.append(f"line {line}: {own} must not import {imported}")
    assert wrong == []


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return one circle of a graph, or nothing."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node):], node]
        if node in done:
            return []
        for after in sorted(graph.get(node, ())):
            if found := visit(after, [*path, node]):
                return found
        done.add(node)
        return []

    return next((found for node in graph if (found := visit(node, []))), [])


def test_no_circle_between_files() -> None:
    """An import inside a function counts too: it only hides the circle."""
    graph = {name: {module for _, module in ours(ast.parse(path.read_text(encoding="utf-8"))) if module != name}
             for name, path in files().items()}
    assert circle(graph) == []


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_every_folder_is_in_the_table() -> None:
    folders = {name for name, path in files().items() if path.name == "__init__.py"}
    assert set(ALLOWED) - folders == {"cli.main", "cli.__main__", "cli.start", "api.work", "api.store"}
    assert folders <= set(ALLOWED)


def test_hdl_and_compiler_never_meet() -> None:
    assert not any(allowed.split(".")[0] == other for one, other in (("hdl", "compiler"), ("compiler", "hdl"))
                   for folder in ALLOWED if folder.split(".")[0] == one for allowed in ALLOWED[folder])


def test_hdl_has_no_postponed_annotations() -> None:
    """Amaranth reads member annotations as objects; as strings they are silently no members."""
    found = [path.name for path in (ROOT / "hdl").rglob("*.py") if "from __future__ import annotations" in
             path.read_text(encoding="utf-8")]
    assert found == []
