"""Configurations as TOML files."""

from dataclasses import asdict

from tq_hw.isa.config import Config

__all__ = ["to_toml"]


def to_toml(config: Config) -> str:
    """Return a configuration as a file for --config."""
    return "".join(f"{key} = {value if isinstance(value, int) else repr(value).replace(chr(39), chr(34))}\n"
                   for key, value in asdict(config).items())
