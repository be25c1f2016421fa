"""Results by key in a SQLite file, so that a killed run can be continued."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import platformdirs

from tq_hw.model.errors import OptionError

__all__ = ["Store", "default_store"]


def default_store() -> Path:
    """Return the store in the user's data folder."""
    return Path(platformdirs.user_data_dir("tq-hw")) / "results.sqlite"


class Store:
    """Results by key in a SQLite file. Several processes may share it. OptionError if the file is of another kind."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(path, timeout=60, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise OptionError(f"{path}: cannot keep results there: {error}; choose another --store") from error
        self._ask("CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT NOT NULL)")

    def _ask(self, words: str, *values: str) -> Any:
        try:
            return self._base.execute(words, values).fetchone()
        except sqlite3.Error as error:
            raise OptionError(f"{self._path}: cannot keep results there: {error}; choose another --store") from error

    def find(self, key: str) -> Any:
        """Return a result, or None if the key is unknown."""
        row = self._ask("SELECT value FROM results WHERE key = ?", key)
        return None if row is None else json.loads(row[0])

    def keep(self, key: str, value: Any) -> None:
        """Store a result. An existing result is not replaced."""
        self._ask("INSERT OR IGNORE INTO results VALUES (?, ?)", key, json.dumps(value))

    def close(self) -> None:
        """Close the file."""
        self._base.close()
