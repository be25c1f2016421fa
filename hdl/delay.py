"""Chains of registers."""

from typing import Any

from amaranth import Module, Signal

__all__ = ["delayed"]


def delayed(m: Module, value: Any, cycles: int, name: str, *, control: bool = False) -> Any:
    """Return `value` (an Amaranth value or view) as it was `cycles` clock cycles ago, of the same shape.

    `control`: the registers are reset to 0; else they keep what they hold, which saves their reset.
    """
    for n in range(cycles):
        register = Signal(value.shape(), name=f"{name}_delay{n + 1}", reset_less=not control)
        m.d.sync += register.eq(value)
        value = register
    return value
