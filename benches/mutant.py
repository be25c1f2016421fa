"""The record of one mutant."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutant", "mutants"]

_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Mutant:
    """One change in one place.

    Members
    -------
    file : in hdl/; old : text that occurs exactly once in it; new : its replacement
    tests : pytest nodes, at least one of which must fail
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


#: A mutant's name, the old text, and the new one.
Change = tuple[str, str, str]


def mutants(file: str, test_files: Sequence[str], changes: Mapping[str, Sequence[Change]]) -> Iterator[Mutant]:
    """Yield the mutants of one file of hdl/, by the test that must catch them, which is in one of `test_files`."""
    sources = {name: (_ROOT / name).read_text(encoding="utf-8") for name in test_files}
    for test, those in changes.items():
        where = [name for name, source in sources.items() if f"\ndef {test.partition('[')[0]}(" in source]
        if len(where) != 1:
            raise LookupError(f"{test} is in {len(where)} of {', '.join(test_files)}")
        for name, old, new in those:
            yield Mutant(name, file, old, new, (f"{where[0]}::{test}",))
