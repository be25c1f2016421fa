"""The committed pages about the instruction set and the compiled file are what the tables generate."""

from pathlib import Path

from tq_hw.isa import command_rules, program_reference, program_rules
from tq_hw.isa.layout import UNITS
from tq_hw.isa.reference import page
from tq_hw.isa.uop import Alu

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "isa.md"
FILE_PAGE = PAGE.with_name("compiled-file.md")


def test_committed_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tq_hw.isa.reference > docs/reference/isa.md"


def test_page_names_every_field_and_operation() -> None:
    text = page()
    for table in UNITS.values():
        for name in table.fields:
            assert f"`{name}`" in text
    for operation in Alu:
        assert f"| {operation.value} | `{operation.name}` |" in text


def test_committed_page_of_the_file_is_current() -> None:
    assert FILE_PAGE.read_text(encoding="utf-8") == program_reference.page(), (
        "run: python -m tq_hw.isa.program_reference > docs/reference/compiled-file.md")


def test_page_of_the_file_names_the_limits_that_hold() -> None:
    text = " ".join(FILE_PAGE.read_text(encoding="utf-8").split())
    for limit in (program_rules.MOST_MEMORY_BYTES, program_rules.MOST_TENSOR_BYTES, program_rules.MOST_PORTS,
                  program_rules.MOST_NAME_BYTES, program_rules.MOST_JSON_BYTES, command_rules.MOST_WORDS,
                  command_rules.MOST_OPERATION_CYCLES, command_rules.FREE_CYCLES):
        assert f"{limit:,}" in text
    assert f"at most {command_rules.CYCLES_PER_ESTIMATE} times" in text
    assert command_rules.MOST_CYCLES == 1 << 32
    assert "never more than 2^32" in text
