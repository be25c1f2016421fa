"""benches/spread.py: parts of fuzzers and mutation runs, and what comes of them."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tq_hw.model.errors import OptionError

sys.path.insert(0, str(Path(__file__).parents[1] / "benches"))
spread: Any = importlib.import_module("spread")


def test_parts_cover_all_inputs_once() -> None:
    words = ["--inputs", "25", "--models", "cases", "--first", "7"]
    assert list(spread.parts("fuzz_models.py", words, 10)) == [
        ["--models", "cases", "--first", "7", "--inputs", "10"],
        ["--models", "cases", "--first", "17", "--inputs", "10"],
        ["--models", "cases", "--first", "27", "--inputs", "5"]]
    assert list(spread.parts("fuzz_graphs.py", ["--graphs", "3"], 2)) == [
        ["--seed", "0", "--graphs", "2"], ["--seed", "2", "--graphs", "1"]]
    names = [words[0] for words in spread.parts("mutation.py", [], 1)]
    assert len(names) == len(set(names)) > 10


@pytest.mark.parametrize(("script", "words", "message"), [
    ("area.py", [], "area.py: expected one of fuzz_graphs.py, "),
    ("fuzz_models.py", [], "--inputs is missing: how many inputs are there to be?"),
    ("fuzz_models.py", ["--inputs", "x"], "--inputs: expected a number, found 'x'")])
def test_bad_words(script: str, words: list[str], message: str) -> None:
    with pytest.raises(OptionError) as error:
        list(spread.parts(script, words, 1))
    assert str(error.value).startswith(message)


def test_graphs_in_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert spread.main(["--jobs", "1", "--part", "1", "fuzz_graphs.py", "--graphs", "2", "--config", "tiny"]) == 0
    assert "2 parts, 0 with findings or errors" in capsys.readouterr().out
    assert spread.main(["--jobs", "1", "fuzz_graphs.py", "--graphs", "1", "--config", "nothing"]) == 2
    assert "no configuration 'nothing'" in capsys.readouterr().out
