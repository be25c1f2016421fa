"""Configurations as TOML files."""

from dataclasses import asdict

from tq_hw.isa.config import Config

__all__ = ["config_file", "to_toml"]


def to_toml(config: Config) -> str:
    """Return a configuration as a file for --config."""
    return "".join(f"{key} = {value if isinstance(value, int) else repr(value).replace(chr(39), chr(34))}\n"
                   for key, value in asdict(config).items())


def config_file(config: object) -> str | None:
    """Return the file that --config names, None for a preset, a board's configuration or none."""
    return config if isinstance(config, str) and config.endswith(".toml") else None
