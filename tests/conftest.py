"""Material that lies beside the repository."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with the conformance cases, malformed files and real models; they are not part of the repository."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("../shared, the conformance cases and real models, is not here")
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what tests of the golden model may write."""
    parser.addoption("--record-engines", action="store_true",
                     help="keep which operators agreed with which engine, for docs/reference/operators.md")
