"""The interfaces between the units.

All client ports are seen from the client (the unit that makes the request). Latencies are in isa/latency.py.
"""

from typing import Any

from amaranth import Cat, signed, unsigned
from amaranth.hdl import Shape, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.fields import fields_of
from tq_hw.isa.layout import UNITS, Field, Unit

__all__ = ["AccReadSignature", "OperationLayout", "ReadSignature", "TableWriteSignature",
           "WriteSignature", "bank_of", "granted", "operation_signature"]


class OperationLayout(data.StructLayout):
    """All fields of one unit's registers at the time of its RUN.

    With `config`, only the fields that the configuration has. Units made without one have the same fields in every
    configuration.
    """

    def __init__(self, unit: Unit, config: Config | None = None) -> None:
        def shape(field: Field) -> Shape:
            return signed(field.bits) if field.signed else unsigned(field.bits)
        fields = UNITS[unit].fields if config is None else [f.name for f in fields_of(unit, config)]
        super().__init__({name: shape(UNITS[unit].fields[name][1]) for name in fields})


def operation_signature(unit: Unit, config: Config | None = None) -> stream.Signature:
    """Return the stream of operations to a unit's engine; valid only once all tokens are taken."""
    return stream.Signature(OperationLayout(unit, config))


class ReadSignature(wiring.Signature):
    """Read port of the scratchpad.

    Members
    -------
    en : Out(1), read a word; must come from registers
    addr : Out(16), word address
    wants : Out(BANKS), one-hot: the bank of `addr` while `en`, else 0. In registers of its own where the path to the
        grant is long
    taken : In(BANKS), combinational: banks that clients of higher priority read in this cycle. `granted` says whether
        the read of this cycle is accepted. No client precedes the array's feeds; two of them on one bank in one cycle
        are BANK_CONFLICT
    data : In(8 * word_bytes), valid READ_LATENCY_CYCLES (array unit: ARRAY_READ_LATENCY_CYCLES) after the grant
    beyond : In(1), strobe: the address granted in the cycle before is beyond the last word
    """

    def __init__(self, config: Config) -> None:
        super().__init__({
            "en": Out(1), "addr": Out(16), "wants": Out(BANKS), "taken": In(BANKS), "data": In(8 * config.word_bytes),
            "beyond": In(1)})


def bank_of(en: Any, addr: Any) -> Value:
    """Return `wants` of a ReadSignature."""
    bank = addr[:ceil_log2(BANKS)]
    return Cat(en & (bank == number) for number in range(BANKS))


def granted(port: Any) -> Value:
    """Return whether the read that `port` (of a ReadSignature) requests is accepted; 1 too when it requests none."""
    refused: Value = (port.wants & port.taken).any()
    return ~refused


class WriteSignature(wiring.Signature):
    """Write port of the scratchpad.

    Members
    -------
    en : Out(1); addr : Out(16); data : Out(8 * word_bytes); mask : Out(word_bytes), bytes written
    grant : In(1), combinational: the write of this cycle is accepted (the vector unit's always is). A read
        granted two or more cycles after a granted write returns the new word
    beyond : In(1), strobe: the address granted in the cycle before is beyond the last word
    """

    def __init__(self, config: Config) -> None:
        super().__init__({
            "en": Out(1), "addr": Out(16), "data": Out(8 * config.word_bytes),
            "mask": Out(config.word_bytes), "grant": In(1), "beyond": In(1)})


class AccReadSignature(wiring.Signature):
    """The vector unit's interface to the accumulators.

    Members
    -------
    full : In(1), the oldest buffer not yet released is complete
    release : Out(1), strobe: free the oldest complete buffer (its last word has been granted)
    en : Out(1), read word `word` of the oldest complete buffer; only while `full`
    word : Out(range(acc_words))
    grant : In(1), combinational
    data : In(32 * cols), ACC_READ_LATENCY_CYCLES after a granted cycle, held until the next one's
    """

    def __init__(self, config: Config) -> None:
        super().__init__({
            "full": In(1), "release": Out(1), "en": Out(1), "word": Out(range(config.acc_words)),
            "grant": In(1), "data": In(32 * config.cols)})


class TableWriteSignature(wiring.Signature):
    """Writes of registers beyond the operation's own: folding table, micro-operations.

    Seen from the control side. `index` counts from FOLD_BASE or UOP_BASE. Happens only while the
    unit's engine is idle.
    """

    def __init__(self) -> None:
        super().__init__({"en": Out(1), "index": Out(10), "data": Out(32)})
