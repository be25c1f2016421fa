"""The work of `verify`, case by case in this process, or as tasks of other processes or a cluster."""

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tq_hw.cli.cases import Case
from tq_hw.cli.subject import patterns_of
from tq_hw.cli.verifier import PartitionVerifier, Verdict, Verifier
from tq_hw.isa.config import Config
from tq_hw.isa.memory import Memory
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.work import run_tasks, task_of

__all__ = ["Asked"]


@dataclass(frozen=True)
class Asked:
    """The options of `verify`; `patterns` are files."""

    engine: str
    oracle: str | None
    config: Config
    memory: Memory
    sets: int
    seed: int
    resident: bool
    profile: str
    shapes: InputShapes
    partitioned: bool
    patterns: Sequence[str]

    def verifier(self) -> Verifier:
        """Return the verifier for cases in this process."""
        kind = PartitionVerifier if self.partitioned else Verifier
        return kind(self.engine, self.oracle, self.config, self.memory, self.sets, self.seed, self.resident,
                    self.profile, self.shapes, patterns_of(self.patterns))

    def verdicts(self, cases: Sequence[Case], jobs: int, scheduler: str | None) -> Iterator[Verdict]:
        """Yield the verdicts in the cases' order: one by one in this process, all at the end with other workers."""
        if jobs == 1 and scheduler is None:
            with self.verifier() as verifier:
                yield from map(verifier.check, cases)
            return
        with self.verifier():  # refuses contradictory options here rather than in each worker
            pass
        values = {**vars(self), "config": vars_of(self.config), "memory": vars_of(self.memory),
                  "shapes": vars_of(self.shapes), "patterns": [Path(path).name for path in self.patterns]}
        tasks = [task_of(_check, _packed(case, self.patterns), {**values, "name": case.name, "model": case.model.name,
                                                                "folder": str(case.model.parent)}) for case in cases]
        found = run_tasks(tasks, None, jobs=jobs, scheduler=scheduler)
        for task in tasks:
            yield Verdict(**found[task.key])


def vars_of(record: Any) -> dict[str, Any]:
    """Return the fields of a frozen record, without cached values."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__ if name != "_"}


def _packed(case: Case, patterns: Sequence[str]) -> bytes:
    """Return an archive of a case's files and the patterns, for the workers."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in filter(None, (case.model, case.stored)):
            archive.writestr(zipfile.ZipInfo(path.name), path.read_bytes())
        for name in patterns:
            archive.writestr(zipfile.ZipInfo(f"patterns/{Path(name).name}"), Path(name).read_bytes())
    return data.getvalue()


def _check(blob: bytes, arguments: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(arguments)
    name, model, origin = (values.pop(key) for key in ("name", "model", "folder"))
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with zipfile.ZipFile(io.BytesIO(blob)) as archive:
            archive.extractall(folder)
        stored = (folder / model).with_suffix(".npz")
        shapes = values["shapes"]
        asked = Asked(**{**values, "config": Config(**values["config"]), "memory": Memory(**values["memory"]),
                         "shapes": InputShapes(shapes["batch"], {key: tuple(sizes) for key, sizes
                                                                 in shapes["named"].items()}, shapes["signature"]),
                         "patterns": [str(folder / "patterns" / each) for each in values["patterns"]]})
        with asked.verifier() as verifier:
            verdict = verifier.check(Case(name, folder / model, stored if stored.is_file() else None))
    # Messages name the user's folder.
    return {**vars(verdict), "message": verdict.message.replace(str(folder), origin)}
