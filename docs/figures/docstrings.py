"""Convert the lists of members in docstrings to Markdown lists, for the API pages."""

import re
from typing import Any

from griffe import Extension, Object

__all__ = ["Lists", "with_lists"]

_HEADING = re.compile(r"^(Members|Parameters|Arguments|Returns|Raises)\n-{3,}\n((?:.+\n?)+)", re.M)
_ITEM = re.compile(r"^(\S.*?) : ", re.M)


def with_lists(text: str) -> str:
    """Return a docstring whose sections `Members`, `Parameters`, ... are a bold word and a list."""
    def section(found: re.Match[str]) -> str:
        items: list[str] = []
        for line in found[2].splitlines():
            if line.startswith(" ") and items:
                items[-1] += f" {line.strip()}"
            else:
                items.append(_ITEM.sub(r"`\1`: ", line))
        return f"**{found[1]}**\n\n" + "\n".join(f"- {item}" for item in items) + "\n"
    return _HEADING.sub(section, text)


class Lists(Extension):
    """Convert every docstring as it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)
