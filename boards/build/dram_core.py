"""The DRAM controller's core, generated and cached."""

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tq_hw.boards.build.dram_generate import UNKNOWN_CHIP
from tq_hw.boards.catalog.board import Ddr3, Sdr
from tq_hw.boards.gateware.levelling_plan import Levelling, PhyShape, plan_levelling
from tq_hw.model.errors import MissingToolError, OptionError, ToolError, last_words

__all__ = ["DramCore", "core_description", "generate_core", "need_litedram"]


@dataclass(frozen=True)
class DramCore:
    """A generated core: Verilog, initialization writes (address, value, cycles to wait), and the size.

    `levelling` is the additional plan that a DDR3 needs, None for others.
    """

    verilog: str
    sequence: tuple[tuple[int, int, int], ...]
    size_bytes: int
    levelling: Levelling | None = None


def need_litedram() -> None:
    """Raise MissingToolError when LiteDRAM is not installed."""
    if importlib.util.find_spec("litedram") is None:
        raise MissingToolError('the Python package litedram is not installed: pip install "tq-hw[boards]"')


@lru_cache(maxsize=4)
def _generate(description: str) -> DramCore:
    need_litedram()
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([sys.executable, "-m", "tq_hw.boards.build.dram_generate", folder], input=description,
                             encoding="utf-8", errors="replace", capture_output=True, check=False)
        if run.returncode == UNKNOWN_CHIP:
            raise OptionError(f"LiteDRAM {importlib.metadata.version('litedram')} knows no chip "
                              f"{json.loads(description)['sdram_module']!r}; its names are in litedram/modules.py")
        if run.returncode:
            raise ToolError(f"LiteDRAM did not generate a core; {last_words(run.stderr)}")
        facts = json.loads((Path(folder) / "facts.json").read_text(encoding="utf-8"))
        verilog = (Path(folder) / "core.v").read_text(encoding="utf-8")
    steps = tuple((address, value, wait) for address, value, wait in facts["sequence"])
    shape = facts["shape"]
    levelling = None if shape is None else plan_levelling(steps, facts["registers"], PhyShape(**shape))
    return DramCore(verilog, steps, facts["size_bytes"], levelling)


def generate_core(description: Mapping[str, object]) -> DramCore:
    """Return the core that LiteDRAM generates for `description` (its keys; PHY and chip by name), once per process.

    Raises MissingToolError when LiteDRAM is not installed, OptionError for an unknown chip, ToolError when it fails.
    """
    return _generate(json.dumps(dict(description), sort_keys=True))


def core_description(memory: Sdr | Ddr3, device: str, input_hz: int) -> dict[str, object]:
    """Return LiteDRAM's description of a core; `input_hz` is the rate of the board's oscillator."""
    common: dict[str, object] = {"device": device, "sdram_module": memory.chip, "sdram_rank_nb": 1,
                                 "sys_clk_freq": memory.clock_hz}
    if isinstance(memory, Sdr):
        # Buffered commands add a cycle of latency; the clock of this core depends on them.
        return {**common, "memtype": "SDR", "sdram_phy": "GENSDRPHY", "sdram_module_nb": memory.data_bytes,
                "input_clk_freq": memory.clock_hz, "cmd_buffer_depth": 8, "cmd_buffer_buffered": True}
    return {**common, "memtype": "DDR3", "sdram_phy": memory.phy, "sdram_module_nb": 2, "input_clk_freq": input_hz,
            "port_bits": 8 * memory.data_bytes, **dict(memory.options)}
