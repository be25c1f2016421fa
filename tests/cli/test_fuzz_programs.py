"""Broken compiled files end in results or one clear message: findings of long runs, and a short run."""

import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
from fuzz_programs import check_one, seeds
from program_mutations import mutate

BENCHES = Path(__file__).parents[2] / "benches"
#: benches/fuzz_programs.py limits a run to 3 s of CPU time. Here the limit only catches a file that never ends.
_SECONDS = 30.0
Tq = Callable[..., Any]
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.tqm"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_findings_of_long_runs(path: Path, tmp_path: Path) -> None:
    endings = {check_one(path.read_bytes(), np.random.default_rng(seed), tmp_path, _SECONDS) for seed in range(6)}
    assert all(ending.rpartition(" ")[2] in ("0", "2", "5") for ending in endings)


@pytest.mark.parametrize(("name", "message"), [
    ("negative_bound", "vector RUN 0, at command word 0: it has 1,006,632,900 slots in all output blocks; at most "
     "65,536 can be addressed"),
])
def test_each_engine_refuses_alike(tq: Tq, name: str, message: str) -> None:
    path = Path(__file__).parent / "corpus" / f"{name}.tqm"
    for engine in ("rtl", "executor", "golden"):
        run = tq("sim", path, "--engine", engine)
        assert (run.code, run.out, run.err) == (2, "", f"tq-hw: {path}: {message}\n")


def test_an_illegal_micro_operation_ends_alike(tq: Tq, tmp_path: Path) -> None:
    """A file may contain a word that isa/legality.py's table forbids; the machine stops when it would execute it."""
    path = Path(__file__).parent / "corpus" / "found_943.tqm"
    np.savez(tmp_path / "in.npz", input_0=np.zeros((1, 5, 8, 1), np.int8))
    for engine in ("rtl", "executor"):
        run = tq("sim", path, "--engine", engine, "--inputs", tmp_path / "in.npz")
        assert (run.code, run.out) == (5, "")
        assert run.err.startswith("tq-hw: vector RUN 4 (operator 0, LOG_SOFTMAX 't1'): BAD_OPERATION")


def test_mutations_reach_every_stage(tmp_path: Path) -> None:
    files = seeds()[:8]
    endings = set()
    for seed in range(150):
        rng = np.random.default_rng(seed)
        endings.add(check_one(mutate(rng, files[seed % len(files)]), rng, tmp_path, _SECONDS))
    assert endings >= {"sim executor 0", "sim executor 2", "sim executor 5", "sim rtl 0", "sim rtl 2", "run 0", "run 2"}


@pytest.mark.parametrize(("inputs", "first"), [(250, 0), pytest.param(20_000, 100_000, marks=pytest.mark.slow)])
def test_command(inputs: int, first: int, tmp_path: Path) -> None:
    """In a process of its own with limited memory."""
    run = subprocess.run([sys.executable, BENCHES / "fuzz_programs.py", "--inputs", str(inputs), "--first", str(first),
                          "--keep", tmp_path, "--seconds", str(_SECONDS)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.startswith(f"{inputs} inputs: " if inputs < 5000 else "")
    assert run.stdout.rstrip().endswith(" 0 findings")


def test_an_internal_error_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("broken")
    monkeypatch.setattr("tq_hw.cli.subject.load", fail)
    with pytest.raises(AssertionError, match="^ValueError in test_fuzz_programs.py:fail: broken$"):
        check_one(seeds()[0], np.random.default_rng(0), tmp_path)


def test_a_large_arena_is_refused_without_taking_it(tq: Tq, tmp_path: Path) -> None:
    rng, path = np.random.default_rng(1), tmp_path / "large.tqm"
    data = bytearray(seeds()[0])
    data[36:40] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(sealed(data))
    run = tq("sim", path, "--engine", "executor")
    assert run.code == 2
    assert ": image, arena and state must have at most 268,435,456 bytes together, not " in run.err
    assert check_one(path.read_bytes(), rng, tmp_path).endswith(" 2")


def sealed(data: bytearray) -> bytes:
    data[4:8] = zlib.crc32(data[8:]).to_bytes(4, "little")
    return bytes(data)
