"""Detect from nextpnr's log that a design is larger than its device: the placers would search for room endlessly."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tq_hw.model.errors import ToolError

__all__ = ["watch_room"]

_USED = re.compile(r"^Info:\s+(\w+):\s+(\d+)/\s*(\d+)\s+\d+%$", re.MULTILINE)
_HEAD = "Device utilisation:"


def watch_room(name: str, arguments: Sequence[str], folder: Path) -> Callable[[float], None]:
    """Return a function to call while nextpnr runs, as `run_tool`'s `progress`.

    It raises ToolError when the `--log` of `arguments` says that the device has too little of something; without a log
    it does nothing.
    """
    log = folder / arguments[arguments.index("--log") + 1] if "--log" in arguments else None
    seen = False

    def look(_seconds: float) -> None:
        nonlocal seen
        if seen or log is None or not log.is_file():
            return
        uses = log.read_text(encoding="utf-8", errors="replace").partition(_HEAD)[2]
        # An empty line ends the table.
        uses, after = uses.partition("\n\n")[:2]
        if not after:
            return
        seen = True
        over = [f"{int(used):,} {kind} of {int(have):,}" for kind, used, have in _USED.findall(uses)
                if int(used) > int(have)]
        if over:
            raise ToolError(f"{name}: the design does not fit: it needs {' and '.join(over)}; a smaller configuration "
                            "would help")

    return look
