"""The program for Linux that `tq-hw generate` writes, on a UIO device and a u-dma-buf made of files."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from fake_uio import FakeUio, on_rtl, rtl_bench
from native import WARNINGS
from networks import compiled, stored

from tq_hw.cli.package.facts import core_of
from tq_hw.cli.package.sources import source_files
from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import Status
from tq_hw.isa.program import Program
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.typical import typical
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim import edges
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute


@pytest.fixture(scope="module")
def program() -> Program:
    return compiled(write_model(typical("ADD")), "add")


@pytest.fixture
def fake(tmp_path: Path, program: Program) -> FakeUio:
    return FakeUio(tmp_path, program)


def build(folder: Path, fake: FakeUio, *options: str) -> Path:
    """Write the folder's C code and compile it with the fake's path of the kernel's files."""
    for name, data in source_files(core_of(PRESETS["tiny"], "axi4lite", "npu")).items():
        path = folder / "core" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    driver, target = folder / "core" / "driver", folder / "npu_run"
    # The fake polls its registers only now and then, whereas an accelerator reacts in every cycle.
    subprocess.run(["gcc", *WARNINGS, "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                    f'-DTQ_SYSFS="{fake.sysfs}/u-dma-buf"', "-DTQ_STUCK_POLLS=4000000000u", *options, f"-I{driver}",
                    folder / "core" / "sw" / "npu_run.c", driver / "tq.c", driver / "tq_mmio.c", "-o", target],
                   check=True)
    return target


def run(folder: Path, fake: FakeUio, program: Program, seed: int) -> subprocess.CompletedProcess[str]:
    (folder / "model.tqm").write_bytes(to_bytes(program))
    (folder / "in.bin").write_bytes(b"".join(stored(program, random_inputs(program, seed))))
    return subprocess.run([folder / "npu_run", "model.tqm", "in.bin", "out.bin", fake.uio, fake.buffer], cwd=folder,
                          capture_output=True, text=True, check=False, timeout=60)


def check(folder: Path, fake: FakeUio, program: Program, seed: int) -> None:
    done = run(folder, fake, program, seed)
    assert (done.returncode, done.stderr) == (0, "")
    expected = execute(program, random_inputs(program, seed)).outputs
    assert (folder / "out.bin").read_bytes() == b"".join(
        edges.to_port(port, np.asarray(array)) for port, array in zip(program.outputs, expected, strict=True))
    assert int((fake.sync / "sync_size").read_text()) == len(fake.board.memory)
    assert (fake.sync / "sync_for_device").read_text() == (fake.sync / "sync_for_cpu").read_text() == "1\n"


def test_outputs_are_exact_and_errors_are_reported(tmp_path: Path, fake: FakeUio, program: Program) -> None:
    build(tmp_path, fake)
    with fake:
        for seed in range(2):
            check(tmp_path, fake, program, seed)
        fake.board.stop_with = Status.BAD_ADDRESS
        done = run(tmp_path, fake, program, 0)
    assert (done.returncode, done.stderr) == (5, "error 2 of unit 2 at RUN 3: see README.md\n"
                                                 "run: the accelerator stopped with an error\n")


def test_an_interrupt_ends_the_wait_for_a_run(tmp_path: Path, fake: FakeUio, program: Program) -> None:
    """The fake's registers are a plain file; its interrupts come from another file."""
    fake.slow_seconds = 0.03
    build(tmp_path, fake, f'-DTQ_INTERRUPT="{fake.add_interrupt()}"')
    with fake:
        for seed in range(2):
            check(tmp_path, fake, program, seed)
            assert fake.interrupts == seed + 1


def test_the_verilated_accelerator(tmp_path: Path, fake: FakeUio, program: Program) -> None:
    build(tmp_path, fake)
    with rtl_bench(program) as bench:
        on_rtl(fake, bench)
        with fake:
            check(tmp_path, fake, program, 2)


def test_inputs_of_another_size_are_refused(tmp_path: Path, fake: FakeUio, program: Program) -> None:
    build(tmp_path, fake)
    size = sum(port.size_bytes for port in program.inputs)
    (tmp_path / "model.tqm").write_bytes(to_bytes(program))
    with fake:
        for given, message in ((size - 1, f"in.bin: too short for input {program.inputs[-1].name}\n"),
                               (size + 1, f"in.bin: has {size + 1} bytes, the model's inputs {size}\n")):
            (tmp_path / "in.bin").write_bytes(bytes(given))
            done = subprocess.run([tmp_path / "npu_run", "model.tqm", "in.bin", "out.bin", fake.uio, fake.buffer],
                                  cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
            assert (done.returncode, done.stderr) == (2, message)
            assert not (tmp_path / "out.bin").exists()


def test_an_error_of_a_full_disk(tmp_path: Path) -> None:
    """Including for outputs larger than a buffer of the C library."""
    b = ModelBuilder("large")
    program = compiled(b.build(b.add("LOGISTIC", [b.input((1, 9000), scale=0.1)])), "large")
    fake = FakeUio(tmp_path, program)
    build(tmp_path, fake)
    (tmp_path / "out.bin").symlink_to("/dev/full")
    with fake:
        done = run(tmp_path, fake, program, 0)
    assert (done.returncode, done.stderr) == (5, "out.bin: No space left on device\n")


def test_missing_files_are_named(tmp_path: Path, fake: FakeUio, program: Program) -> None:
    build(tmp_path, fake)
    fake.uio.unlink()
    done = run(tmp_path, fake, program, 0)
    assert (done.returncode, done.stderr) == (5, f"{fake.uio}: No such file or directory\n")
