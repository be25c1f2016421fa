"""The cache of simulators: damaged files are rebuilt; other users' and unusable folders are named and rejected."""

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from tq_hw.isa.memory import Memory
from tq_hw.model.errors import OptionError, ToolError
from tq_hw.sim.rtl import build, cache
from tq_hw.sim.rtl.bench import Bench

HELP = "set XDG_CACHE_HOME to a folder of your own"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def cached(capsys: pytest.CaptureFixture[str], copier: Callable[..., Path], tmp_path: Path,
           monkeypatch: pytest.MonkeyPatch) -> Path:
    """The copier's library in a cache of this test, where a build copies it and records `built`."""
    whole = copier(8)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def make(verilog: Callable[[], str], folder: Path, *_: object) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole.parent, folder)
        print("built")

    monkeypatch.setattr(build, "_build", make)
    return copier(8)


def test_a_library_is_built_once(copier: Callable[..., Path], cached: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert capsys.readouterr().out == "built\n"
    assert copier(8) == cached
    assert capsys.readouterr().out == ""
    assert sorted(path.name for path in cached.parent.iterdir()) == ["libaccelerator.so", "libaccelerator.so.json"]
    assert [stat.S_IMODE(place.stat().st_mode) for place in cached.parents[1:3]] == [0o700, 0o700]


def truncate(library: Path) -> None:
    os.truncate(library, library.stat().st_size // 2)


def flip(library: Path) -> None:
    data = bytearray(library.read_bytes())
    data[len(data) // 2] ^= 1
    library.write_bytes(data)


def lose_note(library: Path) -> None:
    library.with_name("libaccelerator.so.json").unlink()


def damage_note(library: Path) -> None:
    library.with_name("libaccelerator.so.json").write_text('{"size_bytes": ')


def make_folder(library: Path) -> None:
    library.unlink()
    library.mkdir()


@pytest.mark.parametrize("damage", [truncate, flip, lose_note, damage_note, make_folder, Path.unlink])
def test_damaged_files_are_built_again(copier: Callable[..., Path], cached: Path, capsys: pytest.CaptureFixture[str],
                                       damage: Callable[[Path], None]) -> None:
    capsys.readouterr()
    damage(cached)
    assert copier(8) == cached
    assert capsys.readouterr().out == "built\n"
    with Bench(cached, Memory(stalls=3)):
        pass


def test_a_truncated_library_does_not_end_the_process(copier: Callable[..., Path], tmp_path: Path) -> None:
    """A real build in a separate process, because loading half a library raises SIGBUS."""
    library = copier(8)
    place = tmp_path / "tq-hw" / "rtl" / library.parent.name
    shutil.copytree(library.parent, place)
    for runtime in library.parents[1].glob("runtime-*"):  # Verilator's objects, which the build need not compile again
        shutil.copytree(runtime, place.with_name(runtime.name))
    truncate(place / library.name)
    script = ("import sys; sys.path.insert(0, sys.argv[1]); from conftest import COPIER\n"
              "from tq_hw.sim.rtl import build, bench\n"
              "made = build.build_verilog(lambda: COPIER, 8, f'copier-{build._key(COPIER)}')\n"
              "bench.Bench(made).close(); print(made)")
    done = subprocess.run([sys.executable, "-c", script, str(Path(__file__).parents[1])], capture_output=True,
                          text=True, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)}, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{place / library.name}\n", "")


def test_a_relative_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "some/where")
    assert cache.cache_dir("rtl") == tmp_path / ".cache" / "tq-hw" / "rtl"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache.cache_dir("rtl") == tmp_path / ".cache" / "tq-hw" / "rtl"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    assert cache.cache_dir("rtl") == tmp_path / "c" / "tq-hw" / "rtl"


def test_a_folder_of_another_user_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.geteuid()
    folder = cache.open_cache("rtl")
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(OptionError) as caught:
        cache.open_cache("rtl")
    assert str(caught.value) == (f"the cache folder {folder.parent} belongs to user {me}, not to this one ({me + 1}), "
                                 f"who would run what is there; {HELP}")


def test_a_library_of_another_user_is_refused(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(OptionError) as caught:
        cache.intact(cached)
    assert str(caught.value) == f"{cached} belongs to user {me}, not to this one ({me + 1}), and is not loaded; {HELP}"


def test_a_folder_that_others_can_read_is_made_private(home: Path) -> None:
    (home / "tq-hw" / "rtl").mkdir(parents=True, mode=0o777)
    (home / "tq-hw").chmod(0o755)
    folder = cache.open_cache("rtl")
    assert [stat.S_IMODE(place.stat().st_mode) for place in (folder, folder.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("below", ["", "tq-hw", "tq-hw/rtl"])
def test_a_cache_that_is_a_file(home: Path, below: str) -> None:
    place = home / below
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("")
    with pytest.raises(OptionError) as caught:
        build.build_verilog(lambda: "", 8, "never")
    assert str(caught.value) == f"the cache folder {home}/tq-hw/rtl cannot be used: it is not a folder; {HELP}"


def test_a_home_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even root can create anything in /proc."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/proc/none")
    with pytest.raises(OptionError) as caught:
        cache.open_cache("rtl")
    assert str(caught.value) == ("the cache folder /proc/none/.cache/tq-hw/rtl cannot be used: No such file or "
                                 f"directory; {HELP}")


@pytest.mark.parametrize(("code", "why"), [(errno.EROFS, "Read-only file system"), (errno.ENOSPC,
                                                                                    "No space left on device")])
def test_a_cache_that_cannot_be_written(home: Path, monkeypatch: pytest.MonkeyPatch, code: int, why: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    folder = cache.open_cache("rtl")
    monkeypatch.setattr(build.tempfile, "mkdtemp", fail)
    with pytest.raises(OptionError) as caught:
        build.build_verilog(lambda: "", 8, "never")
    assert str(caught.value) == f"the cache folder {folder} cannot be used: {why}; {HELP}"


def test_a_read_only_cache_with_the_library_suffices(copier: Callable[..., Path], cached: Path,
                                                     monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    capsys.readouterr()
    cached.parents[1].chmod(0o755)
    for name in ("chmod", "write_text", "rename", "replace"):
        monkeypatch.setattr(Path, name, fail)
    assert copier(8) == cached
    assert capsys.readouterr().out == ""
    # Files that others may change meanwhile are not loaded.
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cached.parents[3]))
    cached.parents[1].chmod(0o775)
    monkeypatch.setattr(Path, "chmod", fail)
    with pytest.raises(OptionError, match=r"^the cache folder .* cannot be used: Read-only file system; "):
        copier(8)


def test_a_build_waits_for_another_process_with_the_same_build(home: Path) -> None:
    lock = cache.open_cache("rtl") / "a.lock"
    other = FileLock(lock)
    other.acquire()
    said = []

    def waiting() -> None:
        said.append("waiting")
        other.release()

    with cache.locked(lock, waiting):
        assert said == ["waiting"]
    with cache.locked(lock, waiting):
        assert said == ["waiting"]


def test_a_file_system_without_locks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise NotImplementedError("no flock")

    monkeypatch.setattr(FileLock, "acquire", fail)
    lock = cache.open_cache("rtl") / "a.lock"
    with pytest.raises(OptionError) as caught, cache.locked(lock, lambda: None):
        raise AssertionError("not reached")
    assert str(caught.value) == f"the cache folder {lock.parent} is on a file system without locks; {HELP}"


@pytest.mark.parametrize("text", ["", "0123", "0123456789abcdeg", "\xff\xfe"])
def test_a_damaged_record_is_ignored(tmp_path: Path, text: str) -> None:
    note = tmp_path / "x.verilog"
    note.write_bytes(text.encode("latin-1"))
    assert build._read_note(note) == ""
    note.write_text("0123456789abcdef")
    assert build._read_note(note) == "0123456789abcdef"
    assert build._read_note(tmp_path / "none") == ""


def test_a_library_that_the_system_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"no library")
    with pytest.raises(ToolError, match=r"^the simulator cannot be loaded: .*; set XDG_CACHE_HOME to a folder on a "
                                        r"file system that programs may run from$"):
        Bench(tmp_path / "x.so")
