"""The savings of compressed weights: bytes of constants in coded runs, and bytes read for them."""

from typing import Any

from tq_hw.isa.layout import Unit
from tq_hw.isa.operations import read_stream
from tq_hw.isa.program import REGION_IMAGE, Program

__all__ = ["coded_figures", "coded_text"]


def coded_figures(program: Program) -> dict[str, dict[str, int]]:
    """Return `compressed` for a report, for a configuration that decodes weights: bytes that one inference loads.

    `rows_bytes` are decoded from `coded_bytes`; `plain_bytes` of the image are not compressed.
    """
    config = program.config
    if not config.compressed_weights:
        return {}
    found = {"rows_bytes": 0, "coded_bytes": 0, "plain_bytes": 0}
    for operation in read_stream(program.commands, config).operations[Unit.LOAD]:
        f = operation.fields
        if f["coded"]:
            found["rows_bytes"] += f["count0"] * f["count1"] * config.cols
            found["coded_bytes"] += f["run_bytes"]
        elif f["region"] == REGION_IMAGE:
            found["plain_bytes"] += f["run_bytes"] * f["count2"] * f["count3"]
    return {"compressed": found}


def coded_text(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the summary's text, "" if nothing is decoded."""
    if "compressed" not in report:
        return []
    rows, coded, plain = (report["compressed"][name] for name in ("rows_bytes", "coded_bytes", "plain_bytes"))
    smaller = f", {rows / coded:.2f} times smaller" if coded else ""
    return [("compressed", f"{rows:,} bytes of constants stored as {coded:,}{smaller}; {plain:,} uncompressed")]
