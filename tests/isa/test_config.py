"""isa.config: the limits that the docstring of Config states."""

from dataclasses import fields
from pathlib import Path

import pytest

from tq_hw.isa.config import PRESETS, Config, ConfigError, load_config
from tq_hw.isa.config_reference import page
from tq_hw.isa.config_rules import RULES, broken_rule


def words(count: int, cols: int) -> Config:
    return Config("c", 4, cols, cols, count * max(4, cols))


@pytest.mark.parametrize("cols", [4, 8, 16])
def test_words_of_the_scratchpad(cols: int) -> None:
    for count in (512, 1024, 65536):
        assert words(count, cols).scratchpad_words == count
    for count in (256, 768, 131072):
        with pytest.raises(ConfigError) as error:
            words(count, cols)
        assert str(error.value) == (
            f"configuration 'c': scratchpad_bytes must be a power of two of words of {cols} bytes, 512 to 65536 words, "
            f"not {count * cols}; the nearest legal value is {min(max(count, 512), 65536) // 512 * 512 * max(4, cols)}")


def test_the_docstring_says_so() -> None:
    assert "512 to 65536 words" in str(Config.__doc__)


def test_every_key_has_a_rule_and_every_preset_obeys_them() -> None:
    assert {rule.key for rule in RULES} == {field.name for field in fields(Config)} - {"name", "design"}
    assert all(broken_rule(config) is None for config in PRESETS.values())


def test_sizes_with_units(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("rows = 8\ncols = 8\nrequantize_lanes = 4\nscratchpad_bytes = '64 KiB'\n")
    assert load_config(str(file)).fingerprint == PRESETS["n8"].fingerprint
    assert load_config(str(file)).name == "mine"


def test_the_page_is_up_to_date() -> None:
    found = Path(__file__).parents[2] / "docs" / "reference" / "configurations.md"
    assert found.read_text(encoding="utf-8") == page(), (
        "run: python -m tq_hw.isa.config_reference > docs/reference/configurations.md")
