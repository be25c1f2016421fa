"""Write the C header of the link: `python -m tq_hw.boards.link.c_header > firmware/driver/tq_link_layout.h`."""

from collections.abc import Iterator

from tq_hw.boards.link import protocol
from tq_hw.isa.c_header import defines, guarded, members

__all__ = ["header"]


def header() -> str:
    """Return the whole header."""
    return guarded("TQ_LINK_LAYOUT_H", "python -m tq_hw.boards.link.c_header", "boards/link/protocol.py", _lines())


def _lines() -> Iterator[str]:
    yield from defines("The link of docs/reference/link.md: versions and sizes.", (
        ("link_version", protocol.VERSION), ("link_most_bytes", protocol.MOST_BYTES),
        ("link_identity_bytes", 4 * len(protocol.IDENTITY))))
    syncs = {"request": protocol.REQUEST_SYNC, "answer": protocol.ANSWER_SYNC}
    yield from defines("Sync bytes.", ((f"link_{kind}_sync{number}", byte) for kind, sync in syncs.items()
                                       for number, byte in enumerate(sync)), "#04x")
    yield from defines("Commands of a request.", members("link", protocol.Command), "#04x")
    yield from defines("Status of an answer.", members("result", protocol.Result))
    yield from defines("Byte offsets in the answer to OPEN.", ((f"identity_{word.name}", word.offset_bytes)
                                                               for word in protocol.IDENTITY))


if __name__ == "__main__":
    print(header(), end="")
