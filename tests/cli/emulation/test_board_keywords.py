"""MLPerf Tiny's keyword spotting on an emulated board; `emulate` and `run` are separate processes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim import golden

BOARD = "ulx3s_85f"
TQ = [sys.executable, "-m", "tq_hw.cli"]

# test_board.py does the same with a small model.
pytestmark = pytest.mark.slow


@pytest.fixture
def network(shared: Path) -> Path:
    """The keyword network."""
    return shared / "models" / "mlperf_tiny_kws_dscnn.tflite"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: Path) -> None:
    """in.npz with three input sets, and the golden model's outputs in expected.npy."""
    monkeypatch.chdir(tmp_path)
    model = read_model(network)
    shape = model.main.tensors[model.main.inputs[0]].shape
    sets = np.random.default_rng(5).integers(-128, 128, (3, *shape)).astype(np.int8)
    np.savez("in.npz", input_0=sets)
    np.save("expected.npy", np.stack([golden.run(model, [one]).outputs[0] for one in sets]))


@contextmanager
def emulate(*more: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the board at the port `board`."""
    with subprocess.Popen([*TQ, "emulate", "--board", BOARD, "--port", "board", *more], stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline().startswith("port ")
            yield process
        finally:
            process.terminate()


def run(model: object, *more: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*TQ, "run", "--board", BOARD, "--port", "board", *map(str, (model, *more))], check=False,
                          capture_output=True, text=True)


def exact_run(network: Path, *more: object) -> dict[str, Any]:
    """Run the model's input sets; every output must be the golden model's."""
    outcome = run(network, "--inputs", "in.npz", "--outputs", "out.npz", "--json", "report.json", *more)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    outputs, expected = np.load("out.npz")["output_0"], np.load("expected.npy")
    assert outputs.dtype == expected.dtype
    assert np.array_equal(outputs, expected)
    report: dict[str, Any] = json.loads(Path("report.json").read_text())
    assert report["bit_exact"] is True
    return report


def test_good_line_and_wrong_files(network: Path) -> None:
    with emulate():
        report = exact_run(network, "--bench", 3)
        assert report["bench"]["cycles"]["max"] == report["cycles"] == sum(row["cycles"] for row in report["layers"])
        for config, name in (("n16", "other.tqm"), ("n9x8", "short.tqm")):
            subprocess.run([*TQ, "compile", network, "--config", config, "-o", name], check=True, capture_output=True)
        outcome = run("other.tqm", "--inputs", "in.npz")
        assert outcome.returncode == 2 and "is compiled for configuration 'n16'" in outcome.stderr
        whole = Path("short.tqm").read_bytes()
        Path("short.tqm").write_bytes(whole[:len(whole) // 2])
        outcome = run("short.tqm", "--inputs", "in.npz")
        assert (outcome.returncode, outcome.stderr) == (
            2, f"tq-hw: short.tqm: the file should have {len(whole)} bytes, it has {len(whole) // 2}\n")
        b = ModelBuilder("large")
        x = b.input((1, 5800), scale=0.5)
        w = b.constant(np.random.default_rng(1).integers(-127, 128, (5800, 5800)).astype(np.int8), scale=0.01)
        Path("large.tflite").write_bytes(b.build(b.add("FULLY_CONNECTED", [x, w, b.bias(x, w, [0] * 5800)],
                                                       scale=1.0)))
        outcome = run("large.tflite")
        assert outcome.returncode == 2 and outcome.stderr.endswith(f", the board has {32 << 20}\n")
        exact_run(network, "--no-layers")


@pytest.mark.parametrize("faults", [(), ("--faults", "1")], ids=["good", "faults"])
def test_resets_in_the_middle(network: Path, faults: tuple[str, ...]) -> None:
    """One reset during loading, one during a run."""
    with emulate(*faults) as board:
        began = time.monotonic()
        exact_run(network, "--no-layers")
        whole = time.monotonic() - began
        timers = [threading.Timer(whole * share, os.kill, (board.pid, signal.SIGUSR1)) for share in (0.4, 0.8)]
        for timer in timers:
            timer.start()
        report = exact_run(network, "--no-layers")
        for timer in timers:
            timer.join()
        assert 1 <= report["resets"] <= 2
        assert not faults or report["repeats"] > 100
