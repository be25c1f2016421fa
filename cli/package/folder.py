"""The folder as a whole: made next to its destination, and moved there when it is complete."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tq_hw.cli.package.bench import bench_files
from tq_hw.cli.package.choices import to_table
from tq_hw.cli.package.facts import Core
from tq_hw.cli.package.ipxact import component
from tq_hw.cli.package.readme import readme
from tq_hw.cli.package.sources import source_files
from tq_hw.cli.package.vivado import vivado_files
from tq_hw.cli.shared.configurations import to_toml
from tq_hw.cli.shared.files import check_folder
from tq_hw.hdl.netlist.design import Design
from tq_hw.hdl.top import Top
from tq_hw.hdl.verilog import to_readable_verilog
from tq_hw.isa.permissions import new_folder_mode
from tq_hw.model.errors import OptionError

__all__ = ["check_target", "verilog", "write_folder"]

_MODELS = """\
// Behavioural models of the memories that the core leaves out: simulate with this file, and put RAM of your process in
// its place. What a macro need not give is undefined here.
"""


def check_target(target: Path) -> None:
    """Raise OptionError unless the target does not exist or is an empty folder that can be replaced."""
    if target.exists() and not target.is_dir():
        raise OptionError(f"-o {target}: expected a folder to make, found a file")
    if target.is_dir() and any(target.iterdir()):
        raise OptionError(f"-o {target}: is not empty; name a new folder, or remove this one first")
    if not target.parent.is_dir():
        raise OptionError(f"-o {target}: the directory {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise OptionError(f"-o {target}: cannot be written: permission denied")
    check_folder("-o", str(target), Path(os.path.realpath(target)).parent)


def verilog(core: Core) -> Design:
    """Return the Verilog of a core. Every run returns the same bytes."""
    return to_readable_verilog(Top(core.config, core.control, core.memory_bus), core.name,
                               macros=core.memories == "blackbox")


def write_folder(core: Core, target: Path) -> dict[str, Any]:
    """Write the folder; return the facts, which are also in `NAME.json`.

    Raises OptionError before the core is made if the folder cannot be written, and later if the disk is full.
    """
    place = Path(os.path.realpath(target))
    try:
        work = Path(tempfile.mkdtemp(prefix=f".{place.name[:16]}.", dir=place.parent))
    except OSError as error:
        raise OptionError(f"-o {target}: cannot be written: {error.strerror}") from error
    try:
        facts, contents = _contents(core)
        try:
            _fill(work, contents)
            # `rename` replaces an empty folder; it fails if the folder was filled meanwhile.
            work.rename(place)
        except OSError as error:
            raise OptionError(f"-o {target}: cannot be written: {error.strerror}") from error
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return facts


def _contents(core: Core) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the facts, and the files by name."""
    design = verilog(core)
    facts = core.facts(design)
    contents = {
        **{file: design.text.encode() for file in core.sources},
        **{file: (_MODELS + design.models).encode() for file in core.models},
        **source_files(core), **vivado_files(core), **bench_files(core),
        f"{core.name}.json": (json.dumps(facts, indent=1) + "\n").encode(),
        "component.xml": component(core, dict.fromkeys((*core.sources, *core.models), "verilogSource")).encode(),
        f"{core.name}.toml": (to_toml(core.config) + to_table(core)).encode(),
        "README.md": readme(core, design).encode(),
    }
    return facts, contents


def _fill(work: Path, contents: Mapping[str, bytes]) -> None:
    for name, data in contents.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    work.chmod(new_folder_mode())
