"""Tasks on a Dask cluster of this computer: the same results, also when a worker is killed."""

import os
import signal
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

DIGITS = (Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite").read_bytes()
pytestmark = pytest.mark.slow
#: Dask takes None, which its signature does not say.
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
    # All is kept: nothing is asked of the cluster again.
    assert run_tasks(tasks(), store, jobs=1) == expected


def test_workers_of_another_version_are_refused(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tq_hw.work.version", lambda _: "99")
    message = "this is tq-hw 99 .*, but worker tcp://.* has 0.1.0 .*; .* or stop these workers"
    with pytest.raises(OptionError, match=message):
        run_tasks(tasks(), Store(tmp_path / "s.sqlite"), scheduler=cluster.scheduler_address)
