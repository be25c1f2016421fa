"""The loop of a fuzzer: numbered inputs, each with limits of time and memory, and a file for each kind of finding."""

import gc
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np

__all__ = ["Rng", "hunt", "limited_memory", "place_of", "unclean", "watched"]

Rng = np.random.Generator

#: Limit of a finding's text, and the number of inputs between two lines of progress.
_TEXT, _EVERY = 300, 5000


class _TooSlowError(BaseException):
    """The time limit is exceeded. Not an AssertionError, so that the code under test does not catch it."""


def _raise_too_slow(number: int, frame: FrameType | None) -> None:
    raise _TooSlowError


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """Raise AssertionError if the body takes more than `seconds` of CPU time."""
    signal.signal(signal.SIGVTALRM, _raise_too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    except _TooSlowError:
        raise AssertionError(f"more than {seconds:g} s of CPU time") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@contextmanager
def limited_memory(extra_bytes: int) -> Iterator[None]:
    """Limit the process's memory to its present use plus `extra_bytes`; restore its limit afterwards."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra_bytes, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@contextmanager
def unclean() -> Iterator[None]:
    """Turn every exception that is not an AssertionError into one, so that it is a finding."""
    try:
        yield
    except MemoryError:
        raise AssertionError("too much memory") from None
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(place_of(error)) from error


def place_of(error: BaseException) -> str:
    """Return which exception was raised, and where."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(place.filename).name}:{place.name}: {error}"


def hunt(first: int, count: int, make: Callable[[Rng], bytes], check: Callable[[bytes, Rng], str], keep: Path,
         suffix: str) -> int:
    """Check `count` inputs from number `first` on, and print a summary; return the number of findings.

    `make` makes an input from a generator seeded with its number. `check` returns how it ended, or raises
    AssertionError for a finding. The first input of each finding's text is written to a file in `keep`.
    """
    verdicts: Counter[str] = Counter()
    findings: Counter[str] = Counter()
    slowest, start = 0.0, time.monotonic()
    for number in range(first, first + count):
        rng = np.random.default_rng(number)
        data = make(rng)
        began = time.process_time()
        try:
            verdicts[check(data, rng)] += 1
        except AssertionError as found:
            text = str(found)[:_TEXT]
            if text not in findings:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{number}{suffix}").write_bytes(data)
                print(f"input {number}: {text}", flush=True)
            findings[text] += 1
            gc.collect()
        slowest = max(slowest, time.process_time() - began)
        if (number + 1) % _EVERY == 0:
            print(f"{number + 1}: {dict(verdicts)}, {findings.total()} findings, slowest {slowest:.2f} s, "
                  f"{time.monotonic() - start:.0f} s", flush=True)
    print(f"{count} inputs: {dict(sorted(verdicts.items()))}, slowest {slowest:.2f} s of CPU time, "
          f"{count / (time.monotonic() - start):.0f} a second, {findings.total()} findings")
    for text, times in findings.most_common():
        print(f"{times:7} {text}")
    return findings.total()
