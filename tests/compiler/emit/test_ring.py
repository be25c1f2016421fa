"""The ring: where pieces of constants are placed, and how much room the retained ones leave."""

import random

from tq_hw.compiler.emit.ring import Ring


def test_a_piece_of_the_room_that_is_told_always_fits_and_a_longer_one_never_does() -> None:
    rng = random.Random(5)
    for _ in range(300):
        words, base = rng.randrange(64, 1024), rng.randrange(64)
        ring = Ring(words)
        while (room := ring.room(base)) and rng.random() < 0.8:
            assert ring.take(rng.randrange(1, room + 1), base, held=rng.random() < 0.5) is not None
        if room:
            longer = Ring(words)
            longer.live = list(ring.live)
            assert longer.take(room + 64, base, held=False) is None
            assert ring.take(room, base, held=False) is not None
