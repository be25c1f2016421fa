"""The issue stage: steps wait here for earlier results, parameters, accumulators and words."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.signatures import AccReadSignature, ReadSignature, bank_of, granted
from tq_hw.hdl.vector.beats import Beats
from tq_hw.hdl.vector.steps import StepLayout
from tq_hw.isa.config import BANKS, Config

__all__ = ["STAGE_ISSUED", "Issue", "at_stage"]

#: A step leaves Issue, through a register, one cycle after its start.
STAGE_ISSUED = 1

#: A step's requests: words of the streams (for the port, and by bank for the grant), an accumulator word, a complete
#: buffer, and whether the step is the last to use that buffer.
_Wants = data.StructLayout({"a_read": 1, "b_read": 1, "a_wants": BANKS, "b_wants": BANKS, "acc_read": 1, "use_acc": 1,
                            "release": 1, "a_bank": range(BANKS), "b_bank": range(BANKS)})


class Issue(wiring.Component):
    """Start steps in order. Nothing stalls after this stage.

    The first step of a run waits at the input until everything that the run reads is available. A step that passes
    goes into one of two entries. The front entry makes the requests, and its step stays until all of its words are
    granted. So whether the input moves does not depend on a grant, which is late in its cycle. Waits are counted in
    cycles in which the front entry is free. A wait for words can therefore not make them too short, but they may be
    one cycle too long.

    Rules for the first step of a run, with `latency` from the start of a beat to its result in the register file:
    * a register written by the newest run that wrote any: beat n starts `latency` after the beat n that wrote it. If
        one of the two runs is longer than a register, it may overlap other registers: `latency` after the last beat.
      Registers of earlier runs: `latency` after their last beat;
    * any run waits for the end of a reduction, and for the last word of an output beat of several words;
    * a stream waits for the outputs of earlier operations, and of earlier runs of its chunk;
    * a run that would overtake an activation on its way to the output waits until that is written.

    Parameters
    ----------
    register_latency_cycles, reduce_latency_cycles, output_latency_cycles : from the start of a beat to the first
        cycle in which a dependent beat may start
    activation_cycles : additional latency of outputs through an activation; 0: there are no activation lanes

    Members
    -------
    i : In(stream of StepLayout)
    o : Out(StepLayout), o_valid : Out(1): the step that started in the cycle before
    a, b : Out(ReadSignature); b is shared: `b_busy` : Out(1), this stage wants b in this cycle
    acc : Out(AccReadSignature)
    a_granted, b_granted : Out(1), strobes, in the cycle of the grant
    params_ready : In(1), the next parameter block is loaded; params_take : Out(1), strobe: the next step uses it
    params_buffer : Out(2), the parameter block of the step at `o`
    stall_acc, stall_port : Out(1), waiting for accumulators, or for a grant, in the cycle before
    """

    i: stream.Interface
    o: Any
    o_valid: Signal
    a: Any
    b: Any
    acc: Any
    b_busy: Signal
    a_granted: Signal
    b_granted: Signal
    params_ready: Signal
    params_take: Signal
    params_buffer: Signal
    stall_acc: Signal
    stall_port: Signal

    def __init__(self, config: Config, *, register_latency_cycles: int, reduce_latency_cycles: int,
                 output_latency_cycles: int, activation_cycles: int = 0) -> None:
        self._config, self._activation_cycles = config, activation_cycles
        self._register_latency, self._reduce_latency, self._output_latency = (
            register_latency_cycles, reduce_latency_cycles, output_latency_cycles)
        super().__init__({
            "i": In(stream.Signature(StepLayout(config))), "o": Out(StepLayout(config)), "o_valid": Out(1),
            "a": Out(ReadSignature(config)), "b": Out(ReadSignature(config)), "acc": Out(AccReadSignature(config)),
            "b_busy": Out(1), "a_granted": Out(1), "b_granted": Out(1), "params_ready": In(1), "params_take": Out(1),
            "params_buffer": Out(2), "stall_acc": Out(1), "stall_port": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """The input and two entries, the front one of which makes requests."""
        m = Module()
        new = self.i.payload
        wants: list[Any] = [Signal(_Wants, name=name) for name in ("asking", "queued", "come", "following")]
        asking, queued, come, following = wants
        valid, queued_valid = Signal(), Signal()
        free, passes, leaves = Signal(), Signal(), Signal()
        waits = self._hazards(m, new, passes, free)
        m.d.comb += [passes.eq(self.i.valid & ~queued_valid & ~waits), self.i.ready.eq(passes)]

        # Parameter blocks arrive in the order in which steps take them.
        buffer, next_buffer = Signal(2, init=3), Signal(2)
        takes = new.run_first & new.param_first
        m.d.comb += [self.params_take.eq(passes & takes), next_buffer.eq(buffer + takes)]
        with m.If(passes):
            m.d.sync += buffer.eq(next_buffer)

        # The two entries. The free one is written in every cycle; only steps that pass count.
        place = data.StructLayout({"step": StepLayout(self._config), "params": 2})
        m.submodules.places = places = Memory(shape=place, depth=2, init=[], attrs={"ram_style": "distributed"})
        write, read = places.write_port(), places.read_port(domain="comb")
        m.d.comb += [write.en.eq(~queued_valid), write.data.step.eq(new), write.data.params.eq(next_buffer)]
        m.d.sync += [write.addr.eq(write.addr ^ passes), read.addr.eq(read.addr ^ leaves)]

        # The late grants end here, at a few flip-flops: the steps themselves are not moved.
        m.d.comb += [
            come.a_read.eq(new.a.read), come.b_read.eq(new.b.read), come.acc_read.eq(new.acc_read),
            come.use_acc.eq(new.use_acc), come.release.eq(new.release),
            come.a_bank.eq(new.a.address), come.b_bank.eq(new.b.address),
            come.a_wants.eq(bank_of(new.a.read, new.a.address)), come.b_wants.eq(bank_of(new.b.read, new.b.address)),
            following.eq(Mux(queued_valid, queued.as_value(), come.as_value())),
        ]
        with m.If(~queued_valid):
            m.d.sync += queued.eq(come)
        with m.If(free):
            m.d.sync += [asking.eq(following), valid.eq(queued_valid | passes), queued_valid.eq(0)]
        with m.Elif(passes):
            m.d.sync += queued_valid.eq(1)

        step = read.data.step
        for name in ("a", "b"):
            port, bank, address = getattr(self, name), asking[f"{name}_bank"], step[name].address
            m.d.comb += [port.en.eq(asking[f"{name}_read"]), port.wants.eq(asking[f"{name}_wants"]),
                         port.addr.eq(Cat(bank, address[len(bank):]))]
        m.d.comb += [self.acc.en.eq(asking.acc_read & self.acc.full), self.acc.word.eq(step.acc_word)]
        # A grant clears its request. When the front entry becomes free, the requests of the next step are loaded.
        goes = {"a": granted(self.a), "b": granted(self.b), "acc": self.acc.full & self.acc.grant}
        for name, wanted in (("a", "a_read"), ("a", "a_wants"), ("b", "b_read"), ("b", "b_wants"), ("acc", "acc_read")):
            with m.If(free):
                m.d.sync += asking[wanted].eq(Mux(queued_valid | passes, following[wanted], 0))
            with m.Elif(goes[name]):
                m.d.sync += asking[wanted].eq(0)
        not_full = Signal()
        refused = Signal()
        m.d.comb += [
            not_full.eq(valid & asking.use_acc & ~self.acc.full),
            refused.eq(~goes["a"] | ~goes["b"] | asking.acc_read & ~self.acc.grant),
            free.eq(~(refused | not_full)), leaves.eq(valid & free),
            self.acc.release.eq(leaves & asking.release),
            self.a_granted.eq(self.a.en & goes["a"]), self.b_granted.eq(self.b.en & goes["b"]),
            self.b_busy.eq(self.b.en),
        ]
        # Results that are late in the cycle go into registers.
        m.d.sync += [self.o.eq(step), self.params_buffer.eq(read.data.params), self.o_valid.eq(leaves),
                     self.stall_acc.eq(not_full), self.stall_port.eq(refused & ~not_full)]
        return m

    def _hazards(self, m: Module, new: Any, passes: Value, free: Value) -> Value:
        """Return whether the first step of the run at the input must wait."""
        register = self._register_latency - 1
        # `free` is late in its cycle, so the timers count it one cycle later, as `freed`. Of two steps that pass in
        # cycles x and y, the second starts as many free cycles after the first as there are in x..y - 1. A timer set to
        # n expires after n of them in x..y - 2. With n > 1 the first step has started by then, so cycle y - 1 adds one
        # more, free or not: n + 1. With a smaller n, cycle y - 1 would have to be free, so the timer is set to n + 1.
        # Its name in the netlist is a part of the placer's luck: see the seed of boards/catalog/ulx3s_85f.py.
        freed = delayed(m, free, 1, "turn", control=True)

        def timer(name: str, cycles: int, counts: Value = freed) -> Any:
            # Whether it runs is a register of its own, because the wires from here are long.
            layout = data.StructLayout({"left": range(cycles + 1), "runs": 1})
            count: Any = Signal(layout, name=name)
            with m.If(counts & count.runs):
                m.d.sync += [count.left.eq(count.left - 1), count.runs.eq(count.left != 1)]
            return count

        def start(timer: Any, cycles: int) -> list[Any]:
            return [timer.left.eq(cycles), timer.runs.eq(cycles != 0)]

        # Register writes: since beat 0 and the last beat of the newest run that wrote; since the last beat before it.
        since_last, before = timer("since_last", register), timer("before", register)
        writes = passes & new.writes
        writing = Signal()
        # During the run that writes, only its beats count: a later beat n may not start before its beat n.
        since_first = timer("since_first", register + 1, Mux(writing, writes, freed))
        with m.If(passes & new.fire):
            m.d.sync += writing.eq(new.writes & ~new.run_last)
        with m.If(writes):
            m.d.sync += start(since_last, register)
            with m.If(~writing):
                m.d.sync += [before.eq(since_last), *start(since_first, register + 1)]

        reducing = timer("reducing", self._reduce_latency - 1)
        with m.If(passes & new.reduces):
            m.d.sync += start(reducing, self._reduce_latency - 1)

        # Outputs: of this operation (at the first step of the next one: of the one before), and of all before it.
        output, later = self._output_latency - 1, self._activation_cycles
        newest_output, older_output = timer("newest_output", output + later), timer("older_output", output + later)
        with m.If(passes & new.run_first & new.op_first):
            m.d.sync += older_output.eq(newest_output)
        outputs = passes & new.outputs
        with m.If(outputs):
            m.d.sync += start(newest_output, output)

        # An output beat of several words takes cycles to write; the next run must not follow too closely.
        beats = Beats(self._config)
        words = [beats.steps(code) - 1 for code in range(4)]
        waits_for = [cycles + 1 if cycles else 0 for cycles in words]
        writing_words = timer("writing_words", max(1, *waits_for))
        with m.If(outputs), m.Switch(new.out_type):
            for code, cycles in enumerate(waits_for):
                with m.Case(code):
                    m.d.sync += start(writing_words, cycles)

        ends: dict[str, Value] = {
            "newest_beat": since_first.runs, "newest_run": since_last.runs, "older_runs": before.runs,
            "outputs": newest_output.runs, "operation": older_output.runs}
        everything = reducing.runs | writing_words.runs | (new.param_first & ~self.params_ready)
        if later:
            activating = timer("activating", later + max(waits_for))
            with m.If(passes & new.activates):
                m.d.sync += [*start(newest_output, output + later), *start(activating, later + max(waits_for))]
            everything = everything | new.behind_activation & activating.runs
        return Cat(*(new.waits[name] & runs for name, runs in ends.items()), new.run_first & everything).any()


def at_stage(m: Module, value: Any, stage: int, name: str, *, control: bool = False) -> Any:
    """Return part of the step that Issue gives out, delayed to a stage of the lanes."""
    return delayed(m, value, stage - STAGE_ISSUED, name, control=control)
