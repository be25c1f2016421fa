"""The state of a board's DRAM after power-up, as the host reads it."""

import time
from dataclasses import asdict, dataclass
from typing import Protocol

from tq_hw.boards.link.port import LinkError
from tq_hw.boards.link.protocol import DramState

__all__ = ["DramLink", "DramStatus", "Window", "await_dram", "described", "in_words", "read_dram"]

#: Levelling takes some milliseconds, which become seconds in a slow emulation.
_PATIENCE_SECONDS = 30.0


class DramLink(Protocol):
    """Access to a board."""

    def dram_words(self) -> list[int]:
        """Return DRAM_REGISTERS."""
        ...


@dataclass(frozen=True)
class Window:
    """Settings at which a byte is right: `length` delays from `first` on, at one bitslip; `delay` is the one in use."""

    first: int
    length: int
    slip: int
    delay: int


@dataclass(frozen=True)
class DramStatus:
    """The state, the windows of the bytes, and the bytes that failed."""

    state: DramState
    windows: tuple[Window, ...]
    failed: tuple[int, ...]


def described(status: DramStatus) -> dict[str, object] | None:
    """Return a status for JSON, None for a memory without levelling."""
    if status.state is DramState.NONE:
        return None
    return {"state": status.state.name, "windows": [asdict(window) for window in status.windows]}


def in_words(status: DramStatus) -> str:
    """Return the result for each byte as a sentence, "" for a memory without levelling."""
    if status.state is DramState.NONE:
        return ""
    return "; ".join(f"byte {lane}: {window.length} delays from {window.first} on at bitslip {window.slip}, "
                     f"{window.delay} is set" for lane, window in enumerate(status.windows))


def read_dram(link: DramLink) -> DramStatus:
    """Read the status over an open link; LinkError for an unknown state."""
    word, *windows = link.dram_words()
    try:
        state = DramState(word & 0xFF)
    except ValueError:
        raise LinkError(f"the state of the board's DRAM is not valid: {word & 0xFF}") from None
    return DramStatus(state, tuple(Window(*window.to_bytes(4, "little")) for window in windows),
                      tuple(lane for lane in range(24) if word >> 8 + lane & 1))


def await_dram(link: DramLink) -> DramStatus:
    """Wait until the DRAM is up; LinkError says which bytes failed, or that levelling does not end."""
    until = time.monotonic() + _PATIENCE_SECONDS
    status = read_dram(link)
    while status.state is DramState.UNDER_WAY:
        if time.monotonic() > until:
            raise LinkError(f"the levelling of the board's DRAM has not finished after {_PATIENCE_SECONDS:g} seconds: "
                            "check the clock of the DRAM's controller")
        time.sleep(0.01)
        status = read_dram(link)
    if status.state is DramState.FAILED:
        raise LinkError(f"the board's DRAM did not come up: no setting reads byte {_listed(status.failed)} correctly; "
                        "reset the board, or build it for the DRAM chip that it has")
    return status


def _listed(lanes: tuple[int, ...]) -> str:
    return " and byte ".join(map(str, lanes))
