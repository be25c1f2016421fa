"""Run the programs of one build in sequence, in its folder."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tq_hw.boards.build.cluster_seeds import place_on_cluster
from tq_hw.boards.build.folder import FailedStepError
from tq_hw.boards.build.seeds import Placed, place_and_route
from tq_hw.boards.build.toolchains import STEPS
from tq_hw.boards.build.tools import run_tool
from tq_hw.model.errors import OptionError, ToolError

__all__ = ["Progress", "Steps", "results_of"]

#: Called with the current step and the progress of the whole build, 0.0 to 1.0.
Progress = Callable[[str, float], None]

#: Files for programs' standard output.
_OUTPUTS = {"fasm2frames": "top.frames"}


@contextmanager
def _kept_folder() -> Iterator[None]:
    """Raise FailedStepError when a program, or the cluster that was to run it, fails: the folder is worth keeping."""
    try:
        yield
    except (ToolError, OptionError) as error:
        # An OptionError comes from a cluster that answered before synthesis and no longer does.
        raise FailedStepError(str(error)) from error


@contextmanager
def results_of(program: str) -> Iterator[None]:
    """Raise FailedStepError when a program's output file is missing or invalid.

    Some programs report an error on standard output and still exit with code 0.
    """
    try:
        with _kept_folder():
            yield
    except FileNotFoundError as error:
        raise FailedStepError(f"{program} ended without an error and wrote no {Path(error.filename).name}") from error
    except (ValueError, KeyError) as error:
        raise FailedStepError(f"{program} ended without an error, and what it wrote cannot be read: "
                              f"{type(error).__name__}: {error}") from error


class Steps:
    """Run programs in a folder; `seconds` records the time of each."""

    def __init__(self, folder: Path, progress: Progress, scheduler: str | None = None) -> None:
        self.folder, self.progress, self._scheduler = folder, progress, scheduler
        self.seconds: dict[str, float] = {}

    def run(self, name: str, arguments: list[str]) -> None:
        """Run a program; FailedStepError when it fails."""
        text, share = STEPS[name]
        self.progress(text, share)
        with _kept_folder():
            self.seconds[name] = run_tool(name, arguments, self.folder,
                                          lambda taken: self.progress(f"{text}, {taken:.0f} s", share),
                                          output=_OUTPUTS.get(name, ""))

    def place(self, name: str, arguments: list[str], seeds: range) -> Placed:
        """Run nextpnr with several seeds at once; FailedStepError when it fails."""
        text, share = STEPS[name]

        def tell(taken: float) -> None:
            self.progress(f"{text}, {taken:.0f} s", share)

        with results_of(name):
            placed = (place_and_route(name, arguments, self.folder, seeds, tell) if self._scheduler is None else
                      place_on_cluster(name, arguments, self.folder, seeds, self._scheduler, tell))
        self.seconds[name] = placed.seconds
        return placed
