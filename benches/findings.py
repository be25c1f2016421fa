"""The loop of a fuzzer: inputs by number, time and memory of each limited, and a file of every new kind of finding."""

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

#: Longest text of a finding, inputs between two lines of progress.
_TEXT, _EVERY = 300, 5000


class _TooSlowError(BaseException):
    """Nothing between here and the interpreter catches it."""


def _raise_too_slow(number: int, frame: FrameType | None) -> None:
    raise _TooSlowError


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """Raise AssertionError when what is inside takes more CPU time than `seconds`."""
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
    """Give the process so much memory above what it uses now; it has its own limit again afterwards."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra_bytes, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@contextmanager
def unclean() -> Iterator[None]:
    """Make an AssertionError, a finding, of every exception that is none."""
    try:
        yield
    except MemoryError:
        raise AssertionError("too much memory") from None
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(place_of(error)) from error


def place_of(error: BaseException) -> str:
    """Say what was raised where."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(place.filename).name}:{place.name}: {error}"


def hunt(first: int, count: int, make: Callable[[Rng], bytes], check: Callable[[bytes, Rng], str], keep: Path,
         suffix: str) -> int:
    """Check `count` inputs, the first of them number `first`, and print what came out; return how many are findings.

    `make` makes an input of random numbers that its number seeds, `check` says how it ended or raises AssertionError;
    the first input of each text is kept as a file in `keep`.
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
