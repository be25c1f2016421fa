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
