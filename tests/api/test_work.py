"""Tasks in processes: results are stored, stored results are reused, and a process that dies loses only its tasks."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tq_hw.cli.explore.tasks import estimate_task
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import OptionError
from tq_hw.store import Store
from tq_hw.work import Task, run_tasks

DIGITS = (Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite").read_bytes()
SIZES = (4096, 8192, 16384, 32768)


def tasks() -> list[Task]:
    return [estimate_task(DIGITS, Config("x", 4, 4, 2, 4 * size), Memory()) for size in SIZES]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "deep" / "results.sqlite")


def test_processes_find_what_one_finds(store: Store, tmp_path: Path) -> None:
    alone, told = Store(tmp_path / "other.sqlite"), []
    expected = run_tasks(tasks(), alone, jobs=1)
    found = run_tasks(tasks(), store, jobs=2, seen=lambda key, value: told.append(key))
    assert found == expected
    assert sorted(told) == sorted(expected)
    assert len({value["cycles"] for value in expected.values()}) > 1


def test_what_was_kept_is_not_done_again(store: Store, tmp_path: Path) -> None:
    first, *others = tasks()
    store.keep(first.key, {"cycles": -1})
    store.keep(first.key, {"cycles": -2})
    found = run_tasks([first, first, *others[:1]], store, jobs=1)
    assert found[first.key] == {"cycles": -1}
    assert found[others[0].key]["cycles"] > 0
    # A concurrent run has the same file open.
    second = Store(tmp_path / "deep" / "results.sqlite")
    assert second.find(others[0].key) == found[others[0].key]
    assert second.find(others[1].key) is None


def test_a_key_says_all_that_a_result_depends_on() -> None:
    config, memory = load_config("tiny"), Memory()
    first = estimate_task(DIGITS, config, memory)
    assert estimate_task(bytes(DIGITS), config, Memory(30, 8)).key == first.key
    renamed = Config(**{**{key: getattr(config, key) for key in Config.__dataclass_fields__}, "name": "other"})
    assert estimate_task(DIGITS, renamed, memory).key == first.key
    others = [estimate_task(DIGITS + b"\0", config, memory), estimate_task(DIGITS, load_config("n8"), memory),
              estimate_task(DIGITS, config, Memory(31))]
    assert len({first.key, *(task.key for task in others)}) == 4


#: Two tasks with a program that runs for an hour in a group of its own, as `run_tool` starts it.
LONG = """
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tq_hw.boards.build import tools
from tq_hw.boards.build.tools import run_tool
from tq_hw.work import run_tasks, task_of


def long(blob, arguments):
    tools.find_tool = lambda name: [sys.executable, "-c"]
    with TemporaryDirectory(dir="made") as folder:
        run_tool("vivado", ["import pathlib, time; pathlib.Path('runs').touch(); time.sleep(3600)"], Path(folder))


if __name__ == "__main__":
    try:
        run_tasks([task_of(long, b"", {"number": number}) for number in range(2)], None, jobs=2)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def _heed() -> None:
    """Shells start background jobs with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("to_all", [False, True], ids=["alone", "group"])
def test_a_signal_ends_tasks_with_their_programs_and_files(tmp_path: Path, to_all: bool) -> None:
    (tmp_path / "long.py").write_text(LONG, encoding="utf-8")
    (tmp_path / "made").mkdir()
    process = subprocess.Popen([sys.executable, "long.py"], cwd=tmp_path, stderr=subprocess.PIPE, preexec_fn=_heed,
                               start_new_session=True, env={**os.environ, "PYTHONPATH": "."})
    while len(list(tmp_path.glob("made/*/runs"))) < 2 and process.poll() is None:
        time.sleep(0.05)
    (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said, os.listdir(tmp_path / "made")) == (130, b"", [])


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, but long enough to look at" * 9, encoding="utf-8")
    for path in (tmp_path / "text", tmp_path):
        with pytest.raises(OptionError, match="cannot keep results there: .*; choose another --store"):
            Store(path)


def test_a_store_is_a_table_that_others_can_read(store: Store, tmp_path: Path) -> None:
    store.keep("a", {"b": 1})
    base = sqlite3.connect(tmp_path / "deep" / "results.sqlite")
    assert base.execute("SELECT * FROM results").fetchall() == [("a", '{"b": 1}')]
    base.close()


def test_a_scheduler_that_is_not_there_is_named(store: Store) -> None:
    with pytest.raises(OptionError, match="--scheduler nonsense://x: no Dask scheduler answers there"):
        run_tasks(tasks(), store, scheduler="nonsense://x")
