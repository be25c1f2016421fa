"""Run random graphs on the executor or the RTL, every integer held against the golden model, or golden against TFLite.

A graph is drawn from its number, so that it can be repeated. A graph whose outputs differ is shrunk and kept, with its
inputs, its number and the message.
"""

import argparse
import json
import multiprocessing
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agreement import Difference, Refused, check_model, check_oracle, input_sets, random_config
from shrink import shrink

from tq_hw.cli.shared.files import npz_bytes
from tq_hw.isa.config import Config, load_config
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Model
from tq_hw.model.random.graphs import GROUPS, random_graph
from tq_hw.model.random.sixteen import random_sixteen
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.engines import ORACLES
from tq_hw.sim.oracles import Oracle

__all__ = ["Finding", "Job", "Tally", "check_graph", "main", "run_chunk"]

#: Choices of `--config mix`: the presets and random configurations, in equal shares.
_MIX = ("n16", "n8", "n9x8", "tiny", "tiny", "random", "random", "random", "random", "random")


#: The group of 16x8 models, and its share without `--group`: one graph in eight.
_SIXTEEN, _EACH = "sixteen", 8


@dataclass(frozen=True)
class Job:
    """What to do with each graph."""

    config: str = "mix"
    engine: str = "executor"
    group: str | None = None
    oracle: str | None = None
    keep: Path = Path("build/fuzz_graphs")

    def graph(self, seed: int) -> Model:
        """Graph `seed`."""
        if self.group == _SIXTEEN or (self.group is None and seed % _EACH == _EACH - 1):
            return random_sixteen(seed)
        return random_graph(seed, self.group)

    def config_of(self, seed: int) -> Config:
        """The configuration that graph `seed` is compiled for."""
        name = _MIX[seed % len(_MIX)] if self.config == "mix" else self.config
        return random_config(seed) if name == "random" else load_config(name)


@dataclass(frozen=True)
class Finding:
    """A graph that failed: its number, its configuration, and the message."""

    seed: int
    config: str
    message: str


@dataclass
class Tally:
    """Counts and findings of a run of graphs."""

    graphs: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Add the counts of another tally."""
        self.graphs += other.graphs
        self.refused += other.refused
        self.findings += other.findings


def check_graph(model: Model, seed: int, job: Job, oracle: Oracle | None = None) -> None:
    """Check one graph on the engine of its job, or against `oracle` if there is one. Raises Difference or Refused.

    Any other exception becomes a Difference: neither compiler nor executor should raise it. One graph in eight is
    compiled with trials of schedules, and runs three times.
    """
    try:
        if oracle is not None:
            check_oracle(model, seed, oracle)
        else:
            thorough = seed % 8 == 0
            check_model(model, job.config_of(seed), seed, 3 if thorough else 2, job.engine, trials=thorough)
    except (Difference, Refused):
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise Difference(f"{type(error).__name__} in {Path(place.filename).name}:{place.name}: {error}") from error


def kind_of(message: str) -> str:
    """Return a message without numbers and names, to group messages by kind."""
    message = re.sub(r"'[^']*'", "'..'", message.split(": ", 1)[-1] if message.startswith("graph_") else message)
    return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", message)[:160]


def run_chunk(task: tuple[int, int, Job]) -> Tally:
    """Run the graphs of a task: number of the first, count, job."""
    first, count, job = task
    tally = Tally()
    with ExitStack() as stack:
        oracle = None if job.oracle is None else stack.enter_context(Oracle(ORACLES[job.oracle][0], 60.0))
        for seed in range(first, first + count):
            tally.graphs += 1
            model = job.graph(seed)
            try:
                check_graph(model, seed, job, oracle)
            except Refused as error:
                tally.refused[kind_of(str(error))] += 1
            except Difference as error:
                tally.findings.append(Finding(seed, job.config_of(seed).name, str(error)))
                _keep(model, seed, job, oracle, error)
    return tally


def _keep(model: Model, seed: int, job: Job, oracle: Oracle | None, found: Difference) -> None:
    """Write the graph and the message, then the smallest graph that still fails."""
    kind = _family(str(found))

    def fails(smaller: Model) -> bool:
        try:
            check_graph(smaller, seed, job, oracle)
        except Difference as error:
            return _family(str(error)) == kind
        except Refused:
            pass
        return False
    job.keep.mkdir(parents=True, exist_ok=True)
    stem = f"{seed}" if job.group is None else f"{seed}_{job.group}"
    (job.keep / f"{stem}.tflite").write_bytes(write_model(model))
    (job.keep / f"{stem}.small.toml").write_text("".join(
        f"{key} = {json.dumps(value)}\n" for key, value in asdict(job.config_of(seed)).items()), encoding="utf-8")
    (job.keep / f"{stem}.txt").write_text(f"graph {seed}, group {job.group}, {job.engine}, {job.config_of(seed)}\n"
                                          f"{found}\n", encoding="utf-8")
    small = shrink(model, fails)
    (job.keep / f"{stem}.small.tflite").write_bytes(write_model(small))
    arrays = {f"input_{number}_{position}": array for number, inputs in enumerate(input_sets(small, seed, 2))
              for position, array in enumerate(inputs)}
    (job.keep / f"{stem}.small.npz").write_bytes(npz_bytes(arrays))


def _family(message: str) -> str:
    """The kind of failure that must persist while a model is shrunk: wrong outputs, a race, an exception."""
    if " differs in " in message:
        return "differs"
    return "race" if message.startswith("race") else message.split(":")[0][:40]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first graph")
    parser.add_argument("--config", default="mix", help="preset, file, random, or mix: presets and random ones in turn")
    parser.add_argument("--engine", choices=("executor", "rtl"), default="executor")
    parser.add_argument("--group", choices=(*GROUPS, _SIXTEEN),
                        help="operators that half of each graph is made of; sixteen: 16x8 models")
    parser.add_argument("--oracle", choices=("litert", "tflm"), help="hold the golden model against this, instead")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz_graphs"), help="folder for what is found")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the graphs; exit code 1 if there is a finding, 2 for an unknown configuration."""
    options = _parser().parse_args(arguments)
    job = Job(options.config, options.engine, options.group, options.oracle, options.keep)
    try:
        job.config_of(options.seed)
    except (TqError, ValueError) as error:
        print(f"fuzz_graphs: {error}", file=sys.stderr)
        return 2
    chunk = max(1, min(25, options.graphs // options.jobs))
    last = options.seed + options.graphs
    tasks = [(first, min(chunk, last - first), job) for first in range(options.seed, last, chunk)]
    tally, start = Tally(), time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for number, found in enumerate(pool.imap_unordered(run_chunk, tasks), 1):
            for finding in found.findings:
                print(f"graph {finding.seed}, {finding.config}: {finding.message}", flush=True)
            tally.add(found)
            if number % 8 == 0:
                print(_summary(tally, start), flush=True)
    print(_summary(tally, start))
    for kind, count in tally.refused.most_common():
        print(f"{count:7} {kind}")
    return 1 if tally.findings else 0


def _summary(tally: Tally, start: float) -> str:
    seconds = time.monotonic() - start
    return (f"{tally.graphs} graphs: {len(tally.findings)} differences, {tally.refused.total()} refused, "
            f"{seconds:.0f} s, {tally.graphs / seconds:.1f} graphs/s")


if __name__ == "__main__":
    sys.exit(main())
