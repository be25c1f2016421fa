"""The hardware counters of a run, in words."""

from collections.abc import Mapping

__all__ = ["WAITS", "most_waited", "wait_rows"]

#: The wait counters of isa/control.py: which unit, and for what. Several may count in one cycle.
WAITS = {
    "fetch_stall": ("fetch", "commands from memory"),
    "load_token": ("load", "another unit, to free what it overwrites (tokens)"),
    "load_port": ("load", "memory, or a bank of the scratchpad"),
    "array_token": ("array", "another unit, usually its inputs or weights (tokens)"),
    "array_acc": ("array", "a free accumulator buffer: the vector unit is behind"),
    "array_weight": ("array", "its weights, which come from the scratchpad"),
    "vector_token": ("vector", "another unit, usually its inputs (tokens)"),
    "vector_acc": ("vector", "sums of the array"),
    "vector_port": ("vector", "a bank of the scratchpad"),
    "store_token": ("store", "another unit, usually what it stores (tokens)"),
    "store_port": ("store", "memory, or a bank of the scratchpad"),
}


def wait_rows(counters: Mapping[str, int]) -> list[tuple[str, str, int, float]]:
    """Return unit, awaited event, cycles and their share of the run's, longest first."""
    rows = [(unit, what, counters[name], counters[name] / max(counters["cycles"], 1))
            for name, (unit, what) in WAITS.items() if counters[name]]
    return sorted(rows, key=lambda row: -row[2])


def most_waited(counters: Mapping[str, int]) -> str:
    """Return the longest wait of a unit that computes, as text."""
    rows = [row for row in wait_rows(counters) if row[0] in ("array", "vector")]
    if not rows:
        return "array and vector unit never waited"
    unit, what, cycles, share = rows[0]
    return f"{unit} for {what}: {cycles:,} cycles, {share:.0%}"
