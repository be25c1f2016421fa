"""Small machines drawn by number, for benches/area.py: even numbers for the fit of the resource model, odd ones not."""

import random

from tq_hw.isa.config import Config, ConfigError

__all__ = ["drawn", "is_held"]

#: Most multipliers of the array: a synthesis of one costs a minute of CPU time.
_MACS = 112
#: Every fifth machine packs two products into a multiplier.
_PACKED, _EVERY = 4, 5


def is_held(number: int) -> bool:
    """Whether a drawn machine is kept out of the fit, to hold the fit against it."""
    return number % 2 == 1


def drawn(number: int) -> Config:
    """Return the machine of a number; sizes and options are drawn from all that is legal, arrays and lanes small."""
    chance = random.Random(number)
    while True:
        rows = chance.choice((3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16))
        cols = chance.choice((2, 3, 4, 5, 6, 8, 10, 12, 16))
        values: dict[str, object] = {
            "rows": rows, "cols": cols, "requantize_lanes": chance.choice((1, 2, 3, 4)),
            "scratchpad_bytes": 1 << chance.randint(12, 17), "acc_words": 1 << chance.randint(4, 8),
            "acc_buffers": chance.choice((2, 4)), "acc_open": chance.choice((0, 0, 4)),
            "bus_bytes": chance.choice((4, 8, 8, 16)), "fold_steps": chance.choice((1, 4, 8, 16, 16)),
            "uops": chance.choice((32, 64)), "vector_words": 1 << chance.randint(7, 10),
            "activation_lanes": chance.choice((0, 0, 1)),
            "dsp_packing": 2 if number % _EVERY == _PACKED else 0}
        if rows * cols > _MACS:
            continue
        try:
            return Config.from_mapping(values, f"drawn {number}")
        except ConfigError:  # most draws are no machine
            continue
