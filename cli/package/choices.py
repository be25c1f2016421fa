"""Options of `tq-hw generate`: from the command line, else from the table `generate` in the configuration's file."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from tq_hw.cli.package.facts import MEMORIES, Core, core_of
from tq_hw.hdl.top import CONTROLS, MEMORY_BUSES
from tq_hw.isa.config import load_config
from tq_hw.isa.table import read_table
from tq_hw.model.errors import OptionError

__all__ = ["DEFAULTS", "LEGAL", "Choices", "chosen_core", "to_table"]

#: Legal values of an option.
LEGAL = {"control": tuple(CONTROLS), "memory_bus": tuple(MEMORY_BUSES), "memories": MEMORIES}
#: Default values.
DEFAULTS = {"control": "axi4lite", "memory_bus": "axi4", "memories": "inferred"}
_KEYS = (*LEGAL, "name")


@dataclass(frozen=True)
class Choices:
    """Options on the command line; None: not given."""

    control: str | None = None
    memory_bus: str | None = None
    memories: str | None = None
    name: str | None = None


def _checked(path: str, table: Mapping[str, object]) -> dict[str, str]:
    """Return a table's options; OptionError names file, key and the nearest legal name."""
    found: dict[str, str] = {}
    for key, value in table.items():
        if key not in _KEYS:
            near = "".join(f"; did you mean {one}?" for one in get_close_matches(key, _KEYS, 1))
            raise OptionError(f"{path}: unknown key {key!r} in [generate]"
                              + (near or f"; known keys are {', '.join(_KEYS)}"))
        legal = LEGAL.get(key, ())
        if not isinstance(value, str) or legal and value not in legal:
            # The low cutoff also finds distant names: axi is nearest to axi4lite.
            near = "".join(f"; did you mean {one}?" for one in get_close_matches(str(value).lower(), legal, 1, 0.3))
            rule = f"{', '.join(legal[:-1])} or {legal[-1]}" if legal else "a text"
            raise OptionError(f"{path}: generate.{key} must be {rule}, not {value!r}{near}")
        found[key] = value
    return found


def chosen_core(config: str, choices: Choices) -> Core:
    """Return the core for a preset's name or a path that ends in .toml.

    ConfigError for the configuration. OptionError for options, including those in the file that are overridden.
    """
    machine = load_config(config)
    # load_config has read and checked the file: the table is valid TOML.
    table = read_table(config).get("generate") if config.endswith(".toml") else None
    said = _checked(config, table) if isinstance(table, dict) else {}
    given = {key: value for key, value in vars(choices).items() if value is not None}
    spelled = {key: f"{config}: generate.{key}" for key in said if key not in given}
    values = DEFAULTS | said | given
    return core_of(machine, values["control"], values.get("name"), values["memory_bus"], values["memories"], spelled)


def to_table(core: Core) -> str:
    """Return the table that reproduces this core, to be appended to a configuration's file."""
    return "\n[generate]\n" + "".join(f'{key} = "{getattr(core, key)}"\n' for key in _KEYS)
