"""Progress: a bar for work of more than two seconds, on a terminal only, and a meter for many tasks."""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = ["Meter", "ProgressBar"]

DELAY_SECONDS = 2.0
#: Seconds between two lines of a meter without a terminal.
LINE_SECONDS = 10.0


class ProgressBar:
    """A progress bar as a context manager. `update` moves it; it pulses while the total is unknown.

    It appears on stderr after `DELAY_SECONDS`, and only on a terminal.
    """

    def __init__(self, text: str):
        self._console = Console(stderr=True)
        self._progress = Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
                                  console=self._console, transient=True)
        self._task = self._progress.add_task(text, total=None)
        self._timer = threading.Timer(DELAY_SECONDS, self._start)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._done = not sys.stderr.isatty()
        self._shown = False

    def _start(self) -> None:
        with self._lock:
            if not self._done:
                self._progress.start()
                self._shown = True

    def update(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Show `done` of `total`; None pulses."""
        self._progress.update(self._task, completed=done, total=total)
        if text is not None:
            self._progress.update(self._task, description=text)

    def say(self, line: str) -> None:
        """Print a permanent line, on a terminal and in a pipe."""
        self._console.print(f"tq-hw: {line}", markup=False, highlight=False, soft_wrap=True)

    def building(self, prefix: str = "") -> Callable[[str, float], None]:
        """Return the progress function of a simulator build: its first words stay, the other calls move the bar."""
        said = False

        def told(what: str, done: float) -> None:
            nonlocal said
            if not said:
                self.say(what)
            said = True
            self.update(done, 1.0, f"{prefix}{what}")

        return told

    def stages(self, prefix: str) -> Callable[[str, float], None]:
        """Return the progress function of work in several stages; without a terminal each stage is a line.

        The text of a stage after a comma changes while it runs.
        """
        said = ""

        def told(what: str, done: float) -> None:
            nonlocal said
            stage = what.partition(", ")[0]
            if stage != said and not sys.stderr.isatty():
                self.say(f"{prefix}{stage}")
            said = stage
            self.update(done, 1.0, f"{prefix}{what}")

        return told

    def __enter__(self) -> "ProgressBar":
        if not self._done:
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            self._done = True
            # A bar that was never shown must not leave an empty line.
            if self._shown:
                self._progress.stop()


class Meter:
    """Progress of many tasks, with rate and remaining time: a bar on a terminal, else occasional lines."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._progress: Progress | None = None
        if sys.stderr.isatty():
            self._progress = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                                      TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), console=self._console,
                                      transient=True)
        self._what = ""
        self._start = self._said = time.monotonic()
        self._first = 0
        self._task: TaskID | None = None

    def seen(self, done: int, total: int, what: str) -> None:
        """Show that `done` of `total` tasks are done.

        The rate is that of the tasks after the first one reported, because the start of that one is unknown.
        """
        now = time.monotonic()
        if what != self._what or done == 1:
            self._what, self._start, self._said, self._first = what, now, now, done
            if self._progress is not None:
                self._progress.start()
                if self._task is not None:
                    self._progress.remove_task(self._task)
                self._task = self._progress.add_task(what, total=total, rate="")
        since, seconds = done - self._first, now - self._start
        rate = since / seconds if seconds > 0 else 0.0
        if self._progress is not None and self._task is not None:
            said = f"{rate:.1f} per second" if seconds >= DELAY_SECONDS else ""
            self._progress.update(self._task, completed=done, rate=said)
        elif now - self._said >= LINE_SECONDS:
            self._said = now
            left = f", {rate:.1f} per second, {(total - done) / rate:,.0f} s left" if rate else ""
            print(f"{done:,} of {total:,} {what}{left}", file=sys.stderr, flush=True)

    def __enter__(self) -> "Meter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()
