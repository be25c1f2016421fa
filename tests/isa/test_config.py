"""isa.config: limits that the docstring of Config states."""

import pytest

from tq_hw.isa.config import Config, ConfigError


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
            f"not {count * cols} bytes")


def test_the_docstring_says_so() -> None:
    assert "512 to 65536 words" in str(Config.__doc__)
