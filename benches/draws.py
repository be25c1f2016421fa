"""Machines for benches/area.py: random ones by number, and a list of unusual ones. Some are kept out of the fit."""

import random
import re

from tq_hw.isa.config import Config, ConfigError, load_config

__all__ = ["KEPT_OUT", "drawn", "is_held", "parse_config"]

#: Unusual machines by family that the fit of the resource model does not use, to check it.
KEPT_OUT = {
    "ecp5": (
        "7x5x5,scratchpad_bytes=32768,acc_words=64", "5x7x7,bus_bytes=16", "11x3x3,scratchpad_bytes=16384,acc_open=4",
        "10x12x3,scratchpad_bytes=32768,compressed_weights=1",
        "6x9x1,scratchpad_bytes=16384,bus_bytes=4,acc_open=4,activation_lanes=1",
        "3x10x2,scratchpad_bytes=32768,bus_bytes=4",
        "12x5x1,scratchpad_bytes=8192,vector_words=1024,uops=32,acc_buffers=2",
        "24x3x1,scratchpad_bytes=65536,acc_words=32", "5x24x2,compressed_weights=1",
        "13x6x3,scratchpad_bytes=65536,activation_lanes=1", "17x4x2,scratchpad_bytes=32768,dsp_packing=2",
        "10x14x7,scratchpad_bytes=131072,acc_words=256", "8x11x1,bus_bytes=16,scratchpad_bytes=32768,acc_words=256",
        "9x2x2,scratchpad_bytes=16384,vector_words=256",
        "20x6x2,scratchpad_bytes=32768,acc_words=64", "6x12x6,scratchpad_bytes=65536,bus_bytes=4,acc_open=4",
        "28x4x2", "18x9x3,scratchpad_bytes=131072", "14x5x5,scratchpad_bytes=16384,dsp_packing=2",
        "32x2x2,acc_words=32"),
    "gowin": ("5x3x3,bus_bytes=16,fold_steps=4,scratchpad_bytes=4096,uops=32,vector_words=1024",),
    "xc7": ("7x6x3,scratchpad_bytes=32768,acc_words=64", "5x10x5,scratchpad_bytes=16384,bus_bytes=16", "12x12x4",
            "9x8x4,scratchpad_bytes=16384,few_counters=1,block_uops=1,dsp_preadders=1,few_luts=1",
            "14x6x3,scratchpad_bytes=32768,dsp_packing=2,few_luts=1"),
}

_SIZES = re.compile(r"(\d+)x(\d+)x(\d+)((?:,\w+=\d+)*)")
#: Limit of the array's multipliers: each costs a minute of CPU time in synthesis.
_MACS = 112
#: Every fifth machine packs two products into a multiplier.
_PACKED, _EVERY = 4, 5


def parse_config(text: str) -> Config:
    """Return a preset, the configuration of a TOML file, or ROWSxCOLSxLANES[,key=value...] with `n8`'s scratchpad."""
    sizes = _SIZES.fullmatch(text)
    if sizes is None:
        return load_config(text)
    rows, cols, lanes = (int(sizes[n]) for n in (1, 2, 3))
    values = {"rows": rows, "cols": cols, "requantize_lanes": lanes, "scratchpad_bytes": 64 << 10}
    values |= {key: int(value) for key, value in (part.split("=") for part in sizes[4].split(",")[1:])}
    return Config.from_mapping(values, text)


def is_held(number: int) -> bool:
    """Whether a drawn machine is kept out of the fit, to check it: those of odd numbers are."""
    return number % 2 == 1


def drawn(number: int) -> Config:
    """Return the machine of a number. Sizes and options are drawn until they are legal; array and lanes stay small."""
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
        except ConfigError:  # most combinations are not legal
            continue
