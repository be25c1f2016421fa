"""Break the RTL in named ways and see whether the tests notice: `python benches/mutation.py`.

Each mutant of benches/mutants.py is one change in a copy of hdl/; the rest of the package is linked next to it, and
the mutant's own tests run on that tree. Exit code 1 when a mutant survives.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mutant import Mutant
from mutants import MUTANTS
from rich.console import Console
from rich.table import Table

from tq_hw.model.errors import MismatchError, OptionError, TqError

__all__ = ["Verdict", "mutated", "run_mutant", "tree"]

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGE = "tq_hw"
#: The folder whose files are the package's own modules.
_PACKAGE_FILES = "api"
#: Exit codes of pytest after it ran the tests.
_PASSED, _FAILED = 0, 1


@dataclass(frozen=True)
class Verdict:
    """The result for a mutant: the test that failed and the reason, or None for a survivor."""

    mutant: Mutant
    test: str | None
    reason: str
    seconds: float


def mutated(mutant: Mutant) -> str:
    """Return the changed source, which must compile; MismatchError unless the old text occurs exactly once."""
    source = (_ROOT / "hdl" / mutant.file).read_text(encoding="utf-8")
    count = source.count(mutant.old)
    if count != 1:
        raise MismatchError(f"mutant {mutant.name!r}: expected its text once in hdl/{mutant.file}, found it {count} "
                            f"times; benches/mutants.py must follow the hardware: {mutant.old!r}")
    changed = source.replace(mutant.old, mutant.new)
    compile(changed, mutant.file, "exec")
    return changed


@contextmanager
def tree(mutant: Mutant | None) -> Iterator[Path]:
    """Yield a folder to import from: the package with a mutated hdl/ (None: an unchanged copy)."""
    with tempfile.TemporaryDirectory() as temporary:
        package = Path(temporary) / _PACKAGE
        package.mkdir()
        for folder in sorted(_ROOT.iterdir()):
            if folder.name not in ("hdl", _PACKAGE_FILES) and (folder / "py.typed").is_file():
                (package / folder.name).symlink_to(folder)
        for file in sorted((_ROOT / _PACKAGE_FILES).glob("*.*")):
            (package / file.name).symlink_to(file)
        shutil.copytree(_ROOT / "hdl", package / "hdl", ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            (package / "hdl" / mutant.file).write_text(mutated(mutant), encoding="utf-8")
        yield Path(temporary)


def run_tests(path: Path, tests: Sequence[str]) -> tuple[bool, str, str]:
    """Run pytest nodes on a tree; return whether all passed, and the first failed test with the reason."""
    environment = {**os.environ, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    where = subprocess.run([sys.executable, "-c", f"import {_PACKAGE}.hdl; print({_PACKAGE}.hdl.__file__)"], cwd=_ROOT,
                           env=environment, text=True, capture_output=True, check=True).stdout.strip()
    if not Path(where).is_relative_to(path):
        raise MismatchError(f"the tests would import {where}, not the copy in {path}")
    run = subprocess.run([sys.executable, "-m", "pytest", "-n0", "-x", "-q", "-p", "no:cacheprovider", "--tb=line",
                          "-m", "not slow", *tests], cwd=_ROOT, env=environment, text=True, capture_output=True,
                         check=False)
    if run.returncode not in (_PASSED, _FAILED):
        raise MismatchError(f"pytest ended with exit code {run.returncode} on {' '.join(tests)}:\n"
                            + (run.stdout + run.stderr)[-2000:])
    failed = re.search(r"^FAILED (\S+)(?: - (.*))?$", run.stdout, re.MULTILINE)
    return run.returncode == _PASSED, failed[1] if failed else "", (failed[2] or "") if failed else ""


def run_mutant(mutant: Mutant) -> Verdict:
    """Run a mutant's tests on it."""
    start = time.monotonic()
    with tree(mutant) as path:
        passed, test, reason = run_tests(path, mutant.tests)
    return Verdict(mutant, None if passed else test, reason, time.monotonic() - start)


def chosen(names: Sequence[str]) -> list[Mutant]:
    """Return the mutants whose names contain one of `names`; all if there are no names."""
    found = [mutant for mutant in MUTANTS if not names or any(name in mutant.name for name in names)]
    if not found:
        raise OptionError(f"no mutant's name contains {' or '.join(map(repr, names))}")
    return found


def check(mutants: Sequence[Mutant], console: Console) -> bool:
    """Run mutants and print the table; return whether every mutant is caught."""
    for mutant in mutants:
        mutated(mutant)
    with tree(None) as path:
        passed, test, reason = run_tests(path, sorted({test for mutant in mutants for test in mutant.tests}))
    if not passed:
        raise MismatchError(f"a test fails on the hardware as it is: {test} {reason}")
    table = Table(title="mutants of the RTL")
    for name in ("mutant", "file", "caught by", "how", "seconds"):
        table.add_column(name, justify="right" if name == "seconds" else "left", overflow="fold")
    survivors = 0
    for mutant in mutants:
        verdict = run_mutant(mutant)
        survivors += verdict.test is None
        caught = "SURVIVES" if verdict.test is None else verdict.test.rpartition("/")[2]
        console.print(f"{mutant.name}: {caught}", highlight=False, markup=False)
        table.add_row(mutant.name, mutant.file, caught.replace("[", "\\["), verdict.reason.replace("[", "\\[")[:60],
                      f"{verdict.seconds:.0f}")
    console.print(table)
    console.print(f"{len(mutants) - survivors} of {len(mutants)} mutants caught")
    return not survivors


def main() -> int:
    """Run the command; return its exit code: 0 all caught, 1 a mutant survives or its text is missing, 2 bad input."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of mutants' names (default: all)")
    try:
        return 0 if check(chosen(parser.parse_args().names), Console()) else 1
    except TqError as error:
        print(f"mutation: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
