"""The helpers of tests/boards serve here, too."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "boards")]
