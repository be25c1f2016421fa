"""The tables of pyproject.toml and the folders agree; every module imports, and its doctests hold."""

import doctest
import importlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path

import pytest

import tq_hw
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


def test_tracked_files_are_not_empty_leftovers() -> None:
    """What a tool wrote where it was started. Empty files with a meaning are py.typed and fixtures of tests."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a checkout of git")
    files = [ROOT / name for name in listed.stdout.split("\0") if name and not name.startswith("tests/")]
    assert [file for file in files if file.is_file() and file.stat().st_size == 0 and file.name != "py.typed"] == []


def test_pytest_looks_into_every_folder_of_tests(pytestconfig: pytest.Config) -> None:
    """By default it leaves out folders named `build`, for example, in silence."""
    left_out = pytestconfig.getini("norecursedirs")
    folders = {folder for file in (ROOT / "tests").rglob("test_*.py") for folder in file.relative_to(ROOT).parents}
    assert [folder for folder in folders if any(fnmatch(folder.name, pattern) for pattern in left_out)] == []


@pytest.mark.parametrize(("package", "folder"), [pytest.param(*p, id=p[0]) for p in packages()])
def test_package_has_an_init_file(package: str, folder: Path) -> None:
    assert (folder / "__init__.py").is_file(), package


def test_every_mapped_folder_is_marked_as_typed() -> None:
    assert [folder for folder in MAPPED.values() if not (folder / "py.typed").is_file()] == []


def test_type_checkers_follow_one_link_per_folder() -> None:
    """And one per file of the package itself, whose folder cannot be a link: the others lie in it."""
    links = {f"tq_hw.{link.name}": link.resolve() for link in (ROOT / ".typing" / "tq_hw").iterdir()}
    own = {f"tq_hw.{file.name}": file for file in MAPPED["tq_hw"].glob("*.*")}
    folders = {package: folder for package, folder in MAPPED.items() if package not in ("tq_hw", *DATA)}
    assert links == folders | own


def test_the_package_says_what_it_is() -> None:
    assert tq_hw.__version__ == version("tq-hw")
    assert set(tq_hw.__all__) <= set(dir(tq_hw))
    assert all(getattr(tq_hw, name) is not None for name in tq_hw.__all__)
    with pytest.raises(AttributeError, match="^module 'tq_hw' has no attribute 'lod'$"):
        getattr(tq_hw, "lo" + "d")


def test_the_package_is_run_as_the_command_is(tmp_path: Path) -> None:
    """From any folder, and without what the commands import being loaded by the package's own import."""
    done = subprocess.run([sys.executable, "-m", "tq_hw", "--version"], cwd=tmp_path, capture_output=True, text=True,
                          check=True)
    assert done.stdout == f"tq-hw {tq_hw.__version__}\n"
    code = "import sys, tq_hw; print(sorted(n for n in sys.modules if n.startswith(('tq_hw', 'numpy', 'amaranth'))))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "['tq_hw']\n"


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
    # All but what tests and fuzzers alone need: `make runtime` of an installed package finds its header.
    assert {path for folder in ("delegate", "driver", "example", "litex", "runtime", "tflm")
            for path in (FIRMWARE / folder).rglob("*") if path.is_file()} <= installed("firmware")
    assert DEMO_MODEL in installed("model.samples")
    assert RECORD in installed("cli.reference")
    assert ROOT / "cli" / "report" / "page.html" in installed("cli.report")
    assert {ROOT / "sim" / "rtl" / "harness.cpp", ROOT / "sim" / "rtl" / "flash.h"} <= installed("sim.rtl")
