"""Weights and parameters of some output blocks in the ring: allocated together, loaded piece by piece."""

from dataclasses import dataclass, field

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.mac_weights import Packed
from tq_hw.compiler.emit.ring import Constants
from tq_hw.compiler.stream.stream import Access

__all__ = ["MacConstants"]

#: Longest step that fits in a field.
_STEP_LIMIT = 0x7FFF


@dataclass
class MacConstants:
    """Constants of output blocks `blocks`, block after block.

    If words of weights and of parameters have the same size, a block has both. Parameters come first: if only biases
    are loaded, the vector unit also reads the weights after them, which must therefore have been loaded.

    Members
    -------
    parameters : bytes of each output block of the layer
    same : whether the constants of the first block serve all blocks
    again : whether other layers have the same weights: these are loaded separately, unless they are still in the ring
    loaded : first block that is not in the ring yet
    step : words of a block
    """

    emitter: Emitter
    packed: Packed
    parameters: tuple[bytes, ...]
    blocks: tuple[int, int]
    same: bool = False
    again: bool = False
    loaded: int = field(init=False)
    step: int = field(init=False)
    #: Words of a block before its weights; words after a short block that the vector unit reads with it.
    _before: int = field(init=False, default=0)
    _after: int = field(init=False, default=0)
    _placed: Constants = field(init=False)
    #: Parameters, if they are separate from the weights.
    _apart: Constants | None = field(init=False, default=None)
    #: Whether the weights of an earlier layer are still in the ring.
    _there: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Allocate all blocks."""
        config = self.emitter.config
        first, last = self.blocks
        self.loaded = first
        parameters = self.parameters[first:first + 1 if self.same else last]
        weights = [self.packed.part((block, block + 1), None) for block in range(first, first + len(parameters))]
        self.step = self.packed.words()
        if config.cols != config.word_bytes or self.again:
            there = self.emitter.kept(b"".join(weights)) if self.again else None
            self._there = there is not None
            self._placed = there or self.emitter.place(b"".join(weights), config.cols)
            self._apart = self.emitter.place(b"".join(parameters), config.word_bytes)
            return
        self._before = len(parameters[0]) // config.word_bytes
        self.step += self._before
        self._after = max(0, config.param_words - self.step)
        self._placed = self.emitter.place(
            b"".join(a + b for a, b in zip(parameters, weights, strict=True)) + bytes(self._after * config.word_bytes),
            config.word_bytes)

    @property
    def spans(self) -> bool:
        """Whether an operation can have several blocks."""
        return self.step <= _STEP_LIMIT

    def _number(self, block: int) -> int:
        return 0 if self.same else block - self.blocks[0]

    def array_fields(self, blocks: tuple[int, int]) -> dict[str, int]:
        """Fields of the array for some blocks."""
        step = 0 if self.same or not self.spans else self.step
        return {"weight_base": self._placed.base + self._number(blocks[0]) * self.step + self._before,
                "weight_block_step": step}

    def vector_fields(self, blocks: tuple[int, int]) -> dict[str, int]:
        """Fields of the vector unit for some blocks."""
        placed, step = (self._placed, self.step) if self._apart is None else (
            self._apart, self.emitter.config.param_words)
        return {"param_base": placed.base + self._number(blocks[0]) * step,
                "param_block_step": 0 if self.same or not self.spans else step}

    def reads(self, blocks: tuple[int, int]) -> tuple[Access, ...]:
        """Accesses of operations on some blocks."""
        first = self._number(blocks[0])
        last = first + (1 if self.same else blocks[1] - blocks[0])
        base = self._placed.base
        found = [Access("pad", base + first * self.step, base + last * self.step + self._after)]
        if self._apart is not None:
            size = self.emitter.config.param_words
            found.append(Access("pad", self._apart.base + first * size, self._apart.base + last * size))
        return tuple(found)

    def bring_words(self, last: int, words: tuple[int, int]) -> tuple[Access, ...]:
        """Load some weight words of each block before `last`; the first words come with the parameters.

        Returns the written accesses of weights. The blocks count as loaded; no block may be loaded before.
        """
        first, self.loaded, config = self.blocks[0], last, self.emitter.config
        assert not self._after and not self.same, "weights are as long as parameters"
        if words[0] == 0 and self._apart is not None:
            self.emitter.bring(self._apart, 0, (last - first) * config.param_words)
        low = self._before + words[0] if words[0] else 0
        return self.emitter.bring_each(self._placed, low, self._before + words[1], last - first, self.step)

    def bring(self, last: int) -> None:
        """Load the blocks before `last` that are not loaded yet."""
        first, self.loaded = self._number(self.loaded), last
        if first == 0 or not self.same:
            end = 1 if self.same else self._number(last)
            there = first * self.step + self._after if first else 0
            if not self._there:
                self.emitter.bring(self._placed, there, end * self.step + self._after)
                if self.again and last == self.blocks[1]:
                    self.emitter.keep(self._placed)
            if self._apart is not None:
                size = self.emitter.config.param_words
                self.emitter.bring(self._apart, first * size, end * size)
