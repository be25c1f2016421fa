"""Memories that map to block RAM without extra logic."""

from typing import Any

from amaranth import Module, Signal
from amaranth.hdl import ValueLike
from amaranth.lib.memory import Memory, ReadPort

__all__ = ["block_memory", "block_read"]


def block_memory(shape: Any, depth: int) -> Any:
    """Return a memory whose user never reads a word in the cycle in which it is written.

    For that case a synchronous read port of Amaranth promises the old word. ECP5 block RAM cannot do this, so Yosys
    builds it from a register per data bit. The attribute permits any word; Yosys applies it only when it merges an
    asynchronous read port with the register after it (`block_read`).
    """
    attributes: Any = {"no_rw_check": 1}
    return Memory(shape=shape, depth=depth, init=[], attrs=attributes)


def block_read(m: Module, memory: Any, en: ValueLike, addr: ValueLike, name: str) -> Any:
    """Return the word at `addr` of the last cycle with `en`."""
    port: ReadPort = memory.read_port(domain="comb")
    word = Signal(memory.shape, name=name, reset_less=True)
    m.d.comb += port.addr.eq(addr)
    with m.If(en):
        m.d.sync += word.eq(port.data)
    return word
