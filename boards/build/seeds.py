"""Place and route with several seeds at once, one process per seed: timing is partly luck."""

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from tq_hw.boards.build.figures import Timing, nextpnr_timing, read_json
from tq_hw.boards.build.overfull import watch_room
from tq_hw.boards.build.tools import run_tool

__all__ = ["REPORT", "Placed", "place_and_route", "reached_of"]

#: Options of nextpnr that precede names of output files.
_WRITES = ("--report", "--log", "--textcfg", "--asc", "--write")
#: Other seeds may take this multiple of the time of the first that finishes: some placements take hours to route.
_PATIENCE = 1.5
#: Where nextpnr writes its timing report.
REPORT = "timing.json"


@dataclass(frozen=True)
class Placed:
    """The seed whose files were kept.

    Members
    -------
    seed, timings : the seed, and its timing by clock
    reached : for each seed that finished, the lowest ratio of a clock's rate to its target
    seconds : from the first process's start to the last one's end
    """

    seed: int
    timings: Mapping[str, Timing]
    reached: Mapping[int, float]
    seconds: float


class _StoppedError(Exception):
    """Another seed was good enough, or the whole build was cancelled."""


def place_and_route(name: str, arguments: Sequence[str], folder: Path, seeds: Sequence[int],
                    progress: Callable[[float], None] = lambda _: None) -> Placed:
    """Run nextpnr once per seed, all at the same time; keep the files of the best, in `folder`.

    A seed with which every clock reaches its target ends the others. The first one that finishes without doing so
    leaves them half of its time more. `arguments` have a `--seed`, and a `--report` to timing.json; `progress` receives
    the elapsed seconds. ToolError when a process fails, or reports that the device is too small.
    """
    start = time.monotonic()
    stop = threading.Event()

    def attempt(seed: int) -> Mapping[str, Timing] | None:
        place = f"seed_{seed}"
        (folder / place).mkdir()

        words = _with_seed(arguments, seed, place)
        look = watch_room(name, words, folder)

        def tell(seconds: float) -> None:
            if stop.is_set():
                raise _StoppedError
            look(seconds)

        try:
            run_tool(name, words, folder, tell, said=f"{place}/said")
        except _StoppedError:
            return None
        return nextpnr_timing(read_json(folder / place / REPORT))

    timings: dict[int, Mapping[str, Timing]] = {}
    first = 0.0
    with ThreadPoolExecutor(len(seeds)) as pool:
        try:
            running: dict[Future[Mapping[str, Timing] | None], int] = {pool.submit(attempt, s): s for s in seeds}
            while running:
                for future in wait(running, 0.25, FIRST_COMPLETED).done:
                    seed, found = running.pop(future), future.result()
                    if found is not None:
                        timings[seed] = found
                        if reached_of(found) >= 1:
                            stop.set()
                taken = time.monotonic() - start
                first = first or (taken if timings else 0.0)
                if first and taken > _PATIENCE * first:
                    stop.set()
                progress(taken)
        finally:
            stop.set()
    reached = {seed: reached_of(timings[seed]) for seed in sorted(timings)}
    best = max(reached, key=lambda seed: reached[seed])
    for path in (folder / f"seed_{best}").iterdir():
        path.replace(folder / path.name)
    for seed in seeds:
        shutil.rmtree(folder / f"seed_{seed}")
    return Placed(best, timings[best], reached, time.monotonic() - start)


def reached_of(timings: Mapping[str, Timing]) -> float:
    """Return the lowest ratio of a clock's rate to its target."""
    return min((timing.fmax_mhz / timing.target_mhz for timing in timings.values()), default=0.0)


def _with_seed(arguments: Sequence[str], seed: int, place: str) -> list[str]:
    """Return the arguments with another seed, and all output files in a folder of their own."""
    before = ["", *arguments]
    return [str(seed) if option == "--seed" else f"{place}/{word}" if option in _WRITES else word
            for option, word in zip(before, arguments, strict=False)]
