"""Selection among words: by patterns decoded a cycle ahead, or by a part's position in a longer word."""

from collections.abc import Mapping, Sequence

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.utils import ceil_log2

__all__ = ["TURN_BITS", "choose_later", "differ", "is_one_of", "part_at", "rotate_down", "rotate_up"]

#: Bits of a count of lanes that one LUT of six inputs serves.
TURN_BITS = 2


def is_one_of(value: Value, patterns: Sequence[int]) -> Value:
    """Return whether a value is one of these."""
    return Cat(value == pattern for pattern in patterns).any()


def differ(bits: Value, *, wide_luts: bool) -> Value:
    """Return whether the bits are not all equal. A LUT of six inputs compares five bits with the last one."""
    if wide_luts:
        return (bits[:-1] ^ bits[-1].replicate(len(bits) - 1)).any()
    return ~bits.all() & bits.any()


def part_at(word: Value, index: Value, bits: int) -> Value:
    """Return the part of `bits` bits at an index of a word of such parts.

    Value.word_select multiplies the index by the width if that is no power of two, and synthesis may spend a
    multiplier on it. This function pads the parts instead.
    """
    room = 1 << ceil_log2(bits)
    if room == bits:
        return word.word_select(index, bits)
    parts = (Cat(word[start:start + bits], Const(0, room - bits)) for start in range(0, len(word), bits))
    return Cat(parts).word_select(index, room)[:bits]


def choose_later(m: Module, pattern: Value, places: Mapping[int, int], choices: Mapping[int, Value],
                 name: str) -> Value:
    """Return choices[places[pattern]] one cycle after the pattern; any of the choices if the pattern has no place.

    The index is decoded into a register, which all bits of the words share.
    """
    used = sorted(set(places.values()))
    if len(used) == 1:
        return choices[used[0]]
    index = Signal(ceil_log2(len(used)), name=name, reset_less=True)
    m.d.sync += index.eq(Cat(
        is_one_of(pattern, [each for each, place in places.items() if used.index(place) >> bit & 1])
        for bit in range(len(index))))
    return _choose(index, [choices[place] for place in used])


def _choose(index: Value, choices: Sequence[Value]) -> Value:
    """Return choices[index], all of one width; any of them for an index beyond them."""
    bit = 0
    while len(choices) > 1:
        choices = [Mux(index[bit], choices[first + 1], choices[first]) if first + 1 < len(choices) else choices[first]
                   for first in range(0, len(choices), 2)]
        bit += 1
    return choices[0]


def rotate_up(m: Module, word: Value, lanes: Value, name: str, lane_bits: int = 8) -> Value:
    """Return the word moved up by `lanes` lanes of `lane_bits` bits, modulo its length (a power of two of lanes).

    A LUT of six inputs rotates a bit by TURN_BITS bits of `lanes`. A word of 16 bytes needs two such LUTs, and three
    without a register between them. So where `rotate_cycles` is 2, the first cycle rotates by that many bits.
    """
    return _rotated(m, word, lanes, name, lane_bits)


def rotate_down(m: Module, word: Value, lanes: Value, name: str, lane_bits: int = 8) -> Value:
    """Return the word moved down by `lanes` lanes of `lane_bits` bits, modulo its length."""
    return _rotated(m, word, lanes, name, -lane_bits)


def _rotated(m: Module, word: Value, lanes: Value, name: str, bits: int) -> Value:
    for bit in range(len(lanes)):
        moved = Signal(len(word), name=f"{name}_{bit}")
        m.d.comb += moved.eq(Mux(lanes[bit], word.rotate_left(bits << bit), word))
        word = moved
    return word
