"""Numbers of a space's file: each outside its range is one message."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tq_hw.cli.explore.target import file_target
from tq_hw.model.errors import OptionError

SPACE = "[space]\nrows = 4\ncols = 4\nrequantize_lanes = 2\nscratchpad_bytes = 8192\n"
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file, return its name."""
    def to_file(head: str, space: str = SPACE) -> str:
        (tmp_path / "s.toml").write_text(f"{head}\n{space}", encoding="utf-8")
        return str(tmp_path / "s.toml")
    return to_file


def message(path: str) -> str:
    with pytest.raises(OptionError) as caught:
        file_target(path)
    return str(caught.value).removeprefix(str(Path(path).parent) + "/")


@pytest.mark.parametrize("value", ["inf", "nan", "-1", "0", "true", "'x'", "[]", "{}", "1979-05-27", "1e300", "1e-300"])
@pytest.mark.parametrize(("key", "span"), [
    ("latency", "a whole number from 1 to 1048575"), ("bytes_per_cycle", "a number from 0.01 to 1024"),
    ("clock_mhz", "a number from 0.001 to 1000000")])
def test_a_number_out_of_range(write: Write, key: str, span: str, value: str) -> None:
    found = message(write(f"{key} = {value}"))
    assert found.startswith(f"s.toml: {key} must be {span}, not ")
    assert "\n" not in found


@pytest.mark.parametrize(("line", "expected"), [
    ("memory_bytes = -1", "s.toml: memory_bytes must be a whole number from 0 to 281474976710656, not -1"),
    ("memory_bytes = 'x'", "s.toml: memory_bytes must be a whole number from 0 to 281474976710656, not 'x'"),
    ("memory_bytes = nan", "s.toml: memory_bytes must be a whole number from 0 to 281474976710656, not nan"),
    ("preset = []", "s.toml: preset must be one of n16, n16x8, n9x8, n8, tiny, serial, not []"),
    ("preset = {a = 1}", "s.toml: preset must be one of n16, n16x8, n9x8, n8, tiny, serial, not {'a': 1}"),
    ("limits = {luts = nan}", "s.toml: limits.luts must be a number from 0.5 to 1000000000, not nan"),
    ("limits = {luts = 0}", "s.toml: limits.luts must be a number from 0.5 to 1000000000, not 0"),
    ("limits = {block_rams = 'x'}", "s.toml: limits.block_rams must be a number from 0.5 to 1000000000, not 'x'")])
def test_other_mistakes(write: Write, line: str, expected: str) -> None:
    assert message(write(line)) == expected


def test_a_space_that_would_take_hours_to_list(write: Write) -> None:
    values = list(range(3, 203))
    space = SPACE.replace("rows = 4", f"rows = {values}").replace("cols = 4", f"cols = {values}")
    space += f"acc_words = {values}\nfold_steps = {values}\n"
    assert message(write("", space)) == ("s.toml: space has 1,600,000,000 combinations of sizes, at most 10,000,000 "
                                         "can be tried; give fewer values")


def test_numbers_at_their_limits(write: Write) -> None:
    target = file_target(write('latency = 1\nbytes_per_cycle = 0.01\nclock_mhz = 0.001\nmemory_bytes = "64 KiB"'))
    assert (target.rate.latency_cycles, target.rate.bytes_per_cycle, target.clock_hz, target.memory_bytes) == (
        1, 0.01, 1000, 65536)
