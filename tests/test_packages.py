"""The tables of pyproject.toml and the folders agree; every module imports, and its doctests hold."""

import doctest
import importlib
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tq_hw.boards.build.firmware import FIRMWARE, SOURCES
from tq_hw.cli.commands.build import DEMO_MODEL
from tq_hw.cli.reference.operators import RECORD

ROOT = Path(__file__).parents[1]
TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
MAPPED = {package: ROOT / folder for package, folder in TOOLS["setuptools"]["package-dir"].items()}


#: It holds files for others than Python.
DATA = ("tq_hw.firmware",)


def packages() -> Iterator[tuple[str, Path]]:
    """Yield every folder with Python files below a mapped one."""
    for package, folder in MAPPED.items():
        for path in [folder] if package in DATA else sorted({file.parent for file in folder.rglob("*.py")}):
            yield ".".join([package, *path.relative_to(folder).parts]), path


def modules() -> Iterator[str]:
    for package, folder in packages():
        for file in sorted(folder.glob("*.py")):
            if file.stem != "__main__":
                yield package if file.stem == "__init__" else f"{package}.{file.stem}"


def test_pyproject_lists_every_package() -> None:
    assert {package for package, _ in packages()} == set(TOOLS["setuptools"]["packages"])


@pytest.mark.parametrize(("package", "folder"), [pytest.param(*p, id=p[0]) for p in packages()])
def test_package_has_an_init_file(package: str, folder: Path) -> None:
    assert (folder / "__init__.py").is_file(), package


def test_every_mapped_folder_is_marked_as_typed() -> None:
    assert [folder for folder in MAPPED.values() if not (folder / "py.typed").is_file()] == []


def test_type_checkers_follow_one_link_per_folder() -> None:
    links = {f"tq_hw.{link.name}": link.resolve() for link in (ROOT / ".typing" / "tq_hw").iterdir()}
    assert links == {package: folder for package, folder in MAPPED.items() if package not in DATA}


def test_folder_names_are_banned_as_imports() -> None:
    banned = TOOLS["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert set(banned) == {folder.name for folder in MAPPED.values()}


@pytest.mark.parametrize("name", list(modules()))
def test_module_imports_and_its_doctests_hold(name: str) -> None:
    module = importlib.import_module(name)
    assert Path(module.__file__ or "").is_relative_to(ROOT), f"{name} comes from {module.__file__}"
    assert doctest.testmod(module).failed == 0


def installed(package: str) -> set[Path]:
    """Files next to a package's modules that an installation has."""
    patterns = TOOLS["setuptools"]["package-data"]
    folder = MAPPED["tq_hw." + package.split(".")[0]].joinpath(*package.split(".")[1:])
    wanted = (*patterns["*"], *patterns.get(f"tq_hw.{package}", ()))
    return {path for pattern in wanted for path in folder.glob(pattern)}


def test_an_installation_has_what_commands_read() -> None:
    sources = {FIRMWARE / source for source in (*SOURCES, "runtime/memory.h", "runtime/console.h", "driver/tq.h",
                                                "driver/tq_layout.h")}
    assert {path for path in sources if path.is_file()} == sources
    assert sources <= installed("firmware")
    assert DEMO_MODEL in installed("model.samples")
    assert RECORD in installed("cli.reference")
    assert ROOT / "cli" / "report" / "page.html" in installed("cli.report")
    assert {ROOT / "sim" / "rtl" / "harness.cpp", ROOT / "sim" / "rtl" / "flash.h"} <= installed("sim.rtl")
