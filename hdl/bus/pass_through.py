"""Connects the ports of a component to an inner one's ports of the same names, or of names with other prefixes."""

from collections.abc import Mapping
from typing import Any

from amaranth.lib.wiring import Member, Out

__all__ = ["pass_through"]


def pass_through(members: Mapping[str, Member], outer: Any, inner: Any, prefix: str = "",
                 inner_prefix: str = "") -> list[Any]:
    """Return the assignments between `outer.<prefix><name>` and `inner.<inner_prefix><name>`, as `inner` flows."""
    found = []
    for name, member in members.items():
        there, here = getattr(outer, prefix + name), getattr(inner, inner_prefix + name)
        found.append(there.eq(here) if member.flow is Out else here.eq(there))
    return found
