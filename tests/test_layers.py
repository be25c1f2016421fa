"""Imports between the packages go one way: the table below is the architecture."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("isa", "model", "hdl", "sim.golden", "sim", "compiler", "boards", "cli")
#: What each package may import besides itself.
ALLOWED = {
    "isa": set(),
    "model": set(),
    "hdl": {"isa"},
    "sim.golden": {"model"},
    "sim": {"isa", "model", "hdl", "sim.golden"},
    "compiler": {"isa", "model", "sim.golden"},
    "boards": {"isa", "model", "hdl"},
    "cli": set(PACKAGES) - {"cli"},
}


def package_of(module: str) -> str:
    """Return the longest package of the table that holds `module` (a name without `tq_hw.`)."""
    return max((p for p in PACKAGES if module == p or module.startswith(p + ".")), key=len)


def ours(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name, without `tq_hw.`, of each of our modules that is imported, relative ones as they are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "." * node.level + (node.module or "")
            elif node.module == "tq_hw":
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif node.module is not None and node.module.startswith("tq_hw."):
                # `from tq_hw.sim import golden` names a package, `from tq_hw.sim.engines import run` a function.
                base = node.module.removeprefix("tq_hw.")
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("tq_hw."):
                    yield node.lineno, alias.name.removeprefix("tq_hw.")


def files() -> list[Path]:
    tops = sorted({package.split(".")[0] for package in PACKAGES})
    return [path for top in tops for path in sorted((ROOT / top).rglob("*.py"))]


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    own = package_of(module)
    wrong = []
    for line, name in ours(ast.parse(path.read_text(encoding="utf-8"))):
        if name.startswith("."):
            wrong.append(f"line {line}: relative import {name}; write it as tq_hw....")
        elif package_of(name) not in ALLOWED[own] | {own}:
            wrong.append(f"line {line}: {own} must not import {name}")
    assert wrong == []


def test_hdl_has_no_postponed_annotations() -> None:
    """Amaranth reads member annotations as objects; as strings they are silently no members."""
    found = [path.name for path in (ROOT / "hdl").rglob("*.py") if "from __future__ import annotations" in
             path.read_text(encoding="utf-8")]
    assert found == []
