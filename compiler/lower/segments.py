"""Index lists as slices: the elements of a gather or a resize become a few strided copies."""

from collections.abc import Sequence

__all__ = ["affine_segments"]

#: Longest period that is searched for in index lists.
_PERIODS = 8


def affine_segments(indices: Sequence[int]) -> list[tuple[slice, slice]]:
    """Cut an index list into few pieces (output slice, input slice) of constant steps.

    An input slice of step 0 is written as a slice of one index.
    """
    values = [int(index) for index in indices]
    best: list[tuple[slice, slice]] = []
    for period in range(1, min(_PERIODS, max(1, len(values))) + 1):
        found = []
        for first in range(min(period, len(values))):
            found += _runs(values, first, period)
        if not best or len(found) < len(best):
            best = found
    return best


def _runs(values: list[int], first: int, period: int) -> list[tuple[slice, slice]]:
    places = list(range(first, len(values), period))
    out = []
    at = 0
    while at < len(places):
        end = at + 1
        step = values[places[end]] - values[places[at]] if end < len(places) else 1
        while end < len(places) and values[places[end]] - values[places[end - 1]] == step:
            end += 1
        target = slice(places[at], places[end - 1] + 1, period)
        low = values[places[at]]
        if step == 0 or end == at + 1:
            source = slice(low, low + 1)
        elif step > 0:
            source = slice(low, values[places[end - 1]] + 1, step)
        else:
            last = values[places[end - 1]]
            source = slice(low, last - 1 if last > 0 else None, step)
        out.append((target, source))
        at = end
    return out
