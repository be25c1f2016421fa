"""The fuzz targets of the C driver: stored inputs with any compiler, new ones if clang is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest
from native import DRIVER, FIRMWARE, WARNINGS

CORPUS = FIRMWARE / "fuzz" / "corpus"


def make(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-s", "-C", FIRMWARE, f"BUILD={tmp_path}", *arguments], capture_output=True,
                          text=True, check=False)


def test_stored_inputs_do_no_harm(tmp_path: Path) -> None:
    """They include findings of long runs, and one input for each branch that those reached."""
    run = make(tmp_path, "CC=gcc", "replay")
    assert run.returncode == 0, run.stdout + run.stderr
    files = [file for folder in ("file", "link") for file in (CORPUS / folder).iterdir()]
    assert len(run.stdout.splitlines()) == len(files) > 60


def replay(tmp_path: Path, target: str, name: str, driver: Path) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "replay"
    fuzz = FIRMWARE / "fuzz"
    subprocess.run(["gcc", *WARNINGS, "-fsanitize=undefined", "-fno-sanitize-recover=all", "-DTQ_STUCK_POLLS=50u",
                    "-DTQ_LINK_ATTEMPTS=4u", f"-I{driver}", f"-I{fuzz}", fuzz / f"{target}.c", fuzz / "main.c",
                    fuzz / "fuzz.c", *(driver / f"{part}.c" for part in ("tq", "tq_float", "tq_link")), "-o", program],
                   check=True)
    return subprocess.run([program, CORPUS / target / name], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("target", "name", "file", "old", "new", "sees"), [
    ("file", "zero_point_least", "tq_float.c", "(int64_t)value - tensor->zero_point", "value - tensor->zero_point",
     "signed integer overflow"),
    ("file", "counter_back_and_forth", "tq.c", "passed > most_cycles || still > TQ_STUCK_POLLS || looks > "
     "(uint64_t)most_cycles + TQ_STUCK_POLLS", "(passed = cycles) > most_cycles || still > TQ_STUCK_POLLS", ""),
    ("link", "late_answers", "tq_link.c", "if (++late == TQ_LINK_MOST_LATE)", "if (++late == 0)", ""),
])
def test_a_defect_is_found(tmp_path: Path, target: str, name: str, file: str, old: str, new: str, sees: str) -> None:
    """A defect that the driver once had makes it fail on the input that shows it."""
    driver = tmp_path / "driver"
    shutil.copytree(DRIVER, driver)
    assert replay(tmp_path, target, name, driver).returncode == 0
    text = (driver / file).read_text()
    assert text.count(old) == 1
    (driver / file).write_text(text.replace(old, new))
    run = replay(tmp_path, target, name, driver)
    assert run.returncode != 0
    assert sees in run.stderr


@pytest.mark.slow
def test_new_inputs_do_no_harm(tmp_path: Path) -> None:
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    run = make(tmp_path, "FUZZ_SECONDS=120", "fuzz")
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr.count("stat::number_of_executed_units") == 2


def test_fuzzing_without_clang_says_what_to_install(tmp_path: Path) -> None:
    run = make(tmp_path, "FUZZ_CLANG=no-such-clang", "fuzz")
    assert run.returncode == 2
    assert run.stderr.startswith("no-such-clang is missing; on Debian or Ubuntu: sudo apt-get install clang "
                                 "libclang-rt-dev\n")
