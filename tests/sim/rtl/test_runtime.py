"""Verilator's objects in the cache: used by every build of a kind, compiled again if damaged."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tq_hw.isa.memory import Memory
from tq_hw.sim.rtl import build, runtime
from tq_hw.sim.rtl.bench import Bench
from tq_hw.sim.rtl.cache import intact, open_cache, seal

SOURCES = {"verilated.cpp", "verilated_threads.cpp"}
OPTIONS = ("OPT_GLOBAL=-O2",)


def compiled(monkeypatch: pytest.MonkeyPatch, made: Callable[[], Path]) -> set[str]:
    """Return the names of Verilator's sources that a build compiles; its library works."""
    seen = []

    def run_tool(command: list[str], folder: Path, line_done: Callable[[str], None] | None = None) -> None:
        def line(text: str) -> None:
            if " -c " in text:
                seen.extend(Path(word).name for word in text.split() if word.endswith(".cpp"))
            if line_done is not None:
                line_done(text)
        real(command, folder, line)

    real: Any = build.run_tool
    with monkeypatch.context() as patched:
        patched.setattr(build, "run_tool", run_tool)
        Bench(made(), Memory()).close()
    assert "harness.cpp" in seen
    return {name for name in seen if name.startswith("verilated")}


def test_another_simulator_uses_them(copier: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                     ) -> None:
    copier(8)
    before = runtime.runtime_folder(open_cache("rtl"), "", build._OPTIMIZE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = runtime.runtime_folder(open_cache("rtl"), "", build._OPTIMIZE)
    assert folder.name == before.name
    runtime.keep_runtime(folder, before)
    os.truncate(folder / "verilated_threads.o", 5)
    assert compiled(monkeypatch, lambda: copier(8)) == {"verilated_threads.cpp"}
    assert all(intact(folder / f"{name[:-4]}.o") for name in SOURCES)
    assert compiled(monkeypatch, lambda: copier(4)) == set()


def test_objects_are_kept_once(tmp_path: Path) -> None:
    """If two builds store objects at once, the first one's are kept; a file that differs from its record is ignored."""
    folder, obj, other = tmp_path / "kept", tmp_path / "obj", tmp_path / "other"
    for place, text in ((obj, "first"), (other, "second")):
        place.mkdir()
        for name in ("verilated.o", "verilated_dpi.o", "harness.o"):
            (place / name).write_text(text)
        runtime.keep_runtime(folder, place)
    assert sorted(path.name for path in folder.iterdir()) == [
        "verilated.o", "verilated.o.json", "verilated_dpi.o", "verilated_dpi.o.json"]
    (folder / "verilated_dpi.o").write_text("damaged")
    target = tmp_path / "target"
    target.mkdir()
    assert runtime.take_runtime(folder, target) == 1
    assert [(path.name, path.read_text()) for path in target.iterdir()] == [("verilated.o", "first")]
    seal(folder / "verilated_dpi.o")
    assert runtime.take_runtime(folder, target) == 2
    assert runtime.take_runtime(tmp_path / "nothing", target) == 0


@pytest.mark.parametrize(("attribute", "value"), [
    ("package_version", lambda name: "5.49.0"), ("compiler", lambda: ("other++", ())),
    ("KINDS", {"": ("--timing",), "fst": ("--trace-fst",)})])
def test_what_they_are_made_from_names_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attribute: str,
                                                    value: object) -> None:
    plain = runtime.runtime_folder(tmp_path, "", OPTIONS)
    assert plain == runtime.runtime_folder(tmp_path, "", OPTIONS)
    assert plain not in (runtime.runtime_folder(tmp_path, "", ()), runtime.runtime_folder(tmp_path, "fst", OPTIONS))
    monkeypatch.setattr(runtime, attribute, value)
    assert plain != runtime.runtime_folder(tmp_path, "", OPTIONS)


def test_waves_have_headers_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = runtime.runtime_folder(tmp_path, "fst", OPTIONS)
    (tmp_path / "other.h").write_text("#define OTHER\n")
    monkeypatch.setattr(runtime, "FST_HEADERS", (tmp_path / "other.h",))
    assert runtime.runtime_folder(tmp_path, "fst", OPTIONS) != before
