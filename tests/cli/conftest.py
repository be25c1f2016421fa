"""Fixtures of the command line's tests: small models, and a way to run a command in this process."""

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_hw.boards.build.build import BuildResult
from tq_hw.boards.build.figures import Hop, Timing
from tq_hw.boards.catalog.board import Board, Memory
from tq_hw.cli.main import run
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden

# The helpers in this folder are imported by their plain names.
sys.path.insert(0, str(Path(__file__).parent))

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
RESOURCES = {"multipliers": 28, "luts": 1000, "carries": 1, "flip_flops": 2000, "block_rams": 30, "small_rams": 2}


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def tq(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `tq-hw` with the given arguments in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        # Whether a simulator has to be built depends on earlier tests.
        said = re.sub(r"^tq-hw: building the simulator of .*\n", "", printed.err, flags=re.M)
        return Outcome(code, printed.out, said)

    return call


def conv_model() -> bytes:
    """A convolution and a pooling of a 6 x 5 x 3 image, tensors `image`, `t3`, `t4`."""
    rng = np.random.default_rng(7)
    builder = ModelBuilder("small")
    image = builder.input((1, 6, 5, 3), scale=0.5, zero_point=-3, name="image")
    weights = builder.constant(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8), scale=[0.01, 0.02, 0.03, 0.04])
    bias = builder.bias(image, weights, [5, -7, 900, 0])
    conv = builder.add("CONV_2D", [image, weights, bias], scale=0.9, zero_point=4, padding="SAME")
    pool = builder.add("MAX_POOL_2D", [conv], filter_height=2, filter_width=2, stride_h=2, stride_w=2, padding="VALID")
    return builder.build(pool)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The file `small.tflite` in the current directory."""
    path = tmp_path / "small.tflite"
    path.write_bytes(conv_model())
    return path


@pytest.fixture
def case(model: Path) -> Path:
    """The same with `small.npz` next to it: two input sets and the golden model's outputs."""
    graph = parse_model(model.read_bytes(), model.name)
    inputs = np.random.default_rng(3).integers(-128, 128, (2, 1, 6, 5, 3)).astype(np.int8)
    expected = np.stack([golden.run(graph, [one]).outputs[0] for one in inputs])
    np.savez(model.with_suffix(".npz"), input_0=inputs, expected_0=expected)
    return model


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace verification and tools by stand-ins that record their calls; 75 MHz is the target, `fmax` the result."""
    noted: list[str] = []

    def verify(board: Board, model: Path, seed: int, *_: object, **__: object) -> None:
        noted.append(f"verify {model.name}")

    def build(board: Board, memory: Memory, folder: Path, *, image: bytes, seed: int | None, seeds: int,
              toolchain: str, progress: Any, scheduler: object) -> BuildResult:
        seed = board.seed if seed is None else seed
        noted.append(f"build {memory.name} with {len(image)} bytes, seed {seed}" + f" of {seeds}" * (seeds > 0))
        missing = ("vivado",) if board.toolchain.value == "Vivado" else ()
        timing = Timing("clk", 70.0, 75.0, (Hop("logic", 1.5, "system.bridge.a"), Hop("routing", 2.5, "system.b.c")))
        if missing:
            lacking = ("openXC7",) if toolchain == "openxc7" else missing
            return BuildResult("", 0, {**RESOURCES, "block_rams": 3.5}, {}, lacking, "Vivado", seed=seed,
                               why="openXC7 was not used: fasm2frames not on the PATH")
        (folder / "top.bit").write_bytes(b"12345")
        return BuildResult("top.bit", 5, RESOURCES, {"clk": timing}, (), board.toolchain.value, {"yosys": 1.25},
                           seed, {seed + number: 0.9 + number / 100 for number in range(seeds or 1)})

    build_module = import_module("tq_hw.cli.commands.build")
    monkeypatch.setattr(build_module, "verify", verify)
    monkeypatch.setattr(build_module, "build", build)
    return noted


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no browser: none of " + ", ".join(BROWSERS) + " is on the PATH")
    with playwright.sync_playwright() as engine:
        launched = engine.chromium.launch(executable_path=found, args=[
            "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync"])
        yield launched
        launched.close()
