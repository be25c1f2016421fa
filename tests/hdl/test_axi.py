"""Fetch, load, store, tokens, scratchpad and registers on a third-party bus model: cocotb in Verilator.

The whole accelerator runs, but for the two engines: the RTL tests of the networks run those.
"""

from pathlib import Path

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotb_run import run_cocotb

from tq_hw.hdl import accelerator
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.signatures import (
    AccReadSignature,
    ReadSignature,
    TableWriteSignature,
    WriteSignature,
    operation_signature,
)
from tq_hw.hdl.verilog import to_verilog
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.layout import Unit

HERE = Path(__file__).parent


class NoEngine(wiring.Component):
    """An engine that takes nothing."""

    def __init__(self, unit: Unit, config: Config) -> None:
        common = {"i": In(operation_signature(unit)), "table": In(TableWriteSignature()), "idle": Out(1),
                  "done": Out(1), "error": Out(4), "error_at": Out(NUMBER_BITS), "busy": Out(1), "stall_acc": Out(1),
                  "moved": Out(1)}
        own = {
            Unit.ARRAY: {**{name: Out(ReadSignature(config)) for name in ("feed0", "feed1", "feed2", "weights")},
                         "acc": In(AccReadSignature(config)), "stall_weight": Out(1)},
            Unit.VECTOR: {"a": Out(ReadSignature(config)), "b": Out(ReadSignature(config)),
                          "out": Out(WriteSignature(config)), "acc": Out(AccReadSignature(config)),
                          "stall_port": Out(1)},
        }
        super().__init__(common | own[unit])

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.idle.eq(1)
        return m


def run(config_name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "ArrayUnit", lambda config: NoEngine(Unit.ARRAY, config))
    monkeypatch.setattr(accelerator, "VectorUnit", lambda config: NoEngine(Unit.VECTOR, config))
    verilog = to_verilog(accelerator.Accelerator(load_config(config_name)), "accelerator")
    results = run_cocotb(verilog, "accelerator", "cocotb_mover", folder, monkeypatch,
                         build_args=["--x-initial", "unique", "--x-assign", "unique"],
                         test_args=["+verilator+rand+reset+2"],
                         env={"PYTHONPATH": str(HERE), "TQ_HW_CONFIG": config_name, "COCOTB_LOG_LEVEL": "WARNING"})
    assert "<failure" not in results, (folder / "test.log").read_text()[-4000:]


def test_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("tiny", tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n8", "n16"])
def test_presets(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(name, tmp_path, monkeypatch)
