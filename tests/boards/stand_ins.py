"""Stand-ins for the programs that make a bitstream, and the files that the slow ones leave."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tq_hw.boards.catalog.board import Board
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.isa.config import Config

SMALL = Config("small", 3, 2, 1, 4 << 10, acc_words=16, acc_buffers=2, bus_bytes=4, fold_steps=1, uops=32,
               vector_words=128)
STAT = {"design": {"num_cells_by_type": {"MULT18X18D": 3, "LUT4": 100, "CCU2C": 7, "TRELLIS_FF": 90, "DP16KD": 2,
                                         "DSP48E1": 5, "LUT2": 10, "LUT6": 20, "FDRE": 30, "RAMB36E1": 2,
                                         "RAMB18E1": 3, "RAM32M": 2, "SRL16E": 4, "other": 9},
                   "estimated_num_lc": 25}}
#: A pin, a clock buffer and a flip-flop.
NETLIST: dict[str, Any] = {"modules": {"top": {
    "ports": {"clk100_0__io": {"direction": "input", "bits": [2]}},
    "cells": {"ibuf": {"type": "IBUF", "port_directions": {"I": "input", "O": "output"},
                       "connections": {"I": [2], "O": [3]}},
              "bufg": {"type": "BUFG", "port_directions": {"I": "input", "O": "output"},
                       "connections": {"I": [3], "O": [4]}}},
    "netnames": {"clk": {"bits": [4]}, "pad": {"bits": [2]}}}}}


def stand_in(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program on the PATH that writes its arguments to `called` in its working folder."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!{sys.executable}\nimport json, sys\njson.dump(sys.argv[1:], open('called', 'w'))\n{text}",
                       encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return program


def small(name: str) -> Board:
    board = BOARDS[name]
    return board if board.config.design == "serial" else replace(
        board, config=replace(SMALL, bus_bytes=board.config.bus_bytes))
