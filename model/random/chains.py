"""Recipes of random graphs with chains of TRANSPOSE and RESHAPE, and with parts of shuffled channels."""

from tq_hw.model.random.movement import reshape, shuffle, transpose
from tq_hw.model.random.sketch import Sketch

__all__ = ["halves", "permuted"]


def permuted(s: Sketch, x: int) -> list[int]:
    """Two to six of TRANSPOSE and RESHAPE in a chain; sometimes an inner result is read, too."""
    made = [x]
    for _ in range(s.between(2, 6)):
        recipe = transpose if len(s.shape(made[-1])) > 1 and s.chance(0.6) else reshape
        made += recipe(s, made[-1])
    return [made[-1], s.pick(*made[1:-1])] if s.chance(0.2) else made[-1:]


def halves(s: Sketch, x: int) -> list[int]:
    """Parts of shuffled channels, some of which are moved on and others read by operators."""
    y = shuffle(s, x)[0]
    count = s.pick(*(n for n in (1, 2, 3, 4) if s.shape(y)[3] % n == 0))
    parts = s.b.add_many("SPLIT", [s.indices(3), y], count)
    made = []
    for part in parts:
        made += s.pick(lambda z: [s.b.add("RELU", [z], **s.like(z))], lambda z: transpose(s, z),
                       lambda z: reshape(s, z), lambda z: [z])(part)
    return made
