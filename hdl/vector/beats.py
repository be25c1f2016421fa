"""The position of a beat's elements, as word and byte offset, by element size and beat position.

Element c of a slot is at byte c * size of consecutive words; beat position p has the channels from
p * requantize_lanes on. No element spans two words, but a beat of several bytes per element may.
"""

from collections.abc import Callable, Iterator

from amaranth import Const, Mux
from amaranth.hdl import Value

from tq_hw.isa.config import Config

__all__ = ["ELEMENT_TYPES", "Beats", "element_bytes", "select"]

#: Bytes and signedness of an element by the code in a_type, b_type, out_type.
ELEMENT_TYPES: tuple[tuple[int, bool], ...] = ((1, True), (2, True), (4, True), (1, False))


def element_bytes(code: int) -> int:
    """Return the size of an element of type `code`."""
    return ELEMENT_TYPES[code][0]


class Beats:
    """Geometry of the beats of one configuration. Everything here is known at elaboration.

    Members
    -------
    positions : beats of a scratchpad word of int8
    max_steps : most words that one beat touches
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.positions = config.beats_per_word
        self.max_steps = max(self.steps(code) for code in range(4))

    def byte(self, code: int, position: int, lane: int) -> int:
        """Return the byte of a lane's element, counted from the slot's first word."""
        return (position * self.config.requantize_lanes + lane) * element_bytes(code)

    def first_word(self, code: int, position: int) -> int:
        """Return the first word that the beat touches."""
        return self.byte(code, position, 0) // self.config.word_bytes

    def last_word(self, code: int, position: int) -> int:
        """Return the last word that the beat touches."""
        last = self.config.requantize_lanes - 1
        return (self.byte(code, position, last) + element_bytes(code) - 1) // self.config.word_bytes

    def words(self, code: int, position: int) -> int:
        """Return how many words the beat touches."""
        return self.last_word(code, position) - self.first_word(code, position) + 1

    def shares_word(self, code: int, position: int) -> bool:
        """Whether the beat starts in the word in which the previous one ends."""
        return position > 0 and self.first_word(code, position) == self.last_word(code, position - 1)

    def steps(self, code: int) -> int:
        """Return the words of a beat, the most of all positions."""
        return max(self.words(code, position) for position in range(self.positions))

    def places(self, code: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (position, step, lane, byte in the step's word) of every element of a slot."""
        for position in range(self.positions):
            for lane in range(self.config.requantize_lanes):
                word, byte = divmod(self.byte(code, position, lane), self.config.word_bytes)
                yield position, word - self.first_word(code, position), lane, byte

    def look_up(self, code: Value, position: Value, function: Callable[[int, int], int]) -> Value:
        """Return function(code, position) for values known only at run time."""
        rows = [select(position, [function(c, p) for p in range(self.positions)]) for c in range(4)]
        return Mux(code[1], Mux(code[0], rows[3], rows[2]), Mux(code[0], rows[1], rows[0]))


def select(index: Value, choices: list[int]) -> Value:
    """Return choices[index]."""
    width = max(choices).bit_length() or 1
    values: list[Value] = [Const(value, width) for value in choices]
    bit = 0
    while len(values) > 1:
        values = [values[i] if i + 1 == len(values) else Mux(index[bit], values[i + 1], values[i])
                  for i in range(0, len(values), 2)]
        bit += 1
    return values[0]
