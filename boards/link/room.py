"""The space of programs in a board's memory."""

from collections.abc import Iterable

from tq_hw.isa.program import Program
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import OptionError

__all__ = ["aligned", "check_program", "memory_bytes"]

_ALIGN = 256


def memory_bytes(programs: Iterable[Program]) -> int:
    """Return the total space of programs in a board's memory."""
    return sum(aligned(program.region_bytes(region)) for program in programs for region in range(3))


def check_program(program: Program, fingerprint: int, most_bytes: int) -> None:
    """Raise OptionError unless a program is for a board's configuration and fits into its memory."""
    if program.fingerprint != fingerprint:
        raise OptionError(f"{program.name}: is compiled for configuration {program.config.name!r} (fingerprint "
                          f"{program.fingerprint:08x}), the board has {fingerprint:08x}; compile it for the board's "
                          "configuration")
    needed = memory_bytes([program])
    if needed > most_bytes:
        raise OptionError(f"{program.name}: needs {needed} bytes of memory (image {len(program.image)}, arena "
                          f"{program.arena_bytes}, state {len(program.state)}), the board has {most_bytes}")


def aligned(size_bytes: int) -> int:
    """Return a region's size rounded up to its alignment."""
    return ceil_div(size_bytes, _ALIGN) * _ALIGN
