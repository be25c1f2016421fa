"""Random fields of operations that keep to every rule, and of some that do not."""

import random

from tq_hw.isa.config import Config
from tq_hw.isa.fields import fields_of
from tq_hw.isa.layout import UNITS, Unit
from tq_hw.isa.refusals import broken_rule

__all__ = ["legal_fields", "random_value"]

_ONES = {
    Unit.LOAD: ("count0", "count1", "count2", "count3", "emit_bytes", "last_emit_bytes"),
    Unit.STORE: ("count0", "count1", "count2", "count3", "take_bytes", "last_take_bytes"),
    Unit.ARRAY: ("acc_first", "acc_last", "slots", "out_cols", "out_blocks", "tile_slots", "weight_rows", "kernel_rows",
                 "kernel_cols", "kernel_blocks", "slices"),
    Unit.VECTOR: ("cols", "out_blocks", "slots", "tile_slots", "chunk_slots", "repeat1", "repeat2", "body_first"),
}


def random_value(rng: random.Random, unit: Unit, name: str) -> int:
    """Return a value of a field: small, at its ends, or any."""
    field = UNITS[unit].fields[name][1]
    any_value = rng.randint(field.low, field.high)
    return min(rng.choice((rng.randint(0, 5), rng.randint(0, 40), field.low, field.high, any_value)), field.high)


def legal_fields(rng: random.Random, unit: Unit, config: Config, open_buffers: int = 0) -> dict[str, int]:
    """Return all fields of an operation, tokens 0, each of them random as far as the rules allow."""
    fields = dict.fromkeys((f.name for f in fields_of(unit, config)), 0) | dict.fromkeys(_ONES[unit], 1)
    if open_buffers > 1:
        fields["out_blocks"] = open_buffers
    names = [name for name in fields if not name.startswith(("wait_", "post_"))]
    rng.shuffle(names)
    for name in names:
        tried = fields | {name: random_value(rng, unit, name)}
        if not broken_rule(config, unit, tried, open_buffers):
            fields = tried
    return fields
