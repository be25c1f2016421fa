"""requirements.lock holds what pyproject.toml asks for, exactly, and is what runs here."""

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCK = [Requirement(line) for line in (ROOT / "requirements.lock").read_text().splitlines()
        if line.strip() and not line.startswith("#")]


def applies(requirement: Requirement, **environment: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": "", **environment})


def wanted(lines: list[str]) -> list[Requirement]:
    """Return the requirements of `lines`, with our own extras written out."""
    found = []
    for requirement in map(Requirement, lines):
        if requirement.name == PROJECT["name"]:
            found += wanted([line for extra in requirement.extras for line in EXTRAS[extra]])
        else:
            found.append(requirement)
    return found


def test_every_line_is_one_exact_version() -> None:
    for requirement in LOCK:
        assert [s.operator for s in requirement.specifier] == ["=="], str(requirement)
        assert requirement.url is None, str(requirement)


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_lock_meets_pyproject(python: str) -> None:
    locked = {canonicalize_name(r.name): r for r in LOCK if applies(r, python_version=python)}
    for requirement in wanted(PROJECT["dependencies"] + EXTRAS["dev"]):
        if not applies(requirement, python_version=python):
            continue
        name = canonicalize_name(requirement.name)
        assert name in locked, f"{requirement} is not in requirements.lock: run `make lock`"
        version = next(iter(locked[name].specifier)).version
        assert requirement.specifier.contains(version, prereleases=True), f"{name} {version}: {requirement}"


def test_lock_is_closed() -> None:
    """What the locked packages need is locked too, here at least."""
    locked = {canonicalize_name(r.name): next(iter(r.specifier)).version for r in LOCK if applies(r)}
    for name in locked:
        for line in importlib.metadata.requires(name) or []:
            requirement = Requirement(line)
            if applies(requirement):
                need = canonicalize_name(requirement.name)
                assert need in locked, f"{name} needs {requirement}"
                assert requirement.specifier.contains(locked[need], prereleases=True), f"{name} needs {requirement}"


@pytest.mark.parametrize("requirement", [r for r in LOCK if applies(r)], ids=lambda r: r.name)
def test_installed_version_is_the_locked_one(requirement: Requirement) -> None:
    assert requirement.specifier.contains(importlib.metadata.version(requirement.name), prereleases=True)
