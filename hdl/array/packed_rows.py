"""Which rows of the array share a multiplier where two products are packed into one, and in which order they add up."""

from tq_hw.isa.config import Config
from tq_hw.isa.latency import PACKED_CHAIN_CELLS, packed_chain_cells

__all__ = ["Pair", "packed_chains"]

#: The rows that a cell serves in the first and in the second cycle of two slots; None: it rests.
Pair = tuple[int | None, int | None]


def _pairs(config: Config) -> list[Pair]:
    """Return the cells of a column in their order.

    The taps of a depthwise group take the same column bytes a cycle after each other: two of them share a cell, the
    third has one with a row of no group, or with the third of the next group.
    """
    plain: list[int] = list(range(3 * config.groups, config.rows))
    found: list[Pair] = []
    group = 0
    while group < config.groups:
        tap = 3 * group
        if plain:
            found += [(tap, tap + 1), (plain.pop(0), tap + 2)]
        elif group + 1 < config.groups:
            found += [(tap, tap + 1), (tap + 3, tap + 4), (tap + 2, tap + 5)]
            group += 1
        else:
            found += [(tap, tap + 1), (None, tap + 2)]
        group += 1
    while plain:
        found.append((plain.pop(0), plain.pop(0) if plain else None))
    return found


def packed_chains(config: Config) -> list[dict[int, Pair]]:
    """Return the chains of a column, whose sums are added: cells by position, all of which end at the same one.

    A position is the cycles by which a cell is behind the first one. All depthwise groups are in the first chain.
    """
    pairs, length = _pairs(config), packed_chain_cells(config)
    parts = [pairs[at:at + PACKED_CHAIN_CELLS] for at in range(0, len(pairs), PACKED_CHAIN_CELLS)]
    return [dict(enumerate(part, length - len(part))) for part in parts]
