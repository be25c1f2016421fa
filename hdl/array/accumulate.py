"""The accumulator buffers between the array and the vector unit."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.hdl import Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.parts.block_memory import block_memory, block_read
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.signatures import AccReadSignature
from tq_hw.isa.config import Config

__all__ = ["Accumulators", "SlotTag"]

#: What happens to the sums of a slot.
#: keep: add the sums (otherwise drop them); start: first slot of a step, goes to word 0, always kept;
#: overwrite: store the sums instead of adding them; take: with start, go to the next buffer;
#: full: with keep, the buffer is then complete; operation_end: with or without a slot, the operation's last tag.
SlotTag = data.StructLayout({
    "keep": 1, "start": 1, "overwrite": 1, "take": 1, "full": 1, "operation_end": 1})


class Accumulators(wiring.Component):
    """`acc_buffers` buffers of `acc_words` words of `cols` int32, in two block memories (even and odd buffers).

    A kept slot adds its sums to the word after the previous kept slot's, one word per cycle. Two additions to one
    word must be at least REWRITE_CYCLES apart; the sequencer's steps are. Buffers are filled and read in ring order.
    In each memory the array's read has priority over the vector unit's. Overwriting does not read.

    Members
    -------
    tag : In(SlotTag), TAG_LEAD_CYCLES before psum
    psum : In(cols sums), signed
    acc : the vector unit's port
    free : Out(1), a buffer is free; take : In(1), strobe, only while `free`: take that buffer
    done : Out(1), strobe: a tag with operation_end came through, and all sums before it are written
    """

    tag: Any
    psum: Any
    acc: Any
    free: Signal
    take: Signal
    done: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "tag": In(SlotTag),
            "psum": In(data.ArrayLayout(signed(config.partial_sum_bits), config.cols)),
            "acc": In(AccReadSignature(config)),
            "free": Out(1), "take": In(1), "done": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """Stages: 0 tag, 1 address to the memory, 2 and 3 memory output, 4 addend, 5 sum to the memory."""
        m = Module()
        config = self._config
        word_shape = data.ArrayLayout(signed(32), config.cols)
        buffer_bits = ceil_log2(config.acc_buffers)

        read_buffer, filled = self._count_buffers(m)

        # Stage 1: address of the slot.
        buffer = Signal(buffer_bits, init=config.acc_buffers - 1)
        word = Signal(range(config.acc_words))
        tag = delayed(m, self.tag, 1, "tag", control=True)
        with m.If(self.tag.keep):
            m.d.sync += word.eq(Mux(self.tag.start, 0, word + 1))
            with m.If(self.tag.start & self.tag.take):
                m.d.sync += buffer.eq(buffer + 1)
        address = Cat(word, buffer[1:])
        # The memory that the array reads, in registers: the vector unit's grant depends on it.
        fetch = Signal(2)
        next_odd = buffer[0] ^ (self.tag.start & self.tag.take)
        m.d.sync += fetch.eq((self.tag.keep & ~self.tag.overwrite) << next_odd)

        # Stages 2 to 5: delay the flags.
        keep5 = delayed(m, tag.keep, 4, "keep", control=True)
        odd5 = delayed(m, buffer[0], 4, "odd")
        address5 = delayed(m, address, 4, "address")
        m.d.comb += [
            filled.eq(delayed(m, tag.keep & tag.full, 4, "filled", control=True)),
            self.done.eq(delayed(m, tag.operation_end, 4, "operation_end", control=True)),
        ]
        # Each memory has an addend register. The one not read is 0, so an OR chooses, within the adder's cells.
        addends: list[Any] = [Signal(word_shape, name=f"addend{number}", reset_less=True) for number in range(2)]
        total: Any = Signal(word_shape, reset_less=True)
        m.d.sync += [total[c].eq((addends[0][c] | addends[1][c]) + self.psum[c]) for c in range(config.cols)]

        vector_odd = read_buffer[0]
        vector_odd3 = delayed(m, vector_odd, 2, "vector_odd")
        granted3 = delayed(m, self.acc.en & self.acc.grant, 2, "granted", control=True)
        outputs = []
        m.d.comb += self.acc.grant.eq(~fetch.bit_select(vector_odd, 1))
        for odd in range(2):
            memory = block_memory(unsigned(32 * config.cols), config.acc_words * config.acc_buffers // 2)
            m.submodules[f"memory{odd}"] = memory
            write = memory.write_port()
            mine = fetch[odd]
            # The memory's output is late in its cycle, so it goes directly into a register.
            output = block_read(m, memory, mine | (self.acc.en & (vector_odd == odd)),
                                Mux(mine, address, Cat(self.acc.word, read_buffer[1:])), f"memory{odd}")
            outputs.append(delayed(m, output, 1, f"output{odd}"))
            m.d.comb += [
                write.en.eq(keep5 & (odd5 == odd)),
                write.addr.eq(address5),
                write.data.eq(total.as_value()),
            ]

        for number, output in enumerate(outputs):
            none = delayed(m, tag.overwrite | (buffer[0] != number), 2, f"none{number}")
            m.d.sync += addends[number].as_value().eq(output)
            with m.If(none):
                m.d.sync += addends[number].as_value().eq(0)
        self._hold(m, outputs, vector_odd3, granted3)
        return m

    def _hold(self, m: Module, outputs: list[Any], odd: Value, granted: Value) -> None:
        """Hold the granted word for the vector unit, of the even or the odd memory."""
        if not self._config.few_luts:
            held = Signal(32 * self._config.cols, reset_less=True)
            with m.If(granted):
                m.d.sync += held.eq(Mux(odd, outputs[1], outputs[0]))
            m.d.comb += self.acc.data.eq(held)
            return
        # A register for each memory. Its LUT of six inputs chooses the word and the lanes of the beat together.
        words = [Signal(32 * self._config.cols, name=f"held{number}", reset_less=True) for number in range(2)]
        which = Signal(reset_less=True)
        with m.If(granted):
            m.d.sync += which.eq(odd)
        for number, (word, output) in enumerate(zip(words, outputs, strict=True)):
            with m.If(granted & (odd == number)):
                m.d.sync += word.eq(output)
        m.d.comb += self.acc.data.eq(Mux(which, words[1], words[0]))

    def _count_buffers(self, m: Module) -> tuple[Signal, Signal]:
        """Count free and complete buffers; return the number of the buffer read next, and the strobe for a full one."""
        config, buffer_bits = self._config, ceil_log2(self._config.acc_buffers)
        free = Signal(range(config.acc_buffers + 1), init=config.acc_buffers)
        complete = Signal(range(config.acc_buffers + 1))
        read_buffer = Signal(buffer_bits)
        filled = Signal()
        # `release` and `take` are late in their cycles, so they are counted one cycle later.
        released = delayed(m, self.acc.release, 1, "released", control=True)
        taken = delayed(m, self.take, 1, "taken", control=True)
        kept = Signal.like(complete)
        m.d.comb += [kept.eq(complete + filled - released), self.free.eq(free > taken)]
        m.d.sync += [
            free.eq(free + released - taken), complete.eq(kept),
            self.acc.full.eq(Mux(self.acc.release, kept > 1, kept != 0)),
        ]
        with m.If(self.acc.release):
            m.d.sync += read_buffer.eq(read_buffer + 1)
        return read_buffer, filled
