"""Place and route with several seeds on the workers of a cluster: all get the same files, the best result is kept."""

import base64
import io
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tq_hw.boards.build.figures import nextpnr_timing, read_json
from tq_hw.boards.build.overfull import watch_room
from tq_hw.boards.build.seeds import REPORT, Placed, reached_of
from tq_hw.boards.build.tools import run_tool
from tq_hw.work import run_tasks, task_of

__all__ = ["place_on_cluster"]


def place_on_cluster(name: str, arguments: Sequence[str], folder: Path, seeds: Sequence[int], scheduler: str | None,
                     progress: Callable[[float], None] = lambda _: None) -> Placed:
    """Run nextpnr once per seed on the workers at `scheduler` (None: here, one after the other); keep the best's files.

    Works as `seeds.place_and_route`, except that a slow seed is not stopped until another one meets its targets.
    `progress` receives the elapsed seconds after each seed. ToolError when a process fails, or reports that the device
    is too small.
    """
    start = time.monotonic()
    blob = _packed(folder, [word for word in arguments if (folder / word).is_file()])
    seed_of = {}
    for seed in seeds:
        values = list(arguments)
        values[values.index("--seed") + 1] = str(seed)
        task = task_of(_place, blob, {"name": name, "arguments": values})
        seed_of[task.key] = (seed, task)

    def enough(_key: str, result: Any) -> bool:
        progress(time.monotonic() - start)
        return bool(result["reached"] >= 1)

    found = {seed_of[key][0]: result for key, result in run_tasks(
        [task for _, task in seed_of.values()], None, jobs=1, scheduler=scheduler, seen=enough).items()}
    reached = {seed: found[seed]["reached"] for seed in sorted(found)}
    best = max(reached, key=lambda seed: reached[seed])
    _unpack(base64.b64decode(found[best]["files"]), folder)
    return Placed(best, nextpnr_timing(read_json(folder / REPORT)), reached, time.monotonic() - start)


def _packed(folder: Path, names: Sequence[str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(set(names)):
            archive.writestr(zipfile.ZipInfo(name), (folder / name).read_bytes(), zipfile.ZIP_DEFLATED)
    return data.getvalue()


def _unpack(data: bytes, folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(folder)


def _place(blob: bytes, arguments: Mapping[str, Any]) -> dict[str, Any]:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _unpack(blob, folder)
        given = {path.name for path in folder.iterdir()}
        name, words = arguments["name"], arguments["arguments"]
        run_tool(name, words, folder, watch_room(name, words, folder))
        made = [path.name for path in folder.iterdir() if path.name not in given]
        return {"reached": reached_of(nextpnr_timing(read_json(folder / REPORT))),
                "files": base64.b64encode(_packed(folder, made)).decode()}
