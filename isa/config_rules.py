"""What each key of a configuration may be, by rule, and the legal value nearest to one that breaks it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

__all__ = ["RULES", "Rule", "Sizes", "broken_rule", "nearest"]

_SCRATCHPAD_WORDS = tuple(1 << n for n in range(9, 17))


class Sizes(Protocol):
    """What a rule looks at: the keys before it in the table keep theirs already."""

    @property
    def rows(self) -> int:
        """Multiplier rows."""
        ...

    @property
    def cols(self) -> int:
        """Multiplier columns."""
        ...

    @property
    def requantize_lanes(self) -> int:
        """Lanes of the vector unit."""
        ...

    @property
    def acc_buffers(self) -> int:
        """Accumulator buffers."""
        ...

    @property
    def dsp_packing(self) -> int:
        """Products that share a multiplier."""
        ...

    @cached_property
    def word_bytes(self) -> int:
        """Bytes of a scratchpad word."""
        ...

    @cached_property
    def beats_per_word(self) -> int:
        """Vector-unit beats for one scratchpad word."""
        ...


@dataclass(frozen=True)
class Rule:
    """One key.

    Members
    -------
    key : name of the member, and of the key in a TOML file
    rule : in words, after the key
    legal : every legal value, given the keys before it
    cost : what more of it buys and takes
    """

    key: str
    rule: str
    legal: Callable[[Sizes], Iterable[int]]
    cost: str


def _always(*values: int) -> Callable[[Sizes], Iterable[int]]:
    return lambda _: values


def _divisors(value: int) -> list[int]:
    return [n for n in range(1, value + 1) if value % n == 0]


#: In the order in which they are checked.
RULES: Sequence[Rule] = (
    Rule("rows", "must be 3 to 32 (a depthwise group takes three rows)", lambda _: range(3, 33),
         "multipliers: rows * cols; input channels that are summed in one cycle"),
    Rule("cols", "must be 2 to 32", lambda _: range(2, 33),
         "multipliers: rows * cols; output channels that are computed together; width of the memories"),
    Rule("requantize_lanes", "must divide cols", lambda sizes: _divisors(sizes.cols),
         "a multiplier of 32 bits each; results per cycle of everything that is no convolution"),
    Rule("acc_words", "must be a power of two from 16 to 1024", lambda _: (1 << n for n in range(4, 11)),
         "RAM of 4 * cols bytes a word and buffer; longer tiles, so fewer loads of weights"),
    Rule("acc_buffers", "must be 2 or 4", _always(2, 4),
         "RAM, as acc_words; array and vector unit wait less for each other"),
    Rule("acc_open", "must be 0 or acc_buffers", lambda sizes: (0, sizes.acc_buffers),
         "a few LUTs; a first layer of 1x1 kernels begins before its input is loaded"),
    Rule("dsp_packing", "must be 0 or 2", _always(0, 2),
         "half the multipliers of the array where one takes 25 bits by 8 (DSP48E1), for some LUTs and two block RAMs "
         "(of 18 Kbit) per two rows and eight columns; steps of the array of an odd number of cycles take one more"),
    Rule("block_uops", "must be 0 or 1", _always(0, 1),
         "four block RAMs (of 18 Kbit) in place of LUTs for the vector unit's programs"),
    Rule("bus_bytes", "must be 4, 8 or 16", _always(4, 8, 16),
         "width of the load and store units; at most as many bytes per cycle from memory"),
    Rule("fold_steps", "must be 1 to 16", lambda _: range(1, 17),
         "a small table; kernels of up to as many words of few channels are folded into one pass"),
    Rule("uops", "must be 32 or 64", _always(32, 64), "RAM of the vector unit's programs; longer fused programs"),
    Rule("vector_words", "must be a power of two from 128 to 4096, at least 8 * block / requantize_lanes "
         "(each of eight registers holds a word)",
         lambda sizes: (1 << n for n in range(7, 13) if 1 << n >= 8 * sizes.beats_per_word),
         "RAM of 4 * requantize_lanes bytes a word; longer rows at a time in softmax, LSTM and the like"),
    Rule("activation_lanes", "must be 0 or divide requantize_lanes",
         lambda sizes: (0, *_divisors(sizes.requantize_lanes)),
         "a pipeline with 14 multipliers and a table each; logistic and tanh of LSTMs apart from the vector unit"),
    Rule("compressed_weights", "must be 0 or 1", _always(0, 1),
         "a decoder, 600 LUTs with 8 columns; fewer bytes from memory where weights are alike or many are 0"),
    Rule("dsp_preadders", "must be 0 or 1, and 0 with dsp_packing, whose multipliers add anyway",
         lambda sizes: (0,) if sizes.dsp_packing else (0, 1),
         "8 LUTs less a multiplier where it has an adder before it (DSP48E1); elsewhere more of them"),
    Rule("few_counters", "must be 0 or 1", _always(0, 1),
         "LUTs: only cycles are counted, not what each unit did and waited for; those counters read as 0"),
    Rule("few_luts", "must be 0 or 1", _always(0, 1),
         "a tenth of the LUTs less where they have six inputs (7 series), for flip-flops: a word of 16 bytes or more "
         "takes a cycle more; load and store share ports with the vector unit where a word takes it two beats or more"),
    Rule("scratchpad_bytes", "must be a power of two of words of `word_bytes`, 512 to 65536 words",
         lambda sizes: (words * sizes.word_bytes for words in _SCRATCHPAD_WORDS),
         "block RAM; fewer bytes to and from memory, larger layers in one piece"),
)


def nearest(rule: Rule, sizes: Sizes, value: int) -> int:
    """Return the legal value of a key that is nearest to `value`; of two the smaller."""
    return min(rule.legal(sizes), key=lambda legal: (abs(legal - value), legal))


def broken_rule(sizes: Sizes) -> tuple[Rule, int] | None:
    """Return the first rule that is broken, with the nearest legal value; None when all hold."""
    for rule in RULES:
        value = getattr(sizes, rule.key)
        if value not in set(rule.legal(sizes)):
            return rule, nearest(rule, sizes, value)
    return None
