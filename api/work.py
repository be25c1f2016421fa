"""Many tasks on this computer's processes or on a Dask cluster, with results that are kept in a SQLite file.

A task is a function of this package, bytes that many tasks share (a model), and JSON arguments; its result is JSON.
Its key says all that the result depends on: a run that was killed goes on, and two runs may use one store at once.
"""

import hashlib
import json
import multiprocessing
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import platformdirs

from tq_hw.model.errors import MissingToolError, OptionError, ToolError

__all__ = ["Function", "Store", "Task", "default_store", "run_tasks", "task_of"]

Function = Callable[[bytes, Mapping[str, Any]], Any]
#: Tasks that a worker has at once: the one that it works on, and the next.
_AHEAD = 2
#: Workers that may die before a run gives up; seconds that a scheduler has to answer.
_DEATHS, _CONNECT_SECONDS = 3, 15


@dataclass(frozen=True)
class Task:
    """One call: a function of bytes and JSON arguments, and the key that its result is kept under."""

    key: str
    function: Function
    blob: bytes = field(repr=False)
    arguments: Mapping[str, Any]


def _version_here() -> str:
    return version("tq-hw")


def task_of(function: Function, blob: bytes, arguments: Mapping[str, Any]) -> Task:
    """Return a task with the key that follows from the version of tq-hw, the function and all that it is given."""
    words = (_version_here(), function.__module__, function.__qualname__, hashlib.sha256(blob).hexdigest(), arguments)
    return Task(hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest(), function, blob, arguments)


def default_store() -> Path:
    """Return the store in the user's folder for data."""
    return Path(platformdirs.user_data_dir("tq-hw")) / "results.sqlite"


class Store:
    """Results by key in a SQLite file; several processes may use it at once. OptionError for another kind of file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(path, timeout=60, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise OptionError(f"{path}: cannot keep results there: {error}; choose another --store") from error
        self._ask("CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT NOT NULL)")

    def _ask(self, words: str, *values: str) -> Any:
        try:
            return self._base.execute(words, values).fetchone()
        except sqlite3.Error as error:
            raise OptionError(f"{self._path}: cannot keep results there: {error}; choose another --store") from error

    def find(self, key: str) -> Any:
        """Return a result, or None where there is none."""
        row = self._ask("SELECT value FROM results WHERE key = ?", key)
        return None if row is None else json.loads(row[0])

    def keep(self, key: str, value: Any) -> None:
        """Keep a result; the one that was there first stays."""
        self._ask("INSERT OR IGNORE INTO results VALUES (?, ?)", key, json.dumps(value))

    def close(self) -> None:
        """Close the file."""
        self._base.close()


def run_tasks(tasks: Iterable[Task], store: Store, *, jobs: int | None = None, scheduler: str | None = None,
              seen: Callable[[str, Any], None] = lambda _key, _value: None) -> dict[str, Any]:
    """Return the results of all tasks by key; each is kept as soon as it is there.

    `jobs` processes work here (None: one per processor), or the workers of the Dask cluster at `scheduler`, such as
    tcp://host:8786. `seen` is told each result. What a task raises ends the run.
    """
    found: dict[str, Any] = {}

    def note(key: str, value: Any) -> None:
        found[key] = value
        seen(key, value)

    def is_left(task: Task) -> bool:
        """Whether nobody has kept a result, by now; one that was kept is noted."""
        value = store.find(task.key)
        if value is not None:
            note(task.key, value)
        return value is None

    left = [task for task in {task.key: task for task in tasks}.values() if is_left(task)]
    if scheduler is not None:
        made = _on_cluster(left, is_left, scheduler)
    elif jobs == 1 or len(left) <= 1:
        made = ((task.key, task.function(task.blob, task.arguments)) for task in left if is_left(task))
    else:
        made = _on_processes(left, is_left, jobs or os.cpu_count() or 1)
    for key, value in made:
        store.keep(key, value)
        note(key, value)
    return found


#: The shared bytes by their hashes, which each process is given once.
_blobs: dict[str, bytes] = {}


def _give(blobs: Mapping[str, bytes]) -> None:
    _blobs.update(blobs)


def _call(function: Function, blob: str, arguments: Mapping[str, Any]) -> Any:
    return function(_blobs[blob], arguments)


def _named(tasks: Sequence[Task]) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the different bytes of tasks by their hashes, and the hash by each task's key."""
    names = {blob: hashlib.sha256(blob).hexdigest() for blob in {task.blob for task in tasks}}
    return {name: blob for blob, name in names.items()}, {task.key: names[task.blob] for task in tasks}


def _on_processes(tasks: Sequence[Task], is_left: Callable[[Task], bool], jobs: int) -> Iterator[tuple[str, Any]]:
    """Give results as they come; a process that dies costs what it had under way, which is tried again."""
    (blobs, blob_of), waiting, deaths = _named(tasks), deque(tasks), 0
    while waiting:
        running: dict[Future[Any], Task] = {}
        pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _give, (blobs,))
        try:
            while waiting or running:
                while waiting and len(running) < _AHEAD * jobs:
                    if is_left(task := waiting.popleft()):
                        running[pool.submit(_call, task.function, blob_of[task.key], task.arguments)] = task
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    value = future.result()
                    yield running.pop(future).key, value
        except BrokenProcessPool:
            deaths += 1
            if deaths > _DEATHS:
                raise ToolError(f"{deaths} processes died, for want of memory perhaps; try fewer --jobs") from None
            waiting.extendleft(running.values())
        finally:
            pool.shutdown(cancel_futures=True)


def _on_cluster(tasks: Sequence[Task], is_left: Callable[[Task], bool], scheduler: str) -> Iterator[tuple[str, Any]]:
    """Give results as they come; Dask itself gives the tasks of a worker that dies to others."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingToolError('distributed is not installed: pip install "tq-hw[cluster]"') from None
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise OptionError(f"--scheduler {scheduler}: no Dask scheduler answers there: {error}") from error
    with client:
        wrong = [f"{name} has {found}" for name, found in client.run(_version_here, on_error="return").items()
                 if found != _version_here()]
        if wrong:
            raise OptionError(f"--scheduler {scheduler}: this is tq-hw {_version_here()}, but worker "
                              f"{'; '.join(wrong)}; install the same version there, or stop these workers")
        blobs, blob_of = _named(tasks)
        # Tasks, because what is scattered dies with the worker that has it.
        shared = {name: client.submit(bytes, blob, key=f"tq-hw-{name}") for name, blob in blobs.items()}
        waiting = deque(tasks)

        def submit() -> Any:
            while waiting:
                if is_left(task := waiting.popleft()):
                    return client.submit(task.function, shared[blob_of[task.key]], task.arguments,
                                         key=f"tq-hw-{task.key}", retries=_DEATHS)
            return None

        slots = _AHEAD * max(1, sum(client.nthreads().values()))
        running = distributed.as_completed(list(filter(None, (submit() for _ in range(slots)))))
        for future in running:
            yield future.key.removeprefix("tq-hw-"), future.result()
            after = submit()
            if after is not None:
                running.add(after)
