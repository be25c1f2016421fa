"""Tasks on a local Dask cluster: the same results, even if a worker is killed."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distributed
import pytest

from tq_hw.cli.explore.tasks import estimate_task
from tq_hw.isa.config import Config
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import OptionError
from tq_hw.store import Store
from tq_hw.work import Task, run_tasks

MODEL = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
DIGITS = MODEL.read_bytes()
SPACE = """\
preset = "tiny"
[space]
rows = [4, 5, 6, 7, 8, 9]
cols = 4
requantize_lanes = [1, 2, 4]
scratchpad_bytes = [8192, 16384]
acc_words = [16, 32]
"""
pytestmark = pytest.mark.slow
#: Dask accepts None, which its type signature omits.
NO_DASHBOARD: dict[str, Any] = {"dashboard_address": None}


def tasks() -> list[Task]:
    return [estimate_task(DIGITS, Config("x", rows, 4, lanes, 16384), Memory())
            for rows in (4, 5, 6, 7, 8, 9) for lanes in (1, 2, 4)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, **NO_DASHBOARD) as found:
        yield found


def test_a_killed_worker_changes_nothing(cluster: Any, tmp_path: Path) -> None:
    expected = run_tasks(tasks(), Store(tmp_path / "alone.sqlite"), jobs=1)
    with distributed.Client(cluster.scheduler_address) as client:
        victim = next(iter(client.run(os.getpid).values()))
    counts: dict[str, int] = {}

    def seen(key: str, value: Any) -> None:
        counts[key] = counts.get(key, 0) + 1
        if len(counts) == 4:
            os.kill(victim, signal.SIGKILL)

    store = Store(tmp_path / "together.sqlite")
    assert run_tasks(tasks(), store, scheduler=cluster.scheduler_address, seen=seen) == expected
    assert set(counts.values()) == {1}
    # Every result is stored, so the cluster gets no task.
    assert run_tasks(tasks(), store, jobs=1) == expected


def test_workers_of_another_version_are_refused(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tq_hw.work.version", lambda _: "99")
    message = "this is tq-hw 99 .*, but worker tcp://.* has 0.1.0 .*; .* or stop these workers"
    with pytest.raises(OptionError, match=message):
        run_tasks(tasks(), Store(tmp_path / "s.sqlite"), scheduler=cluster.scheduler_address)


def explore(store: Path, report: Path, *options: str) -> "subprocess.Popen[str]":
    """Start the command on a space of 72 machines."""
    space = store.parent / "space.toml"
    space.write_text(SPACE, encoding="utf-8")
    return subprocess.Popen([sys.executable, "-m", "tq_hw", "explore", str(MODEL), "--space", str(space), "--store",
                             str(store), "--json", str(report), *options], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def kept(store: Path) -> dict[str, str]:
    """Return the results in a store; empty if it does not exist yet."""
    if not store.exists():
        return {}
    base = sqlite3.connect(store, timeout=60)
    there = base.execute("SELECT name FROM sqlite_master").fetchall()
    found = dict(base.execute("SELECT key, value FROM results").fetchall()) if there else {}
    base.close()
    return found


def worked_out(client: Any) -> list[str]:
    """Return the keys of the tasks that the workers executed, from the scheduler's log."""
    def log(dask_scheduler: Any) -> list[tuple[str, str]]:
        return [(str(key), finish) for key, _start, finish, *_ in dask_scheduler.transition_log]

    return [key for key, finish in client.run_on_scheduler(log) if finish == "memory"]


def test_the_command_with_a_killed_worker_finds_the_same_front(cluster: Any, tmp_path: Path) -> None:
    """A scheduler and three workers; some results are stored before, and one worker is killed during the run."""
    alone, together = tmp_path / "alone.sqlite", tmp_path / "together.sqlite"
    process = explore(alone, tmp_path / "alone.json", "--jobs", "1")
    assert (process.communicate()[1], process.returncode) == ("", 0)
    before = dict(list(kept(alone).items())[:9])
    Store(together).close()
    with sqlite3.connect(together) as base:
        base.executemany("INSERT INTO results VALUES (?, ?)", before.items())
    base.close()
    with distributed.Client(cluster.scheduler_address) as client:
        client.wait_for_workers(3)
        victim = next(iter(client.run(os.getpid).values()))
        process = explore(together, tmp_path / "together.json", "--scheduler", cluster.scheduler_address)
        while len(kept(together)) < 20 and process.poll() is None:
            time.sleep(0.01)
        stored = kept(together)
        assert len(stored) < 72  # in the middle
        os.kill(victim, signal.SIGKILL)
        _out, said = process.communicate()
        assert process.returncode == 0, said
        done = [key.removeprefix("tq-hw-") for key in worked_out(client) if key.startswith("tq-hw-")]
    every = kept(alone)
    assert kept(together) == every
    assert len(every) == 72
    # Results stored before never became tasks, and those stored when the worker died are not computed again.
    assert not set(done) & set(before)
    assert set(done) & set(every) == set(every) - set(before)
    assert not {key for key in done if done.count(key) > 1} & set(stored)
    assert json.loads((tmp_path / "together.json").read_text()) == json.loads((tmp_path / "alone.json").read_text())
