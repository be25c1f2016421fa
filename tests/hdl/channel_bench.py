"""What tests of both memory channels need: configurations, one bench for each, bursts, and what the memory holds."""

import random
from functools import cache
from typing import Any

from bench import Bench

from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.layout import BURST_BYTES

TINY = PRESETS["tiny"]
CONFIGS = {bus_bytes: Config(f"bus{bus_bytes}", 4, 4, 2, 8 << 10, bus_bytes=bus_bytes) for bus_bytes in (4, 8, 16)}
#: Address and beats less one.
Burst = tuple[int, int]
CLIENTS = ("fetch", "load")
#: OKAY, EXOKAY, SLVERR, DECERR.
RESPONSES = range(4)


@cache
def channel_of(kind: type, config: Config) -> tuple[Any, Bench]:
    dut = kind(config)
    return dut, Bench(dut)


def random_bursts(rng: random.Random, bus_bytes: int, count: int) -> list[Burst]:
    """Return bursts that stay in their block of 256 bytes; many end at its end."""
    bursts = []
    beats = BURST_BYTES // bus_bytes
    for _ in range(count):
        first = rng.randrange(beats)
        length = rng.choice([0, beats - 1 - first, rng.randrange(beats - first)])
        bursts.append((rng.getrandbits(24) * BURST_BYTES + first * bus_bytes, length))
    return bursts


def content(number: int, addr: int, bus_bytes: int) -> tuple[int, int]:
    """Return what the memory of these tests answers a client at an address: data and response."""
    seed = (addr // bus_bytes * 2 + number) * 0x9E3779B97F4A7C15F39CC0605CEDC835
    return seed % (1 << 8 * bus_bytes), (0, 0, 0, *RESPONSES)[(seed >> 64) % 7]
