"""What a mutant is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Mutant", "mutants"]


@dataclass(frozen=True)
class Mutant:
    """One change at one place.

    Members
    -------
    file : in hdl/; old : text that stands there exactly once; new : what replaces it
    tests : pytest nodes, of which at least one must fail
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


#: A mutant's name, the text, and what replaces it.
Change = tuple[str, str, str]


def mutants(file: str, test_file: str, changes: Mapping[str, Sequence[Change]]) -> Iterator[Mutant]:
    """Yield the mutants of one file of hdl/, by the test of `test_file` that must notice them."""
    for test, those in changes.items():
        for name, old, new in those:
            yield Mutant(name, file, old, new, (f"{test_file}::{test}",))
