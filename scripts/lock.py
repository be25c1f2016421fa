"""Renew requirements.lock from pyproject.toml: every package of the `dev` extra, for every Python that is supported.

Versions in the file are kept while they satisfy pyproject.toml; `--upgrade` takes the newest.
Needs `uv`, because it resolves for several Pythons at once: `.venv/bin/pip install uv`.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = "requirements.lock"


def main() -> int:
    """Write the file; return uv's exit code, or 3 if uv is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--upgrade", action="store_true", help="take the newest version of everything")
    parser.add_argument("--uv", default=shutil.which("uv", path=f"{ROOT / '.venv/bin'}:{Path(sys.executable).parent}")
                        or shutil.which("uv"), help="the uv program")
    options = parser.parse_args()
    if options.uv is None:
        print("lock: uv is missing; install it with: .venv/bin/pip install uv", file=sys.stderr)
        return 3
    command = [options.uv, "pip", "compile", "pyproject.toml", "--extra", "dev", "--universal", "--python-version",
               "3.11", "--no-annotate", "--no-emit-index-url", "--quiet", "--custom-compile-command", "make lock",
               "--output-file", LOCK]
    return subprocess.run(command + ["--upgrade"] * options.upgrade, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
