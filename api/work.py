"""Many tasks on this computer's processes or on a Dask cluster, with results that may be stored in a SQLite file.

A task is a function that workers can import, bytes that many tasks share (a model), and JSON arguments; its result is
JSON. Its key covers everything that the result depends on, including the sources of tq-hw. So a killed run can be
continued, and two runs may use one store at once.
"""

import hashlib
import json
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tq_hw.model.errors import MissingToolError, OptionError, ToolError
from tq_hw.store import Store

__all__ = ["Function", "Task", "check_scheduler", "run_tasks", "task_of"]

Function = Callable[[bytes, Mapping[str, Any]], Any]
#: Tasks submitted per worker: the one in progress and the next.
_AHEAD = 2
#: Worker deaths after which a run gives up; seconds within which a scheduler must answer.
_DEATHS, _CONNECT_SECONDS = 3, 15
#: Signals that end the program, and the exit code of a process that they end during a task.
_ENDS, _INTERRUPTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP), 130
#: Packages whose sources results depend on.
_PACKAGES = ("isa", "model", "compiler", "hdl", "sim", "boards", "cli")


@dataclass(frozen=True)
class Task:
    """One call: a function of bytes and JSON arguments, and the key that its result is kept under."""

    key: str
    function: Function
    blob: bytes = field(repr=False)
    arguments: Mapping[str, Any]


@cache
def _sources() -> str:
    """Return a hash of the sources: in an editable install they change without the version."""
    folders = [Path(folder) for name in _PACKAGES if (spec := find_spec(f"tq_hw.{name}")) is not None
               for folder in spec.submodule_search_locations or ()]
    files = [path for folder in folders for kind in ("*.py", "*.json") for path in sorted(folder.rglob(kind))]
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()[:12]


def _version_here() -> str:
    return f"{version('tq-hw')} ({_sources()})"


def task_of(function: Function, blob: bytes, arguments: Mapping[str, Any]) -> Task:
    """Return a task. Its key depends on tq-hw, the function and all arguments."""
    words = (_version_here(), function.__module__, function.__qualname__, hashlib.sha256(blob).hexdigest(), arguments)
    return Task(hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest(), function, blob, arguments)


def run_tasks(tasks: Iterable[Task], store: Store | None, *, jobs: int | None = None, scheduler: str | None = None,
              seen: Callable[[str, Any], object] = lambda _key, _value: None) -> dict[str, Any]:
    """Return the results of all tasks by key. Each result goes to the store, if there is one, as soon as it arrives.

    `jobs` local processes do the work (None: one per processor), or the workers of the Dask cluster at `scheduler`, for
    example tcp://host:8786. `seen` is called with each result; if it returns True, the remaining tasks are dropped. An
    exception in a task ends the run.
    """
    found: dict[str, Any] = {}

    def note(key: str, value: Any) -> bool:
        found[key] = value
        return seen(key, value) is True

    def is_left(task: Task) -> bool:
        """Whether the store has no result of the task yet; a result that it has is reported."""
        value = None if store is None else store.find(task.key)
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
        if store is not None:
            store.keep(key, value)
        if note(key, value):
            break
    return found


#: The shared bytes by hash. Each process receives them once.
_blobs: dict[str, bytes] = {}


def _give(blobs: Mapping[str, bytes]) -> None:
    for number in _heeded():
        signal.signal(number, signal.SIG_DFL)  # ends the process without a traceback
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
    _blobs.update(blobs)


def _heeded() -> list[signal.Signals]:
    """Return the signals that end this process: nohup ignores SIGHUP, and a shell's background jobs SIGINT."""
    return [number for number in _ENDS if signal.getsignal(number) is not signal.SIG_IGN]


def _end(number: int, frame: object) -> None:
    """End the task at the first signal: its tools are ended and its files removed, undisturbed by a second signal."""
    for other in _ENDS:
        signal.signal(other, lambda _number, _frame: None)  # Python complains of SIG_IGN if one has just arrived
    raise KeyboardInterrupt


def _call(function: Function, blob: str, arguments: Mapping[str, Any]) -> Any:
    heeded = _heeded()
    for number in heeded:
        signal.signal(number, _end)
    try:
        return function(_blobs[blob], arguments)
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)
    finally:
        for number in heeded:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Hold signals back: a process that starts meanwhile gets them once it can end in order, and so does this one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _named(tasks: Sequence[Task]) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the distinct bytes of tasks by hash, and the hash for each task's key."""
    names = {blob: hashlib.sha256(blob).hexdigest() for blob in {task.blob for task in tasks}}
    return {name: blob for blob, name in names.items()}, {task.key: names[task.blob] for task in tasks}


def _on_processes(tasks: Sequence[Task], is_left: Callable[[Task], bool], jobs: int) -> Iterator[tuple[str, Any]]:
    """Yield results as they complete. If a process dies, the unfinished tasks are submitted again."""
    (blobs, blob_of), waiting, deaths = _named(tasks), deque(tasks), 0
    while waiting:
        running: dict[Future[Any], Task] = {}
        others = set(multiprocessing.active_children())
        # It starts a process of Python's that has to outlive this one.
        with _signals_wait():
            pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _give, (blobs,))
        try:
            while waiting or running:
                while waiting and len(running) < _AHEAD * jobs:
                    if is_left(task := waiting.popleft()):
                        with _signals_wait():
                            future = pool.submit(_call, task.function, blob_of[task.key], task.arguments)
                        running[future] = task
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    value = future.result()
                    yield running.pop(future).key, value
        except BrokenProcessPool:
            deaths += 1
            if deaths > _DEATHS:
                raise ToolError(f"{deaths} processes died, perhaps out of memory; try fewer --jobs") from None
            waiting.extendleft(running.values())
        finally:
            if running:
                # After an interrupt, for example: the others of its tasks would run on for minutes.
                for process in set(multiprocessing.active_children()) - others:
                    process.terminate()
            pool.shutdown(cancel_futures=True)


def _on_worker(blob: bytes, function: Function, arguments: Mapping[str, Any], wanted: str) -> Any:
    if _version_here() != wanted:  # a worker that joined after the check in _connected
        raise OptionError(_refusal(wanted, [f"{import_module('distributed').get_worker().address} has "
                                            f"{_version_here()}"]))
    return function(blob, arguments)


def _refusal(wanted: str, wrong: Sequence[str]) -> str:
    return (f"this is tq-hw {wanted}, but worker {'; '.join(wrong)}; install the same version there, or stop these "
            "workers")


@contextmanager
def _connected(scheduler: str) -> Iterator[tuple[Any, Any]]:
    """Yield the package distributed and a client whose workers all have this version."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingToolError('distributed is not installed: pip install "tq-hw[cluster]"') from None
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise OptionError(f"--scheduler {scheduler}: no Dask scheduler answers there: {error}") from error
    here = _version_here()
    with client:
        wrong = [f"{name} has {found}" for name, found in client.run(_version_here, on_error="return").items()
                 if found != here]
        if wrong:
            raise OptionError(f"--scheduler {scheduler}: {_refusal(here, wrong)}")
        yield distributed, client


def check_scheduler(scheduler: str) -> None:
    """Check before long work that the cluster answers and has this version; raises the errors of `run_tasks`."""
    with _connected(scheduler):
        pass


def _on_cluster(tasks: Sequence[Task], is_left: Callable[[Task], bool], scheduler: str) -> Iterator[tuple[str, Any]]:
    """Yield results as they complete. Dask itself moves the tasks of a worker that dies to others."""
    here = _version_here()
    with _connected(scheduler) as (distributed, client):
        blobs, blob_of = _named(tasks)
        # Submitted as tasks: Dask recomputes them if a worker dies, but scattered data would be lost.
        shared = {name: client.submit(bytes, blob, key=f"tq-hw-{name}") for name, blob in blobs.items()}
        waiting = deque(tasks)

        def submit() -> Any:
            while waiting:
                if is_left(task := waiting.popleft()):
                    return client.submit(_on_worker, shared[blob_of[task.key]], task.function, task.arguments, here,
                                         key=f"tq-hw-{task.key}")
            return None

        slots = _AHEAD * max(1, sum(client.nthreads().values()))
        running = distributed.as_completed(list(filter(None, (submit() for _ in range(slots)))))
        try:
            for future in running:
                value = future.result()
                future.release()  # otherwise Dask recomputes a result already received when its worker dies
                yield future.key.removeprefix("tq-hw-"), value
                after = submit()
                if after is not None:
                    running.add(after)
        except (distributed.KilledWorker, distributed.CancelledError, distributed.comm.CommClosedError) as error:
            raise ToolError(f"--scheduler {scheduler}: lost: {error}; run it again to continue from the results "
                            "kept") from error
