"""Verilator's own C++ as objects in the cache, shared by all simulators of a kind: a third of a small one's build time.

The key is a hash of their inputs, as for a simulator. Each intact object is reused; make compiles the others.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tq_hw.sim.rtl.cache import intact, seal
from tq_hw.sim.rtl.tools import compiler, package_version
from tq_hw.sim.rtl.waves import FST_HEADERS, KINDS

__all__ = ["keep_runtime", "runtime_folder", "take_runtime"]

_OBJECTS = "verilated*.o"


def runtime_folder(cache: Path, trace: str, options: Sequence[str]) -> Path:
    """Return the folder of the objects for a kind of waves, "" for none; `options` are make's."""
    headers = [file.read_text(encoding="utf-8") for file in FST_HEADERS] if trace == "fst" else []
    made_from = [package_version("verilator"), compiler(), KINDS[trace], list(options), headers]
    return cache / f"runtime-{hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]}"


def take_runtime(folder: Path, obj: Path) -> int:
    """Copy the intact objects to where make finds them up to date; return their number."""
    found = [file for file in folder.glob(_OBJECTS) if intact(file)]
    for file in found:
        shutil.copyfile(file, obj / file.name)  # newer than its source
    return len(found)


def keep_runtime(folder: Path, obj: Path) -> None:
    """Add a build's objects to the cache, except those already there."""
    folder.mkdir(exist_ok=True)
    for file in obj.glob(_OBJECTS):
        kept = folder / file.name
        if not intact(kept):
            # Other processes may add theirs at the same time: each file appears whole, and its note has the hash.
            unfinished = folder / f".{file.name}.{os.getpid()}"
            shutil.copyfile(file, unfinished)
            unfinished.replace(kept)
            seal(kept)
