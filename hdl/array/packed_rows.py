"""Which rows of the array share a cell with packed products, and the order in which their sums are added."""

from tq_hw.isa.config import Config
from tq_hw.isa.latency import PACKED_CHAIN_CELLS, packed_chain_cells

__all__ = ["Pair", "packed_chains"]

#: The rows that a cell computes in the first and in the second cycle of a pair of slots; None: idle.
Pair = tuple[int | None, int | None]


def _pairs(config: Config) -> list[Pair]:
    """Return the cells of a column in order.

    The taps of a depthwise group take the same column bytes in successive cycles. Two of them share a cell; the
    third shares one with a row of no group, or with the third tap of the next group.
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
    """Return the chains of a column, whose sums are added: cells by position. All chains end at the same position.

    The position is the delay of a cell after the first one, in cycles. The first chain has all depthwise groups.
    """
    pairs, length = _pairs(config), packed_chain_cells(config)
    parts = [pairs[at:at + PACKED_CHAIN_CELLS] for at in range(0, len(pairs), PACKED_CHAIN_CELLS)]
    return [dict(enumerate(part, length - len(part))) for part in parts]
