"""User patterns: the guide's, what they must not do, and mistakes in their file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.own import load_patterns
from tq_hw.compiler.rewrite.rewrite import Pattern, Rewrite, Subject, changed, pattern, rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Operator
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

CONFIG = load_config("n16")
_HEAD = "from tq_hw.compiler.rewrite.rewrite import pattern\n\n"


@pattern("RELU")
def wrong(graph: Subject, op: Operator) -> Rewrite | None:
    return Rewrite([op], [], (op.outputs[0], op.inputs[0]))


def _model() -> ModelBuilder:
    b = ModelBuilder("net")
    x = b.add("RELU", [b.input((1, 2, 3, 4), scale=0.1)], scale=0.2)
    b.add("TANH", [b.add("ADD", [x, x], scale=0.3)])
    return b


def _refusal(*patterns: Pattern) -> str:
    b = _model()
    with pytest.raises(OptionError) as caught:
        compile_model(parse_model(b.build(len(b.tensors) - 1), "net"), CONFIG, patterns=patterns)
    return str(caught.value)


def test_a_wrong_pattern_is_refused() -> None:
    assert _refusal(wrong) == "the patterns change output 0 at 10 of 24 elements (random inputs, seed 0)"


def test_a_pattern_without_end_is_refused() -> None:
    @pattern("ADD")
    def turn(graph: Subject, op: Operator) -> Rewrite | None:
        return Rewrite([op], [changed(op, inputs=op.inputs[::-1])])
    assert _refusal(turn) == "pattern turn matches its own result: after 64 passes there is still something to rewrite"

    @pattern("ADD")
    def there(graph: Subject, op: Operator) -> Rewrite | None:
        return Rewrite([op], [replace(changed(op), op="MINIMUM")])

    @pattern("MINIMUM")
    def back(graph: Subject, op: Operator) -> Rewrite | None:
        return Rewrite([op], [replace(changed(op), op="ADD")])
    assert _refusal(there, back) == (
        "the patterns there, back undo each other: after 64 passes there is still something to rewrite")


def test_a_broken_model_is_refused() -> None:
    @pattern("ADD")
    def lose(graph: Subject, op: Operator) -> Rewrite | None:
        return Rewrite([op], [])
    assert _refusal(lose) == ("the model does not run after the patterns: operator 2 (TANH): input 0 (tensor 2) "
                              "is not computed yet")


def test_the_pattern_of_the_guide(tmp_path: Path) -> None:
    """It is read from the guide."""
    guide = Path(__file__).parents[3] / "docs" / "guide" / "write-a-pattern.md"
    path = tmp_path / "mine.py"
    path.write_text(guide.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0], encoding="utf-8")
    patterns = load_patterns(path)
    assert [each.name for each in patterns] == ["pool_of_a_pool"]
    b = ModelBuilder("net")
    x = b.input((1, 13, 16, 3), scale=0.1)
    for _ in range(2):
        x = b.add("MAX_POOL_2D", [x], filter_height=2, filter_width=2, stride_h=2, stride_w=2, padding="VALID")
    model = parse_model(b.build(x), "net")
    assert [op.options["filter_width"] for op in rewrite(model.main, patterns).operators] == [4]
    inputs = random_inputs(model, 1)
    found = execute(compile_model(model, CONFIG, patterns=patterns).program, inputs).outputs
    np.testing.assert_array_equal(found[0], run(model, inputs).outputs[0])


@pytest.mark.parametrize(("text", "message"), [
    ("x = 1\n", "has no patterns; decorate functions with @pattern of tq_hw.compiler.rewrite.rewrite"),
    ("x = 1 / 0\n", "cannot be run: ZeroDivisionError: division by zero"),
    ("raise SystemExit(7)\n", "cannot be run: SystemExit: 7"),
    (f"{_HEAD}@pattern('AVG_POOL_2D')\ndef f(graph, op):\n    return None\n",
     ": pattern f: there is no operator 'AVG_POOL_2D'; did you mean AVERAGE_POOL_2D?"),
    (f"{_HEAD}@pattern()\ndef f(graph, op):\n    return None\n",
     ": pattern f: names no operator, so it is never called; for example @pattern(\"ADD\")")])
def test_a_file_without_patterns(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(OptionError) as caught:
        load_patterns(path)
    assert str(caught.value) == f"{path}{'' if message.startswith(':') else ' '}{message}"


@pytest.mark.parametrize(("text", "message"), [
    ("def f(graph, op):\n    return 3\n", "expected a Rewrite or None, found int"),
    ("def f(graph):\n    return None\n", "TypeError: f() takes 1 positional argument but 2 were given")])
def test_a_mistake_in_a_pattern_is_its_own(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"{_HEAD}@pattern('TANH')\n{text}", encoding="utf-8")
    b = ModelBuilder("net")
    model = parse_model(b.build(b.add("TANH", [b.input((1, 4), scale=0.1)], scale=1 / 128)), "net")
    with pytest.raises(OptionError) as caught:
        rewrite(model.main, load_patterns(path))
    assert str(caught.value) == f"{path}: pattern f at operator 0 (TANH): {message}"


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        load_patterns(tmp_path / "none.py")
    assert str(caught.value) == f"{tmp_path / 'none.py'} is not a Python file; give one with patterns"
