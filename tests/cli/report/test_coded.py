"""The line of the summary about compressed weights."""

from dataclasses import replace

from tq_hw.cli.report.coded import coded_figures, coded_text
from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.isa.memory import Memory
from tq_hw.model.samples.layers import sample


def test_says_what_is_saved() -> None:
    """Bytes of the image that are read are those of coded runs and the others."""
    config = replace(PRESETS["n8"], compressed_weights=1)
    program = compile_model(sample("fully_connected", 3), config, memory=Memory(30, 1.45)).program
    found = coded_figures(program)
    sizes = found["compressed"]
    assert sizes["rows_bytes"] == 628 * 8 and 0 < sizes["coded_bytes"] < sizes["rows_bytes"] // 3
    (name, text), = coded_text(dict(found))
    ratio = sizes["rows_bytes"] / sizes["coded_bytes"]
    assert (name, text) == ("compressed", f"5,024 bytes of constants stored as {sizes['coded_bytes']:,}, {ratio:.2f} "
                            f"times smaller; {sizes['plain_bytes']:,} uncompressed")
    nothing = {"compressed": {"rows_bytes": 0, "coded_bytes": 0, "plain_bytes": 12}}
    assert coded_text(nothing) == [("compressed", "0 bytes of constants stored as 0; 12 uncompressed")]


def test_says_nothing_without_the_option() -> None:
    assert coded_figures(compile_model(sample("fully_connected", 3), PRESETS["n8"]).program) == {}
    assert coded_text({}) == []
