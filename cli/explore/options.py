"""Options of a configuration, such as packed products: which are worth trying for these models."""

from collections.abc import Sequence
from dataclasses import asdict, fields, replace

from tq_hw.boards.resources.memories import block_rams, multipliers
from tq_hw.boards.resources.record import machines
from tq_hw.cli.explore.target import Target
from tq_hw.compiler import estimate_model
from tq_hw.isa.config import Config, ConfigError
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model

__all__ = ["OPTIONS", "with_options"]

#: Optional keys of a configuration. `acc_open` is not among them: every space has its values.
OPTIONS = tuple(field.name for field in fields(Config) if field.default == 0 and field.name != "acc_open")


def with_options(target: Target, models: Sequence[Model]) -> Target:
    """Return a board's target whose space also has the options that improve its preset.

    Better are fewer multipliers, fewer block RAMs, fewer cycles of a model, or fewer bytes. An option is tried where
    a machine with it was synthesized for the family, because otherwise its LUTs are unknown.
    """
    preset = target.preset
    if preset is None:
        return target
    known = [machine.config for machine in machines(target.family) if machine.config.design == "parallel"]
    space, before = dict(target.space), _measures(preset, target, models)
    for key in OPTIONS:
        if len(space.get(key, ())) == 1:
            values = {getattr(config, key) for config in known} - set(space[key])
            better = {value for value in values if any(one < other for one, other in zip(
                _measures_with(preset, key, value, target, models), before, strict=False))}
            space[key] = tuple(sorted({*space[key], *better}))
    return replace(target, space=space)


def _measures_with(preset: Config, key: str, value: int, target: Target, models: Sequence[Model]) -> list[float]:
    try:
        return _measures(Config.from_mapping({**asdict(preset), key: value}, preset.name), target, models)
    except (ConfigError, UnsupportedError):  # not a legal value, or the models do not run with it
        return []


def _measures(config: Config, target: Target, models: Sequence[Model]) -> list[float]:
    """Return the values to minimize."""
    found = [estimate_model(model, config, target.rate) for model in models]
    return [sum(multipliers(config, target.family).values()), sum(block_rams(config, target.family).values()),
            *(each.cycles for each in found), *(each.bytes for each in found)]
