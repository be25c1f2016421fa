"""Memories that become block RAM and nothing else."""

from typing import Any

from amaranth import Module, Signal
from amaranth.hdl import ValueLike
from amaranth.lib.memory import Memory, ReadPort

__all__ = ["block_memory", "block_read"]


def block_memory(shape: Any, depth: int) -> Any:
    """Return a memory whose user never reads a word in the cycle in which it is written.

    A synchronous read port of Amaranth promises the old word in that case. ECP5 block RAM cannot give it, and
    Yosys then builds it from a register per data bit. The attribute, which Yosys heeds only where it joins an address
    register with an asynchronous read port (`block_read`), says that any word will do.
    """
    attributes: Any = {"no_rw_check": 1}
    return Memory(shape=shape, depth=depth, init=[], attrs=attributes)


def block_read(m: Module, memory: Any, en: ValueLike, addr: ValueLike, name: str) -> Any:
    """Return the word at `addr` of the last cycle with `en`; use it in the next cycle only."""
    port: ReadPort = memory.read_port(domain="comb")
    address = Signal(range(memory.depth), name=f"{name}_address", reset_less=True)
    with m.If(en):
        m.d.sync += address.eq(addr)
    m.d.comb += port.addr.eq(address)
    return port.data
