"""Reads TOML files, with one message for each way in which one cannot be read."""

import re
import tomllib
from pathlib import Path

__all__ = ["ConfigError", "read_table", "size_in_bytes"]

#: Units of sizes in a TOML file.
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}


class ConfigError(ValueError):
    """A configuration breaks a rule; the message is the rule."""


def read_table(path: str) -> dict[str, object]:
    """Return what a configuration's TOML file says; ConfigError for one that cannot be read."""
    try:
        # Some devices never end.
        if Path(path).is_char_device():
            raise ConfigError(f"{path}: expected a TOML file, found a device")
        # Some editors put a byte order mark in front.
        text = Path(path).read_bytes()
        if text.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ConfigError(f"{path}: expected a TOML file, found text in UTF-16: save it as UTF-8")
        return tomllib.loads(text.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected a TOML file, found one that is not text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: expected a TOML file: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: expected a TOML file, found values that are nested too deeply") from None
    except ConfigError:
        raise
    except ValueError:
        # Python reads integers of at most 4300 digits.
        raise ConfigError(f"{path}: expected a TOML file, found an integer of more than 4300 digits") from None


def size_in_bytes(value: object) -> object:
    """Return the number that a text such as "64 KiB" stands for; any other value as it is."""
    found = re.fullmatch(r"(\d{1,20}) ?(B|KiB|MiB)", value) if isinstance(value, str) else None
    return int(found[1]) * _UNITS[found[2]] if found else value
